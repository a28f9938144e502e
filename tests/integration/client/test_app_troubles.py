"""Whole apps in trouble: fences, outages, lost answers, vanished shards."""

import asyncio
from collections.abc import Sequence

import pytest

from streamshard import LeaseLost, Message, StreamApp
from streamshard.adapters.client.scripted import ScriptedCoordinator
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.commands import Intent
from streamshard.core.ids import MemberId, RecordId, ShardIndex, Token
from streamshard.core.records import AckMode, AckReply, ClaimReply, ShardAccess
from streamshard.core.replies import Status
from streamshard.errors import CoordinatorUnreachable, StreamUnavailable
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


def test_after_a_successor_was_granted_nothing_can_be_acknowledged() -> None:
    world = memory_streams(1)
    lost: list[int] = []
    refusals: list[str] = []

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 1)
        app, _ = app_over(world, 0)

        def on_lost(member: MemberId, shard: ShardIndex, token: Token) -> None:
            lost.append(shard)

        @app.listener("orders", group="billing", on_lost=on_lost)
        async def handle(message: Message) -> None:
            world.fences["orders:0"].tokens[ORDERS.group] = Token(99)
            with pytest.raises(LeaseLost, match="FENCED"):
                await message.ack()
            refusals.append(message.id)

        async with app:
            await until(lambda: bool(lost) and bool(refusals))

    asyncio.run(scenario())
    assert not nothing_pending(world)


def test_a_fenced_member_comes_back_as_a_new_instance() -> None:
    world = memory_streams(1)
    api = ScriptedCoordinator([Granting([0])], [routing(1)])
    seen: list[str] = []

    async def scenario() -> None:
        app = StreamApp(api, MemoryShardLog(world))

        @app.listener("orders", group="billing", ack="on_success")
        async def handle(message: Message) -> None:
            seen.append(message.id)

        async with app:
            await until(lambda: app.members[0].session.held != {})
            first = api.beats[-1].instance
            api.then(reply(Status.FENCED_MEMBER_EPOCH), Granting([0]))
            await until(lambda: api.beats[-1].instance != first)
            await fill(MemoryShardLog(world), 0, 1)
            await until(lambda: len(seen) == 1)
            farewell = [b for b in api.beats if b.instance == first][-1]
            assert (farewell.intent, farewell.holds) == (Intent.LEAVE, ())

    asyncio.run(scenario())


def test_an_outage_of_the_coordinator_pauses_reading_and_moves_nothing() -> None:
    world = memory_streams(1)
    granting = Granting([0], lease_ms=600)
    api = ScriptedCoordinator([granting], [routing(1)])
    seen: list[str] = []
    told: list[str] = []

    async def scenario() -> None:
        app = StreamApp(api, MemoryShardLog(world))

        @app.listener("orders", group="billing", ack="on_success", on_lost=lambda m, s, t: told.append("lost"))
        async def handle(message: Message) -> None:
            seen.append(message.id)

        async with app:
            await until(lambda: app.members[0].session.held != {})
            instance = api.beats[-1].instance
            api.then(CoordinatorUnreachable("gone"))
            await until(lambda: told == ["lost"])
            await fill(MemoryShardLog(world), 0, 1)
            await asyncio.sleep(0.1)
            assert seen == []

            api.then(granting)
            await until(lambda: len(seen) == 1)
            assert api.beats[-1].instance == instance
            assert api.beats[-1].intent is Intent.STAY

    asyncio.run(scenario())


def test_an_outage_of_the_streams_is_outlived() -> None:
    world = memory_streams(1)
    seen: list[str] = []

    async def scenario() -> None:
        app, _ = app_over(world, 0)

        @app.listener("orders", group="billing", ack="on_success")
        async def handle(message: Message) -> None:
            seen.append(message.id)

        async with app:
            await until(lambda: app.members[0].session.held != {})
            world.go_down()
            await asyncio.sleep(0.3)
            world.come_back()
            await fill(MemoryShardLog(world), 0, 3)
            await until(lambda: len(seen) == 3 and nothing_pending(world))

    asyncio.run(scenario())


class ForgetfulLog(MemoryShardLog):
    """Acknowledges, and loses the first answer; counts claims."""

    def __init__(self, world: MemoryStreams) -> None:
        super().__init__(world)
        self.lost = 0
        self.claims = 0

    async def acknowledge(self, access: ShardAccess, ids: Sequence[RecordId], mode: AckMode) -> AckReply:
        reply = await super().acknowledge(access, ids, mode)
        if not self.lost:
            self.lost += 1
            raise StreamUnavailable("the answer was lost")
        return reply

    async def survey(self, access: ShardAccess, start: RecordId, count: int) -> ClaimReply:
        self.claims += 1
        return await super().survey(access, start, count)


def test_an_acknowledgement_whose_answer_was_lost_is_not_chased_for_ever() -> None:
    world = memory_streams(1)
    log = ForgetfulLog(world)
    seen: list[str] = []

    async def scenario() -> None:
        await fill(log, 0, 2)
        api = ScriptedCoordinator([Granting([0])], [routing(1)])
        app = StreamApp(api, log)

        @app.listener("orders", group="billing", ack="on_success", redeliver_after=0.05)
        async def handle(message: Message) -> None:
            seen.append(message.text("n"))

        async with app:
            await until(lambda: log.claims == 2)
            await until(lambda: [row.pending for beat in api.beats[-1:] for row in beat.progress] == [0])
            await asyncio.sleep(0.2)
        assert (seen, log.claims) == (["0", "1"], 2)

    asyncio.run(scenario())


def test_a_deleted_record_met_by_a_lost_lease_is_left_to_the_next_owner() -> None:
    world = memory_streams(1)
    lost: list[int] = []

    class Raised(MemoryShardLog):
        async def survey(self, access: ShardAccess, start: RecordId, count: int) -> ClaimReply:
            reply = await super().survey(access, start, count)
            world.fences["orders:0"].tokens[ORDERS.group] = Token(99)
            return reply

    async def scenario() -> None:
        (gone,) = await fill(MemoryShardLog(world), 0, 1)
        world.streams["orders:0"].deliver(ORDERS.group, "gone", 1)
        world.delete_record("orders:0", gone)
        app = StreamApp(ScriptedCoordinator([Granting([0])], [routing(1)]), Raised(world))

        @app.listener("orders", group="billing", on_lost=lambda member, shard, token: lost.append(shard))
        async def handle(message: Message) -> None:
            raise AssertionError("there is nothing to handle")

        async with app:
            await until(lambda: lost == [0])

    asyncio.run(scenario())


def test_the_consumer_s_name_is_taken_off_a_shard_it_has_drained() -> None:
    world = memory_streams(1)

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 1)
        app, _ = app_over(world, 0)
        app.listener("orders", group="billing", ack="on_success", member_id="web")(noop)
        async with app:
            await until(lambda: nothing_pending(world))
            assert world.streams["orders:0"].groups[ORDERS.group].consumers == {"web-m0"}
        assert world.streams["orders:0"].groups[ORDERS.group].consumers == set()

    asyncio.run(scenario())


async def noop(message: Message) -> None:
    """Handles anything."""


def test_a_vanished_shard_is_reported_and_read_again_once_it_is_back() -> None:
    world = memory_streams(1)
    seen: list[str] = []

    async def scenario() -> None:
        app, api = app_over(world, 0)

        @app.listener("orders", group="billing", ack="on_success")
        async def handle(message: Message) -> None:
            seen.append(message.id)

        async with app:
            await until(lambda: app.members[0].session.held != {})
            world.lose_shard("orders:0")
            await until(lambda: [row.read_state for beat in api.beats[-1:] for row in beat.progress] == ["MISSING"])
            world.create_foreign("orders:0", (ORDERS.group,))
            await fill(MemoryShardLog(world), 0, 1)
            await until(lambda: len(seen) == 1)

    asyncio.run(scenario())
