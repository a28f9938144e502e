"""Looking into shards: the same from every adapter and server, and never with a trace."""

import asyncio
from collections.abc import Awaitable, Callable

import attrs
import pytest

from streamshard.adapters.streams.memory_inspector import MemoryStreamInspector
from streamshard.adapters.streams.opening import stream_inspector
from streamshard.adapters.streams.redis_inspector import RedisStreamInspector
from streamshard.core.ids import GroupName, RecordId, ShardIndex
from streamshard.core.inspection import Direction, Entry, GroupLook, Page, ShardLook, StreamInspector, Wanted
from streamshard.core.records import AckMode
from streamshard.errors import StreamUnavailable
from tests.integration.streams.rigs import (
    BILLING,
    KEY,
    ORDERS,
    ZERO,
    MakeRig,
    MemoryRig,
    RedisRig,
    Rig,
    access,
    provision,
    publish,
)

ONE = ShardIndex(1)
MISSING = ShardIndex(9)

Scenario = Callable[[Rig, StreamInspector], Awaitable[None]]


def play(make: MakeRig, scenario: Scenario) -> None:
    """Run one scenario with an inspector beside the rig."""

    async def main() -> None:
        rig = make()
        inspector = _inspector(rig)
        try:
            await scenario(rig, inspector)
        finally:
            await inspector.close()
            await rig.close()

    asyncio.run(main())


def _inspector(rig: Rig) -> MemoryStreamInspector | RedisStreamInspector:
    if isinstance(rig, MemoryRig):
        return MemoryStreamInspector(rig.world, lambda: 1_700_000_000_000)
    assert isinstance(rig, RedisRig)
    return stream_inspector(rig.url)


async def look(inspector: StreamInspector, shard: ShardIndex = ZERO, group: GroupName = BILLING) -> ShardLook:
    (seen,) = await inspector.look(ORDERS, [shard], group)
    return seen


def bare(seen: ShardLook) -> ShardLook:
    """Without what differs from server to server."""
    return attrs.evolve(seen, node=None, memory_bytes=None, now_ms=None)


def test_an_empty_shard_is_zero_and_not_unknown(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig, inspector: StreamInspector) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])

        seen = await look(inspector)

        group = GroupLook(RecordId("0-0"), 0, seen.group.lag if seen.group else None, None, None)
        assert bare(seen) == ShardLook(ZERO, exists=True, last_generated=RecordId("0-0"), group=group)
        assert (seen.lag, seen.pending, seen.waiting, seen.oldest_unacked_ms) == (0, 0, 0, 0)

    play(make_rig, scenario)


def test_what_is_read_and_not_acknowledged_and_what_is_not_read_are_counted_apart(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig, inspector: StreamInspector) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        ids = await publish(rig, "a", "b", "c", "d")
        await rig.log.read([(access(1), 3)])
        await rig.log.acknowledge(access(1), ids[:1], AckMode.ACK)

        seen = await look(inspector)

        assert (seen.length, seen.first_id, seen.last_id, seen.last_generated) == (4, ids[0], ids[3], ids[3])
        assert seen.group is not None
        assert (seen.group.last_delivered, seen.group.oldest_pending) == (ids[2], ids[1])
        assert seen.group.first_undelivered == ids[3]
        assert (seen.pending, seen.lag, seen.waiting) == (2, 1, 3)

    play(make_rig, scenario)


def test_a_missing_key_and_a_missing_group_are_unknown(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig, inspector: StreamInspector) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])

        no_key, no_group = await look(inspector, MISSING), await look(inspector, ZERO, GroupName("nobody"))

        assert bare(no_key) == ShardLook(MISSING, exists=False)
        assert (no_group.exists, no_group.group, no_group.lag, no_group.pending) == (True, None, None, None)

    play(make_rig, scenario)


def test_shards_are_seen_in_the_order_that_was_asked_for(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig, inspector: StreamInspector) -> None:
        await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in (0, 1)])
        await publish(rig, "a", key="orders:1")

        seen = await inspector.look(ORDERS, [ONE, MISSING, ZERO], BILLING)

        assert [(s.shard, s.exists, s.length) for s in seen] == [(ONE, True, 1), (MISSING, False, 0), (ZERO, True, 0)]
        assert await inspector.look(ORDERS, [], BILLING) == ()

    play(make_rig, scenario)


@pytest.mark.parametrize("direction", list(Direction))
def test_pages_follow_one_another_without_a_gap(make_rig: MakeRig, direction: Direction) -> None:
    async def scenario(rig: Rig, inspector: StreamInspector) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        ids = await publish(rig, "a", "b", "c", "d", "e")

        pages, cursor = list[Page](), None
        while not pages or cursor is not None:
            (page,) = await inspector.pages(ORDERS, [ZERO], Wanted(direction, 2, cursor))
            pages.append(page)
            cursor = page.cursor

        wanted = ids if direction is Direction.FORWARD else tuple(reversed(ids))
        assert tuple(entry.id for page in pages for entry in page.entries) == wanted
        assert [len(page.entries) for page in pages] == [2, 2, 1]

    play(make_rig, scenario)


def test_every_octet_of_a_record_is_shown(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig, inspector: StreamInspector) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        odd = {b"\x00\xff": bytes(range(256)), b"": b"", "naïve".encode(): b"\r\n"}
        record = await rig.log.append(KEY, {name: octets for name, octets in odd.items()}, None)

        (page, nothing) = await inspector.pages(ORDERS, [ZERO, MISSING], Wanted(Direction.BACKWARD, 10))

        assert page == Page((Entry(record or RecordId(""), tuple(odd.items())),))
        assert nothing == Page(())

    play(make_rig, scenario)


def test_looking_changes_nothing(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig, inspector: StreamInspector) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        await publish(rig, "a", "b")
        await rig.log.read([(access(1), 1)])
        before = await rig.backend.probe(ORDERS, [ZERO]), await rig.backend.read_fences(ORDERS, [ZERO, MISSING])

        await inspector.look(ORDERS, [ZERO, MISSING], GroupName("new"))
        await inspector.pages(ORDERS, [ZERO, MISSING], Wanted(Direction.FORWARD, 1))

        after = await rig.backend.probe(ORDERS, [ZERO]), await rig.backend.read_fences(ORDERS, [ZERO, MISSING])
        assert after == before

    play(make_rig, scenario)


def test_a_server_says_who_it_is_how_much_it_uses_and_how_late_it_is(server_url: str) -> None:
    async def scenario(rig: Rig, inspector: StreamInspector) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        await publish(rig, "a")

        seen = await look(inspector)

        assert seen.node == server_url.removeprefix("redis://").removesuffix("/0")
        assert seen.memory_bytes is not None
        assert seen.memory_bytes > 0
        assert seen.oldest_unacked_ms is not None
        assert 0 <= seen.oldest_unacked_ms < 60_000

    play(lambda: RedisRig(server_url), scenario)


def test_however_many_shards_are_looked_at_it_is_one_round_trip(server_url: str) -> None:
    async def scenario(rig: Rig, inspector: StreamInspector) -> None:
        assert isinstance(rig, RedisRig)
        shards = [ShardIndex(index) for index in range(600)]
        await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in shards])
        await look(inspector)
        before = await _reads(rig)

        seen = await inspector.look(ORDERS, shards, BILLING)

        assert [s.exists for s in seen] == [True] * 600
        # A server reads some 16 KiB of a pipeline at a time: far fewer times than there are shards.
        assert await _reads(rig) - before < 60

    play(lambda: RedisRig(server_url), scenario)


async def _reads(rig: RedisRig) -> int:
    stats = await rig.raw("INFO", "stats")
    return int(stats["total_reads_processed"])


def test_a_server_that_is_away_is_no_empty_shard() -> None:
    async def scenario() -> None:
        down = MemoryRig()
        down.world.go_down()
        away: list[MemoryStreamInspector | RedisStreamInspector] = [
            MemoryStreamInspector(down.world),
            stream_inspector("redis://127.0.0.1:1"),
        ]
        for inspector in away:
            with pytest.raises(StreamUnavailable):
                await inspector.look(ORDERS, [ZERO], BILLING)
            with pytest.raises(StreamUnavailable):
                await inspector.pages(ORDERS, [ZERO], Wanted(Direction.FORWARD, 1))
            await inspector.close()

    asyncio.run(scenario())
