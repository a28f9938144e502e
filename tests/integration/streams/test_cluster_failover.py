"""Masters of a cluster that go away while their shards are read and written."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator

import pytest

from streamshard.adapters.streams.cluster_backend import ClusterStreamBackend
from streamshard.adapters.streams.opening import shard_log, stream_backend
from streamshard.core.effects import ProvisionResult, RaiseFence, RaiseVerdict
from streamshard.core.ids import Generation, LayoutVersion, Millis, RecordId, ShardIndex, Token
from streamshard.core.records import Access, Append
from streamshard.core.slots import hash_slot
from streamshard.errors import MaybeWritten, NotWritten, StreamUnavailable
from tests.integration.cluster import Cluster, Node, ask, until
from tests.integration.streams.cluster_rig import ClusterRig
from tests.integration.streams.rigs import BILLING, KEY, ORDERS, access, provision, publish, read
from tests.servers import Servers

SLOT = hash_slot(KEY)
KEYS = [f"orders:{shard}" for shard in range(6)]


@pytest.fixture
def own(servers: Servers) -> Iterator[Cluster]:
    """Three masters with a replica each, to break; each serves its slots whatever becomes of the others'."""
    with Cluster(servers.binary("valkey"), replicas=1) as cluster:
        for node in cluster.nodes:
            ask(node.port, "CONFIG", "SET", "cluster-require-full-coverage", "no")
        yield cluster


def run(cluster: Cluster, scenario: Callable[[ClusterRig], Awaitable[None]]) -> None:
    """Play over a rig that has made six shards, which every node has a part in."""
    assert len({cluster.master_of(hash_slot(key)).port for key in KEYS}) == 3

    async def main() -> None:
        rig = ClusterRig(cluster.url)
        try:
            await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in range(len(KEYS))])
            await scenario(rig)
        finally:
            await rig.close()

    asyncio.run(main())


def raise_on(shard: int) -> RaiseFence:
    guard = (Generation(1), LayoutVersion(1))
    return RaiseFence(ORDERS, ShardIndex(shard), *guard, BILLING, Token(0), Token(5))


def shards_of(cluster: Cluster, node: Node) -> set[str]:
    return {key for key in KEYS if cluster.master_of(hash_slot(key)) is node}


def replicated(cluster: Cluster) -> None:
    """Wait until every replica has what its master has."""
    pairs = [(master, cluster.replica_of(master)) for master in cluster.masters]
    until("the replicas have everything", lambda: all(offset(master) == offset(each) for master, each in pairs))


def offset(node: Node) -> int:
    told = node.info("replication")
    return int(told["slave_repl_offset" if told["role"] == "slave" else "master_repl_offset"])


async def healthy(rig: ClusterRig) -> RecordId:
    """Publish to the first shard and read it, as soon as that is possible."""
    async with asyncio.timeout(20):
        while True:
            try:
                (written,) = await publish(rig, "again")
                assert written in [record.id for record in (await read(rig, 5)).records]
                return written
            except (NotWritten, MaybeWritten, StreamUnavailable):
                await asyncio.sleep(0.05)


def test_a_failover_by_hand_loses_nothing_and_is_followed(own: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        before = await publish(rig, "a", "b")
        await read(rig, 5, 1)
        await asyncio.to_thread(own.promote, own.master_of(SLOT))

        written = await healthy(rig)
        second = await rig.log.claim(access(5), RecordId("0-0"), 10)
        (again,) = await rig.backend.provision([provision((BILLING, "0"))])
        stale = await read(rig, 4)

        assert [record.id for record in second.records] == [*before, written]
        assert again is ProvisionResult.DONE
        assert stale.access is Access.FENCED

    run(own, scenario)


def test_what_is_said_of_each_record_holds_when_its_master_is_killed(own: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        results: dict[tuple[str, bytes], RecordId | None | NotWritten | MaybeWritten] = {}
        number = 0

        async def publish_all() -> None:
            nonlocal number
            number += 1
            outcomes = await rig.log.append_many([Append(key, {b"n": b"%d" % number}) for key in KEYS])
            results.update(((key, b"%d" % number), outcome) for key, outcome in zip(KEYS, outcomes, strict=True))

        for _ in range(20):
            await publish_all()
        replicated(own)
        safe = set(results)
        master = own.master_of(SLOT)
        theirs = shards_of(own, master)
        asking = asyncio.create_task(publish_all())
        await asyncio.sleep(0)
        master.signal(signal.SIGKILL)
        await asking
        while not isinstance(results[KEY, b"%d" % number], str):
            await publish_all()
            await asyncio.sleep(0.02)

        kept = {(key, entry[1][b"n"]) for key in KEYS for entry in await rig.raw("XRANGE", key, "-", "+")}
        assert {place for place in results if place[0] not in theirs and not isinstance(results[place], str)} == set()
        assert {place for place, outcome in results.items() if isinstance(outcome, NotWritten)} & kept == set()
        assert {place for place, outcome in results.items() if outcome is None} == set()
        assert any(isinstance(outcome, NotWritten) for outcome in results.values())
        lost = {place for place, outcome in results.items() if isinstance(outcome, str)} - kept
        assert {key for key, _ in lost} <= theirs
        assert lost & safe == set()

    run(own, scenario)


def test_a_master_that_falls_silent_is_left_for_its_replica_and_holds_up_no_other_shard(own: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        await publish(rig, "a")
        await read(rig, 5)
        replicated(own)
        master = own.master_of(SLOT)
        other = next(number for number, key in enumerate(KEYS) if key not in shards_of(own, master))
        master.signal(signal.SIGSTOP)
        try:
            publishing = asyncio.create_task(rig.log.append(KEY, {"n": 1}, None))
            reading = asyncio.create_task(read(rig, 5))
            waiting = asyncio.create_task(rig.log.wait({KEY: RecordId("0-1")}, Millis(60_000)))
            await asyncio.sleep(0.1)

            replies = await rig.log.read([(access(5, shard=other), 1)])
            others = await rig.log.append_many([Append(KEYS[other], {b"n": b"1"})])
            assert not publishing.done()
            with pytest.raises(MaybeWritten):
                await publishing
            with pytest.raises(StreamUnavailable):
                await reading
            await asyncio.gather(waiting, return_exceptions=True)  # it ends, one way or the other
            await healthy(rig)
        finally:
            master.signal(signal.SIGCONT)

        assert replies[0].access is Access.OK
        assert isinstance(others[0], str)
        assert own.master_of(SLOT) is not master

    run(own, scenario)


def test_a_slot_that_nobody_serves_is_unavailable_alone(servers: Servers) -> None:
    with Cluster(servers.binary("valkey")) as bare:
        for node in bare.nodes:
            ask(node.port, "CONFIG", "SET", "cluster-require-full-coverage", "no")

        async def scenario(rig: ClusterRig) -> None:
            master = bare.master_of(SLOT)
            theirs = shards_of(bare, master)
            master.signal(signal.SIGKILL)

            outcomes = await rig.log.append_many([Append(key, {b"n": b"1"}) for key in KEYS])
            raised = await rig.backend.raise_fences([raise_on(shard) for shard in range(len(KEYS))])

            unknown = {key for key, result in zip(KEYS, raised, strict=True) if result.verdict is RaiseVerdict.UNKNOWN}
            assert unknown == theirs
            assert {result.verdict for result in raised} == {RaiseVerdict.UNKNOWN, RaiseVerdict.RAISED}
            assert isinstance(rig.backend, ClusterStreamBackend)
            assert await rig.backend.away() == (f"127.0.0.1:{master.port}",)
            failed = {key for key, outcome in zip(KEYS, outcomes, strict=True) if isinstance(outcome, Exception)}
            assert failed == theirs
            with pytest.raises(StreamUnavailable, match="can't be reached|did not answer"):
                await read(rig, 5)
            with pytest.raises(StreamUnavailable):
                await rig.backend.raise_fences([raise_on(KEYS.index(key)) for key in sorted(theirs)])

        run(bare, scenario)


def test_nodes_that_are_none_of_a_cluster_are_named_so(redis_url: str) -> None:
    async def main() -> None:
        log = shard_log(redis_url.replace("redis://", "redis+cluster://"))
        with pytest.raises(NotWritten, match="is no node of a cluster"):
            await log.append(KEY, {"a": 1}, None)
        await log.close()
        backend = stream_backend("redis+cluster://127.0.0.1:1")
        assert isinstance(backend, ClusterStreamBackend)
        with pytest.raises(StreamUnavailable, match="no node of the Redis Cluster says who serves what"):
            await backend.away()
        await backend.close()

    asyncio.run(main())
