"""Records that fail again and again: counted, given back, or kept in the dead-letter stream."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streamshard import Batch, ConfigurationError, LeaseLost, Message, ScriptedCoordinator, StreamApp
from streamshard.adapters.streams.dead_letters import RedisDeadLetters
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.adapters.streams.opening import shard_log
from streamshard.core.dead_letters import DeadLetter, read_back
from streamshard.core.ids import RecordId, ShardIndex, Token
from streamshard.core.ports import ShardLog
from streamshard.core.records import Abilities, AckMode, AckReply, ShardAccess
from tests.integration.client.rig import redis_rig
from tests.integration.client.script import (
    FIRST_GENERATION,
    ORDERS,
    Granting,
    app_over,
    fill,
    memory_streams,
    nothing_pending,
    routing,
    until,
)
from tests.integration.cluster import Cluster
from tests.servers import FLAVOURS, Servers


def letters(world: MemoryStreams) -> list[DeadLetter | None]:
    return [read_back(record.fields or {}) for record in world.entries("orders:dlq")]


def owner_of_zero(name: str, token: int) -> ShardAccess:
    return ShardAccess(ORDERS.prefix, ShardIndex(0), ORDERS.group, name, FIRST_GENERATION, Token(token))


def letter(reason: str, deliveries: int, record: RecordId, n: int) -> DeadLetter:
    return DeadLetter(reason, deliveries, ORDERS.group, ShardIndex(0), record, {b"n": str(n).encode()})


class TestMaxDeliveries:
    def test_a_record_that_always_fails_is_kept_and_holds_nothing_up(self) -> None:
        world = memory_streams(1)
        seen: list[tuple[str, int]] = []

        async def scenario() -> None:
            bad, _ = await fill(MemoryShardLog(world), 0, 2)
            app, _ = app_over(world, 0)

            # The sweeps in between deliver nothing, and count for nothing.
            @app.listener("orders", group="billing", max_deliveries=3, redeliver_after=0.2, sweep_every=0.05)
            async def handle(message: Message) -> None:
                seen.append((message.text("n"), message.delivery_count))
                if message.id == bad:
                    raise ValueError("no such customer")
                await message.ack()

            async with app:
                await until(lambda: nothing_pending(world))
            assert seen == [("0", 1), ("1", 1), ("0", 2), ("0", 3)]
            why = "delivered 3 times and not acknowledged (max_deliveries=3)"
            assert letters(world) == [letter(why, 3, bad, 0)]

        asyncio.run(scenario())

    def test_what_was_only_read_ahead_by_owners_that_are_gone_is_handled(self) -> None:
        world = memory_streams(1)
        seen: list[int] = []

        async def scenario() -> None:
            log = MemoryShardLog(world)
            await fill(log, 0, 2)
            for token in range(1, 6):
                owner = owner_of_zero(f"gone-{token}", token)
                await log.read([(owner, 10)])
                await log.survey(owner, RecordId("0-0"), 10)
            app, _ = app_over(world, 0)

            @app.listener("orders", group="billing", max_deliveries=2, ack="on_success")
            async def handle(message: Message) -> None:
                seen.append(message.delivery_count)

            async with app:
                await until(lambda: nothing_pending(world))
            assert seen == [2, 2]
            assert letters(world) == []

        asyncio.run(scenario())

    def test_a_record_that_kills_its_reader_is_given_up_before_the_handler_sees_it(self) -> None:
        world = memory_streams(1)

        async def scenario() -> None:
            log = MemoryShardLog(world)
            (deadly,) = await fill(log, 0, 1)
            owner = owner_of_zero("gone", 1)
            await log.read([(owner, 10)])
            await log.deliver(owner, [deadly])
            app, _ = app_over(world, 0)

            @app.listener("orders", group="billing", max_deliveries=2)
            async def handle(message: Message) -> None:
                raise AssertionError("it would kill this one, too")

            async with app:
                await until(lambda: nothing_pending(world))
            assert [one and (one.record, one.deliveries) for one in letters(world)] == [(deadly, 2)]

        asyncio.run(scenario())

    def test_a_batch_goes_on_without_what_is_given_up(self) -> None:
        world = memory_streams(1)
        sizes: list[int] = []

        async def scenario() -> None:
            bad, *_ = await fill(MemoryShardLog(world), 0, 3)
            app, _ = app_over(world, 0)

            @app.listener("orders", group="billing", batch=10, max_deliveries=2, redeliver_after=0.05)
            async def handle(batch: Batch) -> None:
                sizes.append(len(batch))
                for message in batch:
                    if message.id != bad:
                        await message.ack()

            async with app:
                await until(lambda: nothing_pending(world))
            assert sizes == [3, 1]
            assert len(letters(world)) == 1

        asyncio.run(scenario())

    def test_it_is_written_before_it_is_acknowledged(self) -> None:
        world = memory_streams(1)

        class Losing(MemoryShardLog):
            async def acknowledge(self, access: ShardAccess, ids: Sequence[RecordId], mode: AckMode) -> AckReply:
                assert len(letters(world)) == 1
                return await super().acknowledge(access, ids, mode)

        async def scenario() -> None:
            await fill(MemoryShardLog(world), 0, 1)
            app = StreamApp(ScriptedCoordinator([Granting([0])], [routing(1)]), Losing(world))

            @app.listener("orders", group="billing")
            async def handle(message: Message) -> None:
                await message.dead_letter("no such customer")

            async with app:
                await until(lambda: nothing_pending(world))

        asyncio.run(scenario())


class TestDeadLetter:
    def test_a_handler_may_give_a_record_up_with_a_reason(self) -> None:
        world = memory_streams(1)

        async def scenario() -> None:
            first, second = await fill(MemoryShardLog(world), 0, 2)
            app, _ = app_over(world, 0)

            @app.listener("orders", group="billing")
            def handle(message: Message) -> None:
                message.dead_letter_blocking("no such customer")
                message.dead_letter_blocking("once is enough")
                assert message.acknowledged

            async with app:
                await until(lambda: nothing_pending(world))
            assert letters(world) == [letter("no such customer", 1, first, 0), letter("no such customer", 1, second, 1)]

        asyncio.run(scenario())

    def test_not_after_a_successor_was_granted(self) -> None:
        world = memory_streams(1)
        refusals: list[str] = []

        async def scenario() -> None:
            await fill(MemoryShardLog(world), 0, 1)
            app, _ = app_over(world, 0)

            @app.listener("orders", group="billing")
            async def handle(message: Message) -> None:
                app.members[0].forget()
                with pytest.raises(LeaseLost, match="the lease is over"):
                    await message.dead_letter("too late")
                refusals.append(message.id)

            async with app:
                await until(lambda: bool(refusals))
            assert letters(world) == []

        asyncio.run(scenario())


class TestGivingBack:
    def test_a_failure_gives_back_at_once_where_asked_for(self) -> None:
        world = memory_streams(1)
        seen: list[int] = []

        async def scenario() -> None:
            await fill(MemoryShardLog(world), 0, 1)
            app, _ = app_over(world, 0)

            @app.listener("orders", group="billing", failure="xnack", redeliver_after=3600)
            async def handle(message: Message) -> None:
                seen.append(message.delivery_count)
                if len(seen) < 3:
                    raise ValueError("not yet")
                await message.ack()

            async with app:
                await until(lambda: nothing_pending(world))
            assert seen == [1, 2, 3]

        asyncio.run(scenario())

    def test_a_handler_may_give_back_a_record_or_what_is_open_of_a_batch(self) -> None:
        world = memory_streams(1)
        seen: list[list[str]] = []

        async def scenario() -> None:
            await fill(MemoryShardLog(world), 0, 3)
            app, _ = app_over(world, 0)

            @app.listener("orders", group="billing", batch=3, redeliver_after=3600)
            async def handle(batch: Batch) -> None:
                seen.append([message.text("n") for message in batch])
                await batch[0].ack()
                await batch[-1].nack()
                await batch.nack()

            async with app:
                await until(lambda: nothing_pending(world))
            assert seen == [["0", "1", "2"], ["1", "2"], ["2"]]

        asyncio.run(scenario())

    def test_a_server_without_the_command_is_named_in_the_error(self, caplog: pytest.LogCaptureFixture) -> None:
        world = memory_streams(1)
        errors: list[str] = []

        async def scenario() -> None:
            await fill(MemoryShardLog(world), 0, 1)
            app = StreamApp(ScriptedCoordinator([Granting([0])], [routing(1)]), Poor(world))

            @app.listener("orders", group="billing")
            def handle(message: Message) -> None:
                with pytest.raises(ConfigurationError) as caught:
                    message.nack_blocking()
                errors.append(caught.value.message)

            async with app:
                await until(lambda: bool(errors))
            assert errors == ["nack: Redis 7.0.15 has no XNACK, which Redis has from 8.8 on"]

        with caplog.at_level(logging.ERROR):
            asyncio.run(scenario())
        assert caplog.records == []


class Poor(MemoryShardLog):
    """Of a server that has neither command."""

    async def abilities(self) -> Abilities:
        return Abilities("Redis 7.0.15")


def bare(world: MemoryStreams) -> ShardLog:
    """A log of somebody else's, that counts no deliveries."""

    class Bare:
        def __getattr__(self, name: str) -> Any:
            if name not in ("read", "claim", "acknowledge", "wait", "append", "drop_consumer", "close"):
                raise AttributeError(name)
            return getattr(MemoryShardLog(world), name)

    return Bare()


class TestStart:
    @pytest.mark.parametrize(
        ("make", "options", "why"),
        [
            (Poor, {"failure": "xnack"}, "orders/billing: failure='xnack': Redis 7.0.15 has no XNACK, which"),
            (Poor, {"ack_mode": "xackdel"}, "orders/billing: ack_mode='xackdel': Redis 7.0.15 has no XACKDEL, which"),
            (bare, {"max_deliveries": 3}, "redis: Bare lacks what max_deliveries"),
        ],
    )
    def test_what_the_server_can_t_do_is_said_at_the_start(
        self, make: Callable[[MemoryStreams], ShardLog], options: dict[str, Any], why: str
    ) -> None:
        app = StreamApp(ScriptedCoordinator([], [routing(1)]), make(MemoryStreams()))
        app.listener("orders", group="billing", **options)(ignore)

        with pytest.raises(ConfigurationError, match=why):
            asyncio.run(app.start())

    def test_real_servers_are_asked(self, url: str) -> None:
        async def scenario() -> None:
            log = shard_log(url)
            found = await log.abilities()
            await log.close()
            app = StreamApp(ScriptedCoordinator([Granting([])], [routing(1)]), url)
            app.listener("orders", group="billing", ack_mode="xackdel")(ignore)
            if found.deletes_acknowledged:
                async with app:
                    return
            with pytest.raises(ConfigurationError, match=f"{found.server} has no XACKDEL"):
                await app.start()

        asyncio.run(scenario())


async def ignore(message: Message) -> None:
    """Leaves everything pending."""


@pytest.fixture(params=[*FLAVOURS, "cluster"])
def url(request: pytest.FixtureRequest, servers: Servers) -> str:
    """An empty server of every kind, and an empty cluster."""
    if request.param == "cluster":
        cluster: Cluster = request.getfixturevalue("cluster")
        return cluster.url
    return servers.url(request.param)


def test_on_a_real_server_a_poisonous_record_ends_in_the_dead_letters(url: str) -> None:

    async def scenario() -> None:
        async with redis_rig(url, 1) as rig:
            await rig.log.append("orders:0", {b"\xff": b"\x00\r\n"}, None)
            app = StreamApp(rig.coordinator, rig.log)

            @app.listener("orders", group="billing", max_deliveries=2, redeliver_after=0.1)
            async def handle(message: Message) -> None:
                raise ValueError("no")

            async with app:
                letters = RedisDeadLetters(url, ORDERS.prefix)
                async with asyncio.timeout(20):
                    while not await letters.size():
                        await asyncio.sleep(0.02)
                (kept,) = await letters.page(None, 10)
                await letters.close()
            assert (kept.letter.deliveries, kept.letter.fields) == (2, {b"\xff": b"\x00\r\n"})

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("options", "meant"),
    [({}, AckMode.ACK_DEL), ({"ack_mode": "xackdel"}, AckMode.ACK_DEL), ({"ack_mode": "xack"}, AckMode.ACK)],
)
def test_what_acknowledging_and_deleting_comes_to_is_an_option(options: dict[str, Any], meant: AckMode) -> None:
    world = memory_streams(1)
    modes: list[AckMode] = []

    class Noting(MemoryShardLog):
        async def acknowledge(self, access: ShardAccess, ids: Sequence[RecordId], mode: AckMode) -> AckReply:
            modes.append(mode)
            return await super().acknowledge(access, ids, mode)

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 1)
        app = StreamApp(ScriptedCoordinator([Granting([0])], [routing(1)]), Noting(world))

        @app.listener("orders", group="billing", **options)
        async def handle(message: Message) -> None:
            await message.ack_del()

        async with app:
            await until(lambda: nothing_pending(world))
        assert modes == [meant]

    asyncio.run(scenario())
