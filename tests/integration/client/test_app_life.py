"""An app's options, its start, its signals and its end."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import attrs
import pytest

import streamshard
from streamshard import (
    ConfigurationError,
    CoordinatorUnreachable,
    GroupNotFound,
    ListenerRejected,
    Message,
    ScriptedCoordinator,
    StreamApp,
)
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.replies import Status
from streamshard.core.session import Phase
from streamshard.entrypoints.identity import host_identity, member_ids
from streamshard.errors import StreamshardError
from tests.integration.client.script import Granting, fill, memory_streams, nothing_pending, reply, routing, until

ROOT = Path(__file__).parents[3]


async def ignore(message: Message) -> None:
    await message.ack()


def app_with(api: ScriptedCoordinator, **options: Any) -> StreamApp:
    app = StreamApp(api, MemoryShardLog(MemoryStreams()), **options)
    app.listener("orders", group="billing")(ignore)
    return app


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ({"concurrency": 0}, "concurrency: must be a whole number from 1 to 1000, not 0"),
            ({"concurrency": 2.5}, "concurrency: must be a whole number from 1 to 1000, not 2.5"),
            ({"max_workers": True}, "max_workers: must be a whole number from 1 to 10000, not True"),
            ({"batch": 0}, "batch: must be a whole number from 1 to 10000, not 0"),
            ({"redeliver_after": 0}, "redeliver_after: must be a number of seconds from 0.05 to 86400, not 0"),
            ({"ack": "never"}, "ack: must be 'explicit' or 'on_success', not 'never'"),
            ({"workers": 3}, "workers: is no option of a listener, which are ack, ack_mode, batch"),
            ({"on_assigned": 5}, "on_assigned: must be a function, not 5"),
            ({"on_revoked": lambda shard: None}, "on_revoked: must take 3 by position, but too many positional"),
        ],
    )
    def test_a_listener_s_options_are_checked_at_once(self, options: dict[str, Any], why: str) -> None:
        app = StreamApp(ScriptedCoordinator(), MemoryShardLog(MemoryStreams()))

        with pytest.raises(ConfigurationError, match=why):
            app.listener("orders", group="billing", **options)(ignore)

    @pytest.mark.parametrize(
        ("handler", "why"),
        [
            (None, "handler: must be a function, not None"),
            (lambda: None, "handler: must take 1 by position, but too many positional arguments"),
            (lambda message, more: None, "handler: must take 1 by position, but missing a required argument: 'more'"),
        ],
    )
    def test_a_handler_that_no_record_could_be_given_to_is_refused_at_once(self, handler: Any, why: str) -> None:
        app = StreamApp(ScriptedCoordinator(), MemoryShardLog(MemoryStreams()))

        with pytest.raises(ConfigurationError, match=why):
            app.listener("orders", group="billing")(handler)

    def test_names_are_checked_at_once(self) -> None:
        app = StreamApp(ScriptedCoordinator(), MemoryShardLog(MemoryStreams()))

        with pytest.raises(ConfigurationError, match="prefix: "):
            app.listener("or{de}rs", group="billing")
        with pytest.raises(ConfigurationError, match="group: is empty"):
            app.producer("orders", "")

    def test_a_group_has_one_listener_in_an_app(self) -> None:
        app = app_with(ScriptedCoordinator())

        with pytest.raises(ConfigurationError, match="raise its concurrency instead"):
            app.listener("orders", group="billing")

    def test_a_coordinator_has_to_be_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("STREAMSHARD_URL", raising=False)
        with pytest.raises(ConfigurationError, match="here or in STREAMSHARD_URL"):
            StreamApp()

    def test_the_environment_may_name_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("STREAMSHARD_URL", "ftp://coordinator")
        with pytest.raises(ConfigurationError, match="url: 'ftp://coordinator' must begin with http://"):
            StreamApp()

    def test_the_app_s_own_options_are_checked(self) -> None:
        with pytest.raises(ConfigurationError, match="drain_timeout: must be a number of seconds from 0 to 86400"):
            StreamApp("http://127.0.0.1:1", drain_timeout=-1)


class TestNames:
    def test_a_member_is_called_after_its_pod(self) -> None:
        assert host_identity({"POD_IP": "10.0.0.7"}) == "10.0.0.7"

    def test_elsewhere_after_its_host(self) -> None:
        assert host_identity({}) != ""
        assert not host_identity({}).startswith("127.")

    def test_each_logical_member_has_a_number(self) -> None:
        assert member_ids("web", 3) == ("web-m0", "web-m1", "web-m2")

    def test_a_name_that_can_t_be_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="member_id: "):
            member_ids("a/b", 1)


class TestStart:
    def outcome(self, app: StreamApp) -> StreamshardError:
        async def scenario() -> None:
            async with app:
                pass

        with pytest.raises(StreamshardError) as caught:
            asyncio.run(scenario())
        return caught.value

    def test_a_missing_group_is_an_error_at_the_start(self) -> None:
        error = self.outcome(app_with(ScriptedCoordinator(routings=[GroupNotFound("no group orders/billing")])))

        assert isinstance(error, GroupNotFound)

    def test_a_stream_without_shards_is_an_error_at_the_start(self) -> None:
        error = self.outcome(app_with(ScriptedCoordinator(routings=[routing(0)])))

        assert str(error) == "orders/billing: the stream has no shards: scale it out before listening"

    def test_a_stream_that_is_being_scaled_out_from_nothing_is_none(self) -> None:
        growing = attrs.evolve(routing(0), resharding_active=True)

        async def scenario() -> None:
            async with app_with(ScriptedCoordinator([Granting([])], [growing])) as app:
                await until(lambda: app.members[0].session.phase is Phase.MEMBER)

        asyncio.run(scenario())

    def test_a_coordinator_that_comes_up_late_is_waited_for(self) -> None:
        api = ScriptedCoordinator([Granting([])], [CoordinatorUnreachable("refused"), routing(1)])

        async def scenario() -> None:
            async with app_with(api):
                assert api.asked == 2

        asyncio.run(scenario())

    def test_one_that_does_not_come_up_is_an_error(self) -> None:
        api = ScriptedCoordinator(routings=[CoordinatorUnreachable("refused")])

        assert isinstance(self.outcome(app_with(api, start_timeout=0)), CoordinatorUnreachable)

    def test_a_listener_that_comes_too_late_is_refused_and_not_forgotten(self) -> None:
        app = app_with(ScriptedCoordinator([Granting([])], [routing(1)]))

        async def scenario() -> None:
            async with app:
                with pytest.raises(ConfigurationError, match="was started before: register every listener first"):
                    app.listener("invoices", group="billing")

        asyncio.run(scenario())

    def test_an_app_runs_once(self) -> None:
        app = app_with(ScriptedCoordinator([Granting([])], [routing(1)]))

        async def scenario() -> None:
            async with app:
                pass
            with pytest.raises(ConfigurationError, match="runs only once"):
                await app.start()

        asyncio.run(scenario())


class TestEnd:
    def test_a_refused_client_ends_the_run_with_the_reason(self) -> None:
        refusal = attrs.evolve(reply(Status.UNSUPPORTED_PROTOCOL), message="upgrade to 0.2")
        app = app_with(ScriptedCoordinator([refusal], [routing(1)]))

        with pytest.raises(ListenerRejected, match="orders/billing: upgrade to 0.2"):
            app.run()

    def test_a_signal_ends_the_run_gracefully(self) -> None:
        world = memory_streams(1)
        asyncio.run(fill(MemoryShardLog(world), 0, 3))
        app = StreamApp(ScriptedCoordinator([Granting([0])], [routing(1)]), MemoryShardLog(world))
        ends: list[str] = []

        @app.listener("orders", group="billing")
        async def handle(message: Message) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.05)
            await message.ack()
            ends.append(message.text("n"))

        app.run()
        assert ends == ["0"]
        assert not nothing_pending(world)

    def test_a_second_signal_breaks_handlers_off(self) -> None:
        world = memory_streams(1)
        asyncio.run(fill(MemoryShardLog(world), 0, 1))
        app = StreamApp(ScriptedCoordinator([Granting([0])], [routing(1)]), MemoryShardLog(world), drain_timeout=60)

        @app.listener("orders", group="billing")
        async def handle(message: Message) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

        app.run()
        assert not nothing_pending(world)

    def test_a_thread_that_hangs_does_not_keep_the_process_and_its_shard_is_not_given_away(self) -> None:
        world = memory_streams(2)
        asyncio.run(fill(MemoryShardLog(world), 1, 1))
        api = ScriptedCoordinator([Granting([0, 1])], [routing(2)])
        app = StreamApp(api, MemoryShardLog(world), drain_timeout=60)
        go_on = threading.Event()

        @app.listener("orders", group="billing")
        def handle(message: Message) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGTERM)
            go_on.wait()

        app.run()
        go_on.set()
        assert [(hold.shard, hold.draining) for hold in api.beats[-1].holds] == [(1, True)]
        assert not nothing_pending(world)

    def test_the_interpreter_ends_although_a_handler_hangs(self) -> None:
        script = (
            "import threading; from tests.integration.client.script import *\n"
            "world = memory_streams(1); asyncio.run(fill(MemoryShardLog(world), 0, 1))\n"
            "api = ScriptedCoordinator([Granting([0])], [routing(1)])\n"
            "app = StreamApp(api, MemoryShardLog(world), drain_timeout=0)\n"
            "def handle(message):\n    print('in', flush=True); app_ends(); threading.Event().wait()\n"
            "def app_ends():\n    import os, signal; os.kill(os.getpid(), signal.SIGTERM)\n"
            "app.listener('orders', group='billing')(handle); app.run(); print('out')"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
        )

        assert done.stdout.split() == ["in", "out"]

    def test_an_app_without_listeners_serves_its_producers(self) -> None:
        world = memory_streams(1)
        app = StreamApp(ScriptedCoordinator(routings=[routing(1)]), MemoryShardLog(world))
        producer = app.producer("orders", "billing")

        async def scenario() -> None:
            async with app:
                await producer.publish("a", {"n": 1})

        asyncio.run(scenario())
        assert len(world.entries("orders:0")) == 1

    def test_a_dead_coordinator_does_not_hold_the_end_up_for_long(self) -> None:
        api = ScriptedCoordinator([Granting([0])], [routing(1)])
        world = memory_streams(1)

        async def scenario() -> None:
            app = StreamApp(api, MemoryShardLog(world), drain_timeout=60)
            app.listener("orders", group="billing")(ignore)
            async with app:
                await until(lambda: app.members[0].session.held != {})
                api.then(CoordinatorUnreachable("gone"))
            assert app.members[0].session.phase is Phase.LEAVING

        asyncio.run(asyncio.wait_for(scenario(), 30))


def test_the_import_is_light() -> None:
    script = (
        "import sys, streamshard; heavy = {'httpx', 'redis', 'attrs', 'starlette', 'msgspec', 'click'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_had() -> None:
    assert {name for name in streamshard.__all__ if getattr(streamshard, name, None) is None} == set()
    assert set(streamshard.__all__) <= set(dir(streamshard))
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        getattr(streamshard, "Nonsense")  # noqa: B009
