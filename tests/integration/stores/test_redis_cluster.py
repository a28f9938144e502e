"""The store on a real Redis Cluster: failovers, moved slots, and nodes that are gone."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from streamshard.adapters.stores.redis import RedisStore
from streamshard.core.group import GroupRecord
from streamshard.core.ids import GroupKey, Nonce, StreamPrefix, Version, next_version
from streamshard.core.ports import GroupChange, GroupSnapshot, StoreSource, StreamChange, StreamSnapshot, Transaction
from streamshard.core.slots import hash_slot
from streamshard.errors import (
    CommitUncertain,
    ConfigurationError,
    RevisionConflict,
    SourceChanged,
    StoreUnavailable,
)
from streamshard.testing.samples import (
    BILLING,
    CREATE,
    CREATE_STREAM,
    FIRST,
    KEY,
    ORDERS,
    SECOND,
    a_group,
    a_row,
    a_stream,
    put,
    source_of,
    state,
)
from tests.integration.cluster import Cluster, Node, ask, until
from tests.integration.stores.redis_rig import store_at, write_over
from tests.servers import FLAVOURS, Servers

SLOT = hash_slot("{p:orders}")


@pytest.fixture
def own(servers: Servers) -> Iterator[Cluster]:
    """A cluster to break: three masters with a replica each."""
    with Cluster(servers.binary("valkey"), replicas=1) as cluster:
        yield cluster


@pytest.fixture
def bare(servers: Servers) -> Iterator[Cluster]:
    """Three masters alone, to break."""
    with Cluster(servers.binary("valkey")) as cluster:
        yield cluster


@pytest.fixture(params=FLAVOURS)
def of_every_kind(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Cluster]:
    """Three masters alone, of each kind of server."""
    with Cluster(servers.binary(request.param)) as cluster:
        yield cluster


def elsewhere(cluster: Cluster) -> StreamPrefix:
    """A stream that another master serves than that of `ORDERS`."""
    here = cluster.master_of(SLOT)
    names = (f"other-{number}" for number in range(100))
    return StreamPrefix(next(name for name in names if cluster.master_of(hash_slot(f"{{p:{name}}}")) is not here))


async def reachable(store: RedisStore, key: GroupKey = KEY) -> GroupSnapshot:
    """Read as soon as the cluster lets us."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await store.load_group(key)
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def create(store: RedisStore, prefix: StreamPrefix) -> GroupKey:
    """A stream with one group."""
    key = GroupKey(prefix, BILLING)
    source = (await store.load_stream(prefix)).source
    stream, group = StreamChange(None, a_stream(prefix=prefix)), GroupChange(key, None, a_group(key=key))
    await store.commit(Transaction(prefix, source, stream, (group,)))
    return key


def promote(cluster: Cluster, master: Node) -> Node:
    """Fail over by hand, which loses nothing; returns the new master."""
    replica = cluster.replica_of(master)
    assert ask(replica.port, "CLUSTER", "FAILOVER") == b"OK"
    until("the replica is the master", lambda: replica in cluster.masters and master not in cluster.masters)
    return replica


def test_each_stream_names_the_master_that_serves_it(cluster: Cluster) -> None:
    other = elsewhere(cluster)

    async def scenario() -> tuple[StoreSource, StoreSource]:
        async with store_at(cluster.url) as store:
            return await source_of(store), (await store.load_stream(other)).source

    here, there = asyncio.run(scenario())

    assert here.connection == there.connection
    assert here.identity != there.identity


def test_streams_of_every_master_are_listed_and_found_again(cluster: Cluster) -> None:
    names = [StreamPrefix(f"stream-{number:02}") for number in range(20)]

    async def scenario() -> list[tuple[str, ...]]:
        async with store_at(cluster.url) as store:
            for name in names:
                await create(store, name)
            listed = await store.prefixes()
            ask(cluster.master_of(hash_slot("streamshard:streams")).port, "DEL", "streamshard:streams")
            return [listed, await store.prefixes(), await store.rebuild_index(), await store.prefixes()]

    everything = tuple(names)
    assert asyncio.run(scenario()) == [everything, (), everything, everything]


def test_a_failover_is_another_store_for_its_own_streams_alone(own: Cluster) -> None:
    other = elsewhere(own)

    async def scenario() -> list[tuple[StoreSource, StoreSource]]:
        async with store_at(own.url) as store:
            await put(store, CREATE_STREAM, CREATE)
            key = await create(store, other)
            before = [(await store.load_group(each)).source for each in (KEY, key)]
            await asyncio.to_thread(promote, own, own.master_of(SLOT))
            with pytest.raises((SourceChanged, StoreUnavailable)):
                await write_over(store, before[0])
            found = await reachable(store)
            assert found.record == a_group()
            with pytest.raises(SourceChanged):
                await write_over(store, before[0])
            return list(zip(before, [found.source, (await reachable(store, key)).source], strict=True))

    here, there = asyncio.run(scenario())

    assert here[0].identity != here[1].identity
    assert there[0].identity == there[1].identity


def test_a_crashed_master_loses_nothing_acknowledged_or_is_noticed(own: Cluster) -> None:
    """Whatever was acknowledged is there after the failover, or the source is another one: here it has to be."""

    async def scenario() -> tuple[int, GroupSnapshot, StoreSource, set[StoreSource]]:
        async with store_at(own.url) as store:
            await put(store, CREATE)
            master = own.master_of(SLOT)
            writing = asyncio.create_task(increments(store))
            await asyncio.sleep(0.3)
            await asyncio.to_thread(master.signal, signal.SIGKILL)
            acknowledged, sources = await writing
            found = await reachable(store)
            with pytest.raises(SourceChanged):
                await put_over(store, next(iter(sources)), found)
            return acknowledged, found, await source_of(store), sources

    acknowledged, found, source, sources = asyncio.run(scenario())

    assert isinstance(found.record, GroupRecord)
    assert found.source == source
    assert source not in sources
    assert acknowledged > 1
    assert found.record.version.revision >= acknowledged or source.identity not in {each.identity for each in sources}


async def increments(store: RedisStore) -> tuple[int, set[StoreSource]]:
    """Commit until it fails; the last acknowledged revision, and all sources that were written over."""
    sources, acknowledged = set(), 1
    try:
        while True:
            found = await store.load_group(KEY)
            await put_over(store, found.source, found)
            sources.add(found.source)
            acknowledged += 1
    except (CommitUncertain, SourceChanged, StoreUnavailable, RevisionConflict):
        return acknowledged, sources


async def put_over(store: RedisStore, source: StoreSource, found: GroupSnapshot) -> None:
    """Replace the record that was found by its successor."""
    assert isinstance(found.record, GroupRecord)
    version: Version = next_version(found.record.version, Nonce(f"n-{found.record.version.revision}"))
    change = GroupChange(KEY, found.record.version, a_group(version))
    await store.commit(Transaction(ORDERS, source, groups=(change,)))


def test_a_failover_that_lost_a_commit_is_noticed(own: Cluster) -> None:
    """The replica is kept from hearing of the last commit, then its master dies."""

    async def scenario() -> tuple[StoreSource, GroupSnapshot]:
        async with store_at(own.url) as store:
            await put(store, CREATE)
            master = own.master_of(SLOT)
            replica = own.replica_of(master)
            await asyncio.to_thread(
                until,
                "the replica has the record",
                lambda: (
                    replica.info("replication")["slave_repl_offset"] == master.info("replication")["master_repl_offset"]
                ),
            )
            replica.signal(signal.SIGSTOP)
            ask(master.port, "CLIENT", "KILL", "TYPE", "replica")
            before = await source_of(store)
            await put(store, GroupChange(KEY, FIRST, a_group(SECOND, epoch=2)))
            await asyncio.to_thread(master.signal, signal.SIGKILL)
            replica.signal(signal.SIGCONT)
            found = await reachable(store)
            with pytest.raises(SourceChanged):
                await write_over(store, before)
            return before, found

    before, found = asyncio.run(scenario())

    assert found.record == a_group(epoch=1)
    assert found.source.identity != before.identity
    assert found.source.connection > before.connection


def test_a_slot_that_moved_takes_its_streams_along(of_every_kind: Cluster) -> None:
    source_node = of_every_kind.master_of(SLOT)
    target = next(node for node in of_every_kind.masters if node is not source_node)

    async def scenario() -> tuple[StoreSource, StoreSource, list[object]]:
        async with store_at(of_every_kind.url) as store:
            await put(store, CREATE_STREAM, CREATE, row=a_row())
            before = await source_of(store)
            await asyncio.to_thread(move, of_every_kind, source_node, target)
            with pytest.raises(SourceChanged):
                await write_over(store, before)
            after = await source_of(store)
            found = list(await state(store))
            await put(store, GroupChange(KEY, FIRST, a_group(SECOND)))
            return before, after, found

    before, after, found = asyncio.run(scenario())

    assert after.identity != before.identity
    assert found == [a_stream(), a_group(), {a_row().instance: a_row()}]


def move(cluster: Cluster, source: Node, target: Node) -> None:
    """Move the slot of `ORDERS` with its keys, as the tools do."""
    begin_move(source, target)
    keys = ask(source.port, "CLUSTER", "GETKEYSINSLOT", SLOT, 100)
    assert keys
    moved = ask(source.port, "MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *(key.decode() for key in keys))
    assert moved == b"OK"
    for node in (target, source, *cluster.masters):
        assert ask(node.port, "CLUSTER", "SETSLOT", SLOT, "NODE", target.id) == b"OK"


def begin_move(source: Node, target: Node) -> None:
    """Open the slot of `ORDERS` on both sides."""
    assert ask(target.port, "CLUSTER", "SETSLOT", SLOT, "IMPORTING", source.id) == b"OK"
    assert ask(source.port, "CLUSTER", "SETSLOT", SLOT, "MIGRATING", target.id) == b"OK"


def test_a_slot_on_its_way_is_unavailable_and_nothing_is_changed(bare: Cluster) -> None:
    source_node = bare.master_of(SLOT)
    target = next(node for node in bare.masters if node is not source_node)

    async def scenario() -> list[tuple[object, object, object]]:
        async with store_at(bare.url) as store:
            await put(store, CREATE_STREAM)
            source = await source_of(store)
            begin_move(source_node, target)
            with pytest.raises(StoreUnavailable, match="on its way to another node"):
                await store.load_group(KEY)
            with pytest.raises(StoreUnavailable, match="on its way to another node"):
                await store.commit(Transaction(ORDERS, source, groups=(CREATE,)))
            for node in (source_node, target):
                ask(node.port, "CLUSTER", "SETSLOT", SLOT, "STABLE")
            return [await state(store)]

    assert asyncio.run(scenario()) == [(a_stream(), None, {})]


def test_a_cluster_that_is_down_is_unavailable(bare: Cluster) -> None:
    first = bare.nodes[0]

    async def scenario() -> None:
        async with store_at(bare.url) as store:
            await put(store, CREATE)
            source = await source_of(store)
            await asyncio.to_thread(first.signal, signal.SIGKILL)
            await asyncio.to_thread(until, "the others notice", lambda: down(bare.nodes[1]))
            for name in ("a", "b", "c", "d", "e", "f"):
                with pytest.raises(StoreUnavailable):
                    await store.load_stream(StreamPrefix(name))
            with pytest.raises((StoreUnavailable, SourceChanged)):
                await write_over(store, source)
            with pytest.raises(StoreUnavailable):
                await store.prefixes()

    asyncio.run(scenario())


def down(node: Node) -> bool:
    return b"cluster_state:fail" in ask(node.port, "CLUSTER", "INFO")


def test_a_node_of_a_cluster_is_no_single_server(cluster: Cluster) -> None:
    with pytest.raises(ConfigurationError, match=r"write redis\+cluster://"):
        asyncio.run(RedisStore.open(f"redis://127.0.0.1:{cluster.nodes[0].port}"))


def test_a_cluster_is_found_through_a_replica_or_past_a_dead_seed(cluster: Cluster) -> None:
    replica = cluster.replica_of(cluster.master_of(SLOT))

    async def scenario() -> tuple[str, ...]:
        async with store_at(f"redis+cluster://127.0.0.1:1,127.0.0.1:{replica.port}") as store:
            await put(store, CREATE_STREAM)
            return await store.prefixes()

    assert asyncio.run(scenario()) == ("orders",)


def test_a_coordinator_may_start_while_a_master_is_away(bare: Cluster) -> None:
    ask(bare.nodes[1].port, "CONFIG", "SET", "cluster-require-full-coverage", "no")
    ask(bare.nodes[2].port, "CONFIG", "SET", "cluster-require-full-coverage", "no")
    names = [StreamPrefix(f"stream-{number}") for number in range(20)]
    away = {name for name in names if bare.master_of(hash_slot(f"{{p:{name}}}")) is bare.nodes[0]}
    bare.nodes[0].signal(signal.SIGKILL)

    async def scenario() -> set[StreamPrefix]:
        async with store_at(bare.url) as store:
            outcomes = await asyncio.gather(*(store.load_stream(name) for name in names), return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {StreamSnapshot, StoreUnavailable}
            return {name for name, outcome in zip(names, outcomes, strict=True) if isinstance(outcome, Exception)}

    assert asyncio.run(scenario()) == away
