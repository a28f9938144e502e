"""Whole apps over a scripted coordinator and shards in memory: what is handed over, and in which order."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

import pytest

from streamshard import Batch, ConfigurationError, Message, StreamApp
from streamshard.adapters.client.scripted import ScriptedCoordinator
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.core.commands import Intent
from streamshard.core.consumer import just_below
from streamshard.core.ids import ShardIndex
from streamshard.entrypoints.listening import Told
from tests.integration.client.script import (
    ORDERS,
    Granting,
    app_over,
    fill,
    memory_streams,
    nothing_pending,
    routing,
    until,
)


def test_every_record_is_handed_over_in_order_and_acknowledged() -> None:
    world = memory_streams(2)
    seen: dict[str, list[str]] = {"orders:0": [], "orders:1": []}

    async def scenario() -> None:
        log = MemoryShardLog(world)
        written = {"orders:0": await fill(log, 0, 100), "orders:1": await fill(log, 1, 100)}
        app, api = app_over(world, 0, 1)

        @app.listener("orders", group="billing")
        async def handle(message: Message) -> None:
            seen[message.key].append(message.id)
            await message.ack()

        async with app:
            await until(lambda: nothing_pending(world) and sum(map(len, seen.values())) == 200)

        assert seen == written
        assert (api.beats[-1].intent, api.beats[-1].holds) == (Intent.LEAVE, ())

    asyncio.run(scenario())


def test_what_a_plain_function_returns_is_awaited() -> None:
    world = memory_streams(1)
    seen: list[str] = []

    async def handle(message: Message) -> None:
        await asyncio.sleep(0)
        assert not message.acknowledged
        seen.append(message.text("n"))

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 3)
        app, _ = app_over(world, 0)
        app.listener("orders", group="billing", ack="on_success")(lambda message: handle(message))
        async with app:
            await until(lambda: nothing_pending(world))

    asyncio.run(scenario())
    assert seen == ["0", "1", "2"]


@pytest.mark.parametrize("batch", [None, 3])
def test_plain_handlers_may_acknowledge_and_delete(batch: int | None) -> None:
    world = memory_streams(1)

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 3)
        app, _ = app_over(world, 0)

        @app.listener("orders", group="billing", batch=batch)
        def handle(given: Message | Batch) -> None:
            given.ack_del_blocking()
            assert given.acknowledged

        async with app:
            await until(lambda: nothing_pending(world) and not world.entries("orders:0"))

    asyncio.run(scenario())


def _yields(message: Message) -> Iterator[None]:
    yield


async def _yields_later(message: Message) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("handler", [_yields, _yields_later])
def test_a_handler_that_would_do_nothing_when_called_is_refused(handler: Any) -> None:
    app, _ = app_over(memory_streams(1), 0)

    with pytest.raises(ConfigurationError, match="handler: has a yield in it"):
        app.listener("orders", group="billing")(handler)


def test_records_that_come_later_wake_the_reader() -> None:
    world = memory_streams(2)
    seen: list[str] = []

    async def scenario() -> None:
        app, _ = app_over(world, 0, 1)

        @app.listener("orders", group="billing", ack="on_success")
        async def handle(message: Message) -> None:
            seen.append(message.text("n"))

        async with app:
            for shard in (0, 1, 0):
                await fill(MemoryShardLog(world), shard, 1)
                await until(lambda: nothing_pending(world))
        assert len(seen) == 3

    asyncio.run(scenario())


def test_what_another_consumer_left_pending_comes_before_new_records() -> None:
    world = memory_streams(1)
    seen: list[tuple[str, int]] = []

    async def scenario() -> None:
        left = await fill(MemoryShardLog(world), 0, 3)
        world.streams["orders:0"].deliver(ORDERS.group, "gone", 2)
        app, _ = app_over(world, 0)

        @app.listener("orders", group="billing", page=1)
        async def handle(message: Message) -> None:
            seen.append((message.id, message.delivery_count))
            await message.ack()

        async with app:
            await until(lambda: len(seen) == 3)
        assert seen == [(left[0], 2), (left[1], 2), (left[2], 1)]

    asyncio.run(scenario())


def test_a_record_deleted_while_pending_is_skipped() -> None:
    world = memory_streams(1)
    seen: list[str] = []

    async def scenario() -> None:
        gone, kept = await fill(MemoryShardLog(world), 0, 2)
        world.streams["orders:0"].deliver(ORDERS.group, "gone", 2)
        world.delete_record("orders:0", gone)
        app, _ = app_over(world, 0)

        @app.listener("orders", group="billing", ack="on_success")
        async def handle(message: Message) -> None:
            seen.append(message.id)

        async with app:
            await until(lambda: nothing_pending(world))
        assert seen == [kept]

    asyncio.run(scenario())


def test_what_a_handler_failed_on_comes_again_and_holds_nothing_up() -> None:
    world = memory_streams(1)
    seen: list[tuple[str, int]] = []

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 3)
        app, _ = app_over(world, 0)

        @app.listener("orders", group="billing", redeliver_after=0.2)
        async def handle(message: Message) -> None:
            seen.append((message.text("n"), message.delivery_count))
            if message.text("n") == "1" and message.delivery_count == 1:
                raise ValueError("no such customer")
            await message.ack()

        async with app:
            await until(lambda: nothing_pending(world) and len(seen) == 4)
        assert seen == [("0", 1), ("1", 1), ("2", 1), ("1", 2)]

    asyncio.run(scenario())


def test_entries_that_others_left_meanwhile_are_swept_up() -> None:
    world = memory_streams(1)
    seen: list[str] = []

    async def scenario() -> None:
        app, _ = app_over(world, 0)

        @app.listener("orders", group="billing", ack="on_success", sweep_every=0.1)
        async def handle(message: Message) -> None:
            seen.append(message.id)

        async with app:
            await until(lambda: app.members[0].session.held != {})
            stream = world.streams["orders:0"]
            stolen = stream.add(10**6, {b"n": b"9"}, None)
            stream.deliver(ORDERS.group, "stranger", 5)
            await until(lambda: nothing_pending(world) and bool(seen))
            assert seen == [f"{stolen[0]}-{stolen[1]}"]

    asyncio.run(scenario())


def test_a_batch_is_acknowledged_as_one() -> None:
    world = memory_streams(1)
    sizes: list[int] = []

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 10)
        app, _ = app_over(world, 0)

        @app.listener("orders", group="billing", batch=4)
        async def handle(batch: Batch) -> None:
            sizes.append(len(batch))
            await batch.ack()
            assert batch.acknowledged

        async with app:
            await until(lambda: nothing_pending(world) and sum(sizes) == 10)
        assert sizes == [4, 4, 2]

    asyncio.run(scenario())


def test_a_plain_function_handles_in_a_thread_of_its_own() -> None:
    world = memory_streams(1)
    seen: list[str] = []

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 5)
        app, _ = app_over(world, 0)

        @app.listener("orders", group="billing")
        def handle(message: Message) -> None:
            seen.append(message.text("n"))
            message.ack_blocking()

        async with app:
            await until(lambda: nothing_pending(world) and len(seen) == 5)
        assert seen == ["0", "1", "2", "3", "4"]

    asyncio.run(scenario())


def test_shards_take_turns_when_workers_are_few() -> None:
    world, page = memory_streams(3), 5
    seen: list[int] = []

    async def scenario() -> None:
        for shard in range(3):
            await fill(MemoryShardLog(world), shard, 30)
        app, _ = app_over(world, 0, 1, 2)

        @app.listener("orders", group="billing", max_workers=1, page=page, ack="on_success")
        async def handle(message: Message) -> None:
            # A shard that was not read yet does not stand in line for the worker.
            await until(lambda: all(stream.groups[ORDERS.group].consumers for stream in world.streams.values()))
            seen.append(message.shard)
            await asyncio.sleep(0.001)

        async with app:
            await until(lambda: len(seen) == 90)
        # Two turns of each other shard: one under way, and one that was in line already.
        assert max(gap for shard in range(3) for gap in gaps(seen, shard)) <= 2 * 2 * page + 1

    asyncio.run(scenario())


def gaps(seen: list[int], shard: int) -> list[int]:
    """How far apart the records of a shard were handled."""
    at = [-1, *(position for position, one in enumerate(seen) if one == shard)]
    return [later - earlier for earlier, later in pairwise(at)]


def test_one_shard_s_backlog_keeps_none_of_many_others_waiting() -> None:
    world, shards = memory_streams(64), range(64)
    seen: list[int] = []

    async def scenario() -> None:
        log = MemoryShardLog(world)
        await fill(log, 0, 5_000)
        app, _ = app_over(world, *shards)

        @app.listener("orders", group="billing", max_workers=2, ack="on_success")
        async def handle(message: Message) -> None:
            seen.append(message.shard)
            await asyncio.sleep(0)

        async with app:
            await until(lambda: len(seen) > 100)
            for shard in shards[1:]:
                await fill(log, shard, 1)
            await until(lambda: set(seen) == set(shards))
        assert seen.count(0) < 5_000

    asyncio.run(scenario())


def test_a_revoked_shard_is_finished_before_it_is_released() -> None:
    world = memory_streams(2)
    told: list[tuple[str, int]] = []
    granting = Granting([0, 1])
    api = ScriptedCoordinator([granting], [routing(2)])

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 1, 2)
        app = StreamApp(api, MemoryShardLog(world))
        entered, go_on = asyncio.Event(), asyncio.Event()

        def note(what: str) -> Told:
            return lambda member, shard, token: told.append((what, shard))

        @app.listener(
            "orders", group="billing", on_assigned=note("+"), on_revoked=note("-"), on_lost=note("!"), ack="on_success"
        )
        async def handle(message: Message) -> None:
            entered.set()
            await go_on.wait()

        async with app:
            await entered.wait()
            del granting.tokens[ShardIndex(1)]
            await until(lambda: any(hold.draining for hold in api.beats[-1].holds))
            assert told == [("+", 0), ("+", 1)]

            go_on.set()
            await until(lambda: [hold.shard for hold in api.beats[-1].holds] == [0])
        assert told == [("+", 0), ("+", 1), ("-", 1), ("-", 0)]
        assert len(world.streams["orders:1"].groups[ORDERS.group].pending) == 1

    asyncio.run(scenario())


def test_progress_travels_with_the_heartbeats() -> None:
    world = memory_streams(1)

    async def scenario() -> None:
        _, second, third = await fill(MemoryShardLog(world), 0, 3)
        app, api = app_over(world, 0)

        @app.listener("orders", group="billing")
        async def handle(message: Message) -> None:
            if message.id != second:
                await message.ack()

        async with app:
            await until(lambda: [row.last_acked for beat in api.beats[-1:] for row in beat.progress] == [third])
            (row,) = api.beats[-1].progress
            assert (row.last_delivered, row.pending, row.in_flight) == (third, 1, 0)
            assert row.ack_floor == just_below(second)
            assert api.beats[-1].available == 16

    asyncio.run(scenario())


def test_stopping_waits_for_handlers_and_breaks_off_those_that_take_too_long() -> None:
    world = memory_streams(1)
    ends: list[str] = []

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 1)
        api = ScriptedCoordinator([Granting([0])], [routing(1)])
        app = StreamApp(api, MemoryShardLog(world), drain_timeout=0.1)
        entered = asyncio.Event()

        @app.listener("orders", group="billing")
        async def handle(message: Message) -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                ends.append("broken off")

        async with app:
            await entered.wait()
        assert ends == ["broken off"]
        assert (api.beats[-1].intent, api.beats[-1].holds) == (Intent.LEAVE, ())

    asyncio.run(scenario())
