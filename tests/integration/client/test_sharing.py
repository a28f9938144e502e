"""Several listeners of one app: shared options, and handlers that are methods of one object."""

import asyncio
from typing import Any

import attrs
import pytest

from streamshard import Batch, ConfigurationError, Message, ScriptedCoordinator, StreamApp, listens
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.entrypoints.listening import Listener, ListenerOptions
from tests.integration.client.script import app_over, fill, memory_streams, nothing_pending, until


def new_app() -> StreamApp:
    return StreamApp(ScriptedCoordinator(), MemoryShardLog(MemoryStreams()))


def found(app: StreamApp) -> list[tuple[str, int, int | None]]:
    return [(str(listener.key), listener.max_workers, listener.batch) for listener in app._listeners]


async def ignore(message: Message) -> None:
    """Leaves everything pending."""


class Accounts:
    """Handlers with something in common."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @listens("orders", group="billing", ack="on_success")
    async def bill(self, message: Message) -> None:
        self.seen.append(message.text("n"))

    @listens("refunds", group="audit", batch=3)
    @listens("orders", group="audit", batch=2)
    def audit(self, batch: Batch) -> None:
        """Looks at everything."""

    def help(self) -> None:
        """Handles nothing."""


class More(Accounts):
    """Inherits what is marked."""

    @listens("invoices", group="billing")
    async def invoice(self, message: Message) -> None:
        """Sends one."""


def test_options_are_shared_and_each_listener_may_have_its_own() -> None:
    app = new_app()
    shared = app.listeners(max_workers=4, batch=10)

    shared.listener("orders", group="billing")(ignore)
    shared.listener("orders", group="audit", batch=None)(ignore)
    app.listener("refunds", group="audit")(ignore)

    assert found(app) == [("orders/billing", 4, 10), ("orders/audit", 4, None), ("refunds/audit", 16, None)]


@pytest.mark.parametrize(
    ("defaults", "why"),
    [
        ({"max_workers": 0}, "max_workers: must be a whole number"),
        ({"workers": 1}, "workers: is no option of a listener"),
    ],
)
def test_defaults_are_checked_at_once(defaults: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        new_app().listeners(**defaults)


def test_marked_methods_listen_with_the_shared_options() -> None:
    app = new_app()

    app.listeners(max_workers=4).register(More())

    assert found(app) == [
        ("orders/billing", 4, None),
        ("orders/audit", 4, 2),
        ("refunds/audit", 4, 3),
        ("invoices/billing", 4, None),
    ]


def test_an_object_without_marked_methods_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="register: object has no method that is marked"):
        new_app().register(object())


def test_a_method_is_handed_records_with_its_object() -> None:
    world, accounts = memory_streams(1), Bills()

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 3)
        app, _ = app_over(world, 0)
        app.register(accounts)
        async with app:
            await until(lambda: nothing_pending(world))

    asyncio.run(scenario())
    assert accounts.seen == ["0", "1", "2"]


class Bills:
    """One handler."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @listens("orders", group="billing", ack="on_success")
    async def bill(self, message: Message) -> None:
        self.seen.append(message.text("n"))


def test_the_options_by_name_are_those_of_a_listener() -> None:
    assert set(ListenerOptions.__annotations__) == {f.name for f in attrs.fields(Listener)} - {"key", "handler"}
