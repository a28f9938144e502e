"""Applications whose shards are on the nodes of a Redis Cluster, while slots move and masters die."""

import asyncio
import contextlib
import os
import signal
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

from streamshard import (
    MaybeWritten,
    Message,
    NotWritten,
    Producer,
    Published,
    ScriptedCoordinator,
    StreamApp,
    SyncProducer,
)
from streamshard.core.ids import ShardIndex, stream_key
from streamshard.core.routing import route
from streamshard.core.slots import hash_slot
from tests.integration.client.rig import Rig, redis_rig
from tests.integration.client.script import ORDERS, routing, until
from tests.integration.cluster import Cluster, Node, ask
from tests.integration.cluster import until as wait_until
from tests.servers import Servers

SHARDS = 6
KEYS = [f"orders:{shard}" for shard in range(SHARDS)]
Place = tuple[str, str]


@pytest.fixture(scope="module")
def breakable(servers: Servers) -> Iterator[Cluster]:
    """Three masters with a replica each, to break; each serves its slots whatever becomes of the others'."""
    with Cluster(servers.binary("valkey"), replicas=1) as cluster:
        for node in cluster.nodes:
            ask(node.port, "CONFIG", "SET", "cluster-require-full-coverage", "no")
        yield cluster


@pytest.fixture
def own(breakable: Cluster) -> Cluster:
    """The same, emptied; the last test of this module leaves it with a master less."""
    breakable.empty()
    return breakable


@attrs.define
class Scene:
    """Two members that share the shards, a producer, and what came of everything."""

    rig: Rig
    cluster: Cluster
    handled: list[Place] = attrs.field(factory=list)
    published: list[Place] = attrs.field(factory=list)
    failed: list[NotWritten | MaybeWritten] = attrs.field(factory=list)

    def app(self, name: str) -> StreamApp:
        app = StreamApp(self.rig.coordinator, self.cluster.url, drain_timeout=5)

        @app.listener("orders", group="billing", member_id=name, redeliver_after=1.0)
        async def handle(message: Message) -> None:
            self.handled.append((message.key, message.id))
            await message.ack()

        return app

    async def publish(self, producer: Producer, key: str) -> Published | None:
        try:
            done = await producer.publish(key, {"for": key})
        except (NotWritten, MaybeWritten) as failure:
            self.failed.append(failure)
            return None
        self.published.append((done.key, done.id))
        return done

    async def shared(self) -> None:
        """Return when both members have shards."""
        async with asyncio.timeout(20):
            while set((await self.rig.owners()).values()) != {"a-m0", "b-m0"} or len(await self.rig.owners()) < SHARDS:
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def scene(cluster: Cluster) -> AsyncIterator[tuple[Scene, Producer]]:
    async with redis_rig(cluster.url, SHARDS) as rig:
        played = Scene(rig, cluster)
        async with played.app("a"), played.app("b") as app:
            await played.shared()
            yield played, app.producer("orders", "billing")


def shards_of(cluster: Cluster, node: Node) -> set[str]:
    return {key for key in KEYS if cluster.master_of(hash_slot(key)) is node}


def replicated(cluster: Cluster) -> None:
    """Wait until every replica has what its master has."""
    pairs = [(master, cluster.replica_of(master)) for master in cluster.masters]
    wait_until("the replicas have everything", lambda: all(offset(one) == offset(other) for one, other in pairs))


def offset(node: Node) -> int:
    told = node.info("replication")
    return int(told["slave_repl_offset" if told["role"] == "slave" else "master_repl_offset"])


def kept(cluster: Cluster) -> set[Place]:
    """Every record that is in the cluster."""
    found = set()
    for key in KEYS:
        for record, _ in ask(cluster.master_of(hash_slot(key)).port, "XRANGE", key, "-", "+"):
            found.add((key, record.decode()))
    return found


def unacknowledged(cluster: Cluster) -> int:
    """How many records the group has not read, or not acknowledged."""
    left = 0
    for key in KEYS:
        (flat,) = ask(cluster.master_of(hash_slot(key)).port, "XINFO", "GROUPS", key)
        told = dict(zip(flat[::2], flat[1::2], strict=True))
        left += told[b"pending"] + (told[b"lag"] or 0)
    return left


def key_by_key(cluster: Cluster, slot: int, target: Node) -> None:
    """As the tools of every server do; the slot stays open for a while."""
    source = cluster.begin_move(slot, target)
    time.sleep(0.05)
    cluster.finish_move(slot, source, target)


def at_once(cluster: Cluster, slot: int, target: Node) -> None:
    """As Valkey 9 can."""
    cluster.migrate(slot, target)


@pytest.mark.parametrize("move", [key_by_key, at_once])
def test_slots_move_while_records_are_published_and_handled_and_each_is_handled_once(
    own: Cluster, move: Callable[[Cluster, int, Node], None]
) -> None:
    async def scenario() -> Scene:
        async with scene(own) as (played, producer):

            async def move_about() -> None:
                for key in KEYS:
                    slot = hash_slot(key)
                    target = next(node for node in own.masters if node is not own.master_of(slot))
                    await asyncio.to_thread(move, own, slot, target)

            moving = asyncio.create_task(move_about())
            number = 0
            while not moving.done():
                await played.publish(producer, f"order-{number}")
                number += 1
            await moving
            await until(lambda: len(played.handled) >= len(played.published))
            await until(lambda: unacknowledged(own) == 0)
            return played

    played = asyncio.run(scenario())

    assert played.failed == []
    assert {key for key, _ in played.published} == set(KEYS)
    assert Counter(played.handled) == Counter(played.published)


def test_a_master_that_hangs_holds_up_no_record_for_another_one(own: Cluster) -> None:
    async def scenario() -> None:
        async with scene(own) as (played, producer):
            master = own.master_of(hash_slot(KEYS[0]))
            theirs = shards_of(own, master)
            await played.publish(producer, "warm")
            keys = {f"order-{number}": stream_key(ORDERS.prefix, place(f"order-{number}")) for number in range(40)}
            master.signal(signal.SIGSTOP)
            try:
                publishing = {key: asyncio.create_task(played.publish(producer, key)) for key in keys}
                await asyncio.gather(*(task for key, task in publishing.items() if keys[key] not in theirs))

                assert {keys[key] for key, task in publishing.items() if not task.done()} == theirs
            finally:
                master.signal(signal.SIGCONT)
            await asyncio.gather(*publishing.values())

    asyncio.run(scenario())


def place(key: str) -> ShardIndex:
    return route("murmur3-v1", key.encode(), SHARDS)


def test_threads_and_forked_workers_publish_to_every_node(cluster: Cluster) -> None:
    for key in KEYS:
        ask(cluster.master_of(hash_slot(key)).port, "XADD", key, "*", "first", "1")
    scripted = ScriptedCoordinator(routings=[routing(SHARDS)])

    with SyncProducer("orders", "billing", scripted, cluster.url) as orders, ThreadPoolExecutor(8) as threads:
        published = list(threads.map(lambda n: orders.publish(f"k{n}", {"n": n}), range(200)))
        with warnings.catch_warnings():
            # Newer Pythons warn of every fork beside threads; that the library minds them is what is tested.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os._exit(0 if isinstance(orders.publish("b", {"n": 2}), Published) else 1)
        _, status = os.waitpid(child, 0)
        orders.publish("c", {"n": 3})

    assert os.waitstatus_to_exitcode(status) == 0
    assert {each.key for each in published} == set(KEYS)
    assert len(kept(cluster)) == SHARDS + 202


def test_a_killed_master_costs_only_what_had_not_reached_its_replica(own: Cluster) -> None:
    async def scenario() -> tuple[Scene, set[Place], set[str]]:
        async with scene(own) as (played, producer):
            for number in range(120):
                await played.publish(producer, f"order-{number}")
            await until(lambda: len(played.handled) == 120)
            await until(lambda: unacknowledged(own) == 0)
            await asyncio.to_thread(replicated, own)
            safe = set(played.published)
            master = own.master_of(hash_slot(KEYS[0]))
            theirs = shards_of(own, master)
            await asyncio.to_thread(master.signal, signal.SIGKILL)
            served: set[str] = set()
            number = 0
            async with asyncio.timeout(20):
                while served != theirs:
                    done = await played.publish(producer, f"late-{number}")
                    served |= {done.key} & theirs if done else set()
                    number += 1
            await until(lambda: kept(own) <= set(played.handled))
            await until(lambda: unacknowledged(own) == 0)
            return played, safe, theirs

    played, safe, theirs = asyncio.run(scenario())

    counts = Counter(played.handled)
    assert {place for place in safe if counts[place] != 1} == set()
    lost = set(played.published) - kept(own)
    assert {key for key, _ in lost} <= theirs
    assert {place for place, count in counts.items() if count > 1 and place[0] not in theirs} == set()
    assert played.failed != []
