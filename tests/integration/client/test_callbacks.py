"""What an application is told of its shards, and what its own faults can't do."""

import asyncio
import logging
import sys
from typing import Any, NoReturn

import pytest

from streamshard import Message, ScriptedCoordinator, StreamApp
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.core.ids import MemberId, ShardIndex, Token
from streamshard.core.replies import Status
from streamshard.entrypoints.telling import Tellings
from tests.integration.client.script import (
    ORDERS,
    Granting,
    app_over,
    fill,
    memory_streams,
    nothing_pending,
    reply,
    routing,
    until,
)


class Diary:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def plain(self, what: str) -> Any:
        """A callback."""
        return lambda member, shard, token: self.pages.append(f"{what} {shard}")

    def later(self, what: str) -> Any:
        """An async one, that takes a moment."""

        async def told(member: MemberId, shard: ShardIndex, token: Token) -> None:
            await asyncio.sleep(0.01)
            self.pages.append(f"{what} {shard}")

        return told


def test_async_callbacks_are_told_in_order_and_to_the_end() -> None:
    world, diary = memory_streams(2), Diary()

    async def scenario() -> None:
        app, _ = app_over(world, 0, 1)
        told = {"on_assigned": diary.later("got"), "on_revoked": diary.later("gave")}
        app.listener("orders", group="billing", **told)(handle_nothing)
        async with app:
            await until(lambda: len(app.members[0].session.running) == 2)

    asyncio.run(scenario())
    assert diary.pages == ["got 0", "got 1", "gave 0", "gave 1"]


async def handle_nothing(message: Message) -> None:
    raise AssertionError("there is nothing to handle")


@pytest.mark.parametrize("status", [Status.FENCED_MEMBER_EPOCH, Status.UNKNOWN_MEMBER_ID])
def test_a_member_that_is_disowned_is_told_that_it_was_fenced(status: Status) -> None:
    world, diary = memory_streams(1), Diary()
    api = ScriptedCoordinator([Granting([0])], [routing(1)])

    async def scenario() -> None:
        app = StreamApp(api, MemoryShardLog(world))
        names = ("on_assigned", "on_fenced", "on_lost", "on_revoked")
        app.listener("orders", group="billing", **{name: diary.plain(name) for name in names})(handle_nothing)
        async with app:
            await until(lambda: diary.pages == ["on_assigned 0"])
            api.then(reply(status), Granting([0]))
            await until(lambda: len(diary.pages) == 5)
        assert diary.pages[:5] == ["on_assigned 0", "on_fenced 0", "on_lost 0", "on_revoked 0", "on_assigned 0"]

    asyncio.run(scenario())


def test_a_shard_s_own_fence_is_told_too() -> None:
    world, diary = memory_streams(1), Diary()

    async def scenario() -> None:
        app, _ = app_over(world, 0)
        told = {name: diary.plain(name) for name in ("on_fenced", "on_lost")}
        app.listener("orders", group="billing", **told)(handle_nothing)
        async with app:
            await until(lambda: bool(app.members[0].session.running))
            world.fences["orders:0"].tokens[ORDERS.group] = Token(99)
            await fill(MemoryShardLog(world), 0, 1)
            await until(lambda: len(diary.pages) >= 2)
        assert diary.pages[:2] == ["on_fenced 0", "on_lost 0"]

    asyncio.run(scenario())


def raising(error: BaseException) -> Any:
    def told(member: MemberId, shard: ShardIndex, token: Token) -> NoReturn:
        raise error

    return told


def raising_later(error: BaseException) -> Any:
    async def told(member: MemberId, shard: ShardIndex, token: Token) -> NoReturn:
        raise error

    return told


@pytest.mark.parametrize("make", [raising, raising_later])
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_what_callbacks_raise_kills_nothing_and_skips_no_release(
    make: Any, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    world = memory_streams(2)
    granting = Granting([0, 1])
    api = ScriptedCoordinator([granting], [routing(2)])

    async def scenario() -> None:
        app = StreamApp(api, MemoryShardLog(world))
        names = ("on_assigned", "on_revoked", "on_lost", "on_fenced")

        @app.listener("orders", group="billing", ack="on_success", **{name: make(error) for name in names})
        async def handle(message: Message) -> None:
            """Handles anything."""

        async with app:
            await until(lambda: len(app.members[0].session.running) == 2)
            del granting.tokens[ShardIndex(1)]
            await until(lambda: [hold.shard for hold in api.beats[-1].holds] == [0])
            await fill(MemoryShardLog(world), 0, 1)
            await until(lambda: not world.streams["orders:0"].groups[ORDERS.group].pending)
            beats = len(api.beats)
            await until(lambda: len(api.beats) > beats)
        assert api.beats[-1].holds == ()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert {record.getMessage() for record in caplog.records} == {"orders/billing: a callback failed"}


def test_a_callback_that_never_ends_is_broken_off_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        tellings = Tellings("orders/billing")
        tellings.tell(asyncio.Event().wait)  # type: ignore[arg-type]
        await tellings.close()
        await tellings.close()

    asyncio.run(scenario())
    assert "a callback still runs at the end" in caplog.text


class TestExit:
    @pytest.mark.parametrize("blocking", [True, False])
    def test_a_handler_that_exits_ends_the_app_gracefully_with_its_code(self, *, blocking: bool) -> None:
        world = memory_streams(2)
        asyncio.run(fill(MemoryShardLog(world), 0, 1))
        api = ScriptedCoordinator([Granting([0, 1])], [routing(2)])
        app = StreamApp(api, MemoryShardLog(world))

        async def handle(message: Message) -> None:
            sys.exit(7)

        def handle_in_a_thread(message: Message) -> None:
            sys.exit(7)

        app.listener("orders", group="billing")(handle_in_a_thread if blocking else handle)

        with pytest.raises(SystemExit) as caught:
            app.run()

        assert caught.value.code == 7
        assert api.beats[-1].holds == ()
        assert not nothing_pending(world)

    def test_without_run_it_ends_the_wait(self) -> None:
        world = memory_streams(1)

        async def scenario() -> None:
            await fill(MemoryShardLog(world), 0, 1)
            app, _ = app_over(world, 0)

            @app.listener("orders", group="billing")
            async def handle(message: Message) -> None:
                sys.exit()

            async with app:
                await app.wait()

        asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_handler_that_fails_on_everything_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world = memory_streams(1)
    seen: list[str] = []

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 200)
        app, _ = app_over(world, 0)

        @app.listener("orders", group="billing")
        async def handle(message: Message) -> None:
            seen.append(message.id)
            raise KeyError(message.id) if len(seen) % 2 else ValueError(message.id)

        async with app:
            await until(lambda: len(seen) == 200)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert len(caplog.records) == 2
    assert all(record.exc_info for record in caplog.records)
