"""Slots that move from node to node while their shards are read and written."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from streamshard.adapters.streams.opening import shard_log
from streamshard.adapters.streams.scripts import fence_key
from streamshard.core.effects import GuardResult, ProvisionResult
from streamshard.core.ids import Millis, RecordId
from streamshard.core.records import Access, AckMode, AckReply, Append, ReadReply
from streamshard.core.slots import hash_slot
from streamshard.errors import NotWritten, StreamUnavailable
from tests.integration.cluster import Cluster, Node, ask
from tests.integration.streams.cluster_rig import ClusterRig
from tests.integration.streams.rigs import BILLING, KEY, ORDERS, ZERO, access, provision, publish, read, seal
from tests.servers import Servers

SLOT = hash_slot(KEY)


@pytest.fixture(scope="module")
def bare(servers: Servers) -> Iterator[Cluster]:
    """Three masters alone, whose slots may be moved."""
    with Cluster(servers.binary("valkey")) as cluster:
        yield cluster


@pytest.fixture
def moving(bare: Cluster) -> Cluster:
    """The same, emptied."""
    bare.empty()
    return bare


def run(cluster: Cluster, scenario: Callable[[ClusterRig], Awaitable[None]]) -> None:
    """Play over a rig that has made the first shards, and so knows where they were."""

    async def provisioned(rig: ClusterRig) -> None:
        await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in range(6)])
        await scenario(rig)

    async def main() -> None:
        rig = ClusterRig(cluster.url)
        try:
            await provisioned(rig)
        finally:
            await rig.close()

    asyncio.run(main())


def elsewhere(cluster: Cluster) -> Node:
    """A node that does not serve the first shard."""
    return next(node for node in cluster.masters if node is not cluster.master_of(SLOT))


def test_a_shard_that_moved_is_found_by_every_order(moving: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        (first,) = await publish(rig, "a")
        moving.move(SLOT, elsewhere(moving))

        (second,) = await publish(rig, "b")
        taken = await read(rig, 5)
        acknowledged = await rig.log.acknowledge(access(5), [first], AckMode.ACK)
        claimed = await rig.log.claim(access(5), RecordId("0-0"), 10)
        (probe,) = await rig.backend.probe(ORDERS, [ZERO])

        assert [record.id for record in taken.records] == [first, second]
        assert acknowledged == AckReply(Access.OK, 1)
        assert [record.id for record in claimed.records] == [second]
        assert (probe.length, probe.groups[0].pending) == (2, 1)

    run(moving, scenario)


def test_a_wait_hears_of_a_record_on_the_node_that_the_shard_moved_to(moving: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        position = (await read(rig, 5)).last_delivered
        assert position is not None
        waiting = asyncio.create_task(rig.log.wait({KEY: position}, Millis(5_000)))
        await asyncio.sleep(0.05)
        moving.move(SLOT, elsewhere(moving))
        await waiting  # its key has left the node, which is as good as a write

        waiting = asyncio.create_task(rig.log.wait({KEY: position}, Millis(5_000)))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await publish(rig, "a")

        await waiting

    run(moving, scenario)


def test_while_a_slot_is_open_its_shard_is_read_and_written_on_either_side(moving: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        target = elsewhere(moving)
        before = await publish(rig, "before")
        source = moving.begin_move(SLOT, target)
        at_home = await publish(rig, "at home")
        first = await read(rig, 5)
        for key in (KEY, fence_key(KEY)):
            moving.move_key(key, source, target)

        away = await publish(rig, "away")
        second = await read(rig, 5)
        stale = await read(rig, 4)
        acknowledged = await rig.log.acknowledge(access(5), [*before, *at_home, *away], AckMode.ACK)
        moving.finish_move(SLOT, source, target)
        third = await read(rig, 5)

        assert [record.id for reply in (first, second) for record in reply.records] == [*before, *at_home, *away]
        assert stale == ReadReply(Access.FENCED)
        assert acknowledged == AckReply(Access.OK, 3)
        assert third == ReadReply(Access.OK, (), away[0])

    run(moving, scenario)


def test_a_shard_without_its_fence_beside_it_is_unavailable_and_can_be_written(moving: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        target = elsewhere(moving)
        source = moving.begin_move(SLOT, target)
        moving.move_key(KEY, source, target)

        (written,) = await publish(rig, "a")
        with pytest.raises(StreamUnavailable, match="TRYAGAIN"):
            await read(rig, 5)
        with pytest.raises(StreamUnavailable, match="TRYAGAIN"):
            await rig.backend.seal(seal(BILLING))
        replies = await rig.log.read([(access(5, shard=1), 1)])
        moving.move_key(fence_key(KEY), source, target)
        taken = await read(rig, 5)
        moving.finish_move(SLOT, source, target)

        assert replies[0].access is Access.OK
        assert [record.id for record in taken.records] == [written]

    run(moving, scenario)


def test_a_read_waits_a_moment_for_the_fence_to_follow_its_shard(moving: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        target = elsewhere(moving)
        await publish(rig, "a")
        source = moving.begin_move(SLOT, target)
        moving.move_key(KEY, source, target)

        reading = asyncio.create_task(read(rig, 5))
        await asyncio.sleep(0.03)
        moving.move_key(fence_key(KEY), source, target)

        assert len((await reading).records) == 1
        moving.finish_move(SLOT, source, target)

    run(moving, scenario)


def test_a_retired_shard_stays_retired_wherever_its_slot_goes(moving: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        assert await rig.backend.seal(seal(BILLING)) is GuardResult.DONE
        moving.move(SLOT, elsewhere(moving))

        assert await rig.log.append(KEY, {"a": 1}, None) is None
        assert await read(rig, 5) == ReadReply(Access.SEALED)
        assert await rig.backend.provision([provision((BILLING, "0"))]) == (ProvisionResult.SUPERSEDED,)

    run(moving, scenario)


def test_what_is_published_while_slots_move_is_written_once_in_order(moving: Cluster) -> None:
    keys = [f"orders:{shard}" for shard in range(6)]

    async def scenario(rig: ClusterRig) -> None:
        async def move_about() -> None:
            for turn in range(6):
                slot = hash_slot(keys[turn])
                others = [node for node in moving.masters if node is not moving.master_of(slot)]
                await asyncio.to_thread(moving.move, slot, others[turn % 2])

        mover = asyncio.create_task(move_about())
        sent = 0
        results = []
        while not mover.done() or sent < 50:
            results += await rig.log.append_many([Append(key, {b"n": b"%d" % sent}) for key in keys])
            sent += 1
        await mover

        assert [result for result in results if not isinstance(result, str)] == []
        for key, written in zip(keys, (results[place :: len(keys)] for place in range(len(keys))), strict=True):
            assert list(await rig.ids(key)) == written

    run(moving, scenario)


def test_a_slot_that_nobody_served_at_first_is_found_when_somebody_does(moving: Cluster) -> None:
    owner = moving.master_of(SLOT)
    for node in moving.nodes:
        assert ask(node.port, "CLUSTER", "DELSLOTS", SLOT) == b"OK"

    async def scenario() -> None:
        log = shard_log(moving.url)
        with pytest.raises(NotWritten):
            await log.append(KEY, {"a": 1}, None)
        for node in moving.nodes:
            assert ask(node.port, "CLUSTER", "SETSLOT", SLOT, "NODE", owner.id) == b"OK"
        async with asyncio.timeout(20):
            while True:
                try:
                    assert await log.append(KEY, {"a": 1}, None) is None  # nobody has made the shard
                    break
                except NotWritten:
                    await asyncio.sleep(0.05)
        await log.close()

    asyncio.run(scenario())


def test_shards_that_move_to_a_new_node_are_found_there(servers: Servers) -> None:
    with Cluster(servers.binary("valkey")) as growing:

        async def scenario(rig: ClusterRig) -> None:
            assert await read(rig, 5) == ReadReply(Access.OK, (), RecordId("0-0"))
            new = await asyncio.to_thread(growing.add)
            growing.move(SLOT, new)

            (written,) = await publish(rig, "a")
            taken = await read(rig, 5)

            assert [record.id for record in taken.records] == [written]
            assert b"orders:0" in ask(new.port, "KEYS", "*")

        run(growing, scenario)
