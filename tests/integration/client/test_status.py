"""What an application can see of its own members."""

import asyncio

from streamshard import Message
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.core.ids import Millis
from tests.integration.client.script import ORDERS, app_over, fill, memory_streams, until


def test_a_shard_says_when_it_was_read_and_how_long_its_handler_runs() -> None:
    world = memory_streams(2)

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 1, 1)
        app, _ = app_over(world, 0, 1)
        entered, go_on = asyncio.Event(), asyncio.Event()

        @app.listener("orders", group="billing", ack="on_success", member_id="web")
        async def handle(message: Message) -> None:
            entered.set()
            await go_on.wait()

        assert app.status() == ()
        async with app:
            await entered.wait()
            await asyncio.sleep(0.05)
            (status,) = app.status()
            idle, busy = status.shards
            assert (status.key, status.member) == (ORDERS, "web-m0")
            assert 0 <= status.heartbeat_late < 10_000
            assert [shard.progress.shard for shard in status.shards] == [0, 1]
            assert (idle.handling_for, idle.skipped, idle.unread) == (None, 0, False)
            assert busy.handling_for is not None
            assert 50 <= busy.handling_for <= busy.read_ago

            go_on.set()
            await until(lambda: app.status()[0].shards[1].handling_for is None)

    asyncio.run(scenario())


def test_a_shard_that_can_t_be_read_is_unread_after_two_leases() -> None:
    world = memory_streams(1)

    async def scenario() -> None:
        app, _ = app_over(world, 0)

        @app.listener("orders", group="billing")
        async def handle(message: Message) -> None:
            raise AssertionError("there is nothing to handle")

        async with app:
            await until(lambda: [shard.read_ago < 100 for shard in app.status()[0].shards] == [True])
            (run,) = app._served[0].poller._runs.values()
            world.go_down()
            await asyncio.sleep(0.1)
            assert run.status(Millis(3_000)).unread is False
            await until(lambda: run.status(Millis(100)).unread)
            world.come_back()
            await until(lambda: not run.status(Millis(100)).unread)

    asyncio.run(scenario())
