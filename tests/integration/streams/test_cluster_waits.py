"""Waiting for records on the nodes of a cluster: who is woken, by what, and over how many connections."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from streamshard.adapters.streams.opening import shard_log
from streamshard.core.ids import Millis, RecordId
from streamshard.core.ports import Scattered
from streamshard.core.slots import hash_slot
from streamshard.errors import StreamUnavailable
from tests.integration.cluster import Cluster, ask
from tests.integration.streams.cluster_rig import ClusterRig
from tests.integration.streams.rigs import BILLING, KEY, START, access, provision

SHARDS = 16
KEYS = [f"orders:{shard}" for shard in range(SHARDS)]
LONG = Millis(60_000)


def run(cluster: Cluster, scenario: Callable[[ClusterRig], Awaitable[None]]) -> None:
    """Play over a rig with shards on every node."""

    async def main() -> None:
        rig = ClusterRig(cluster.url)
        try:
            await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in range(SHARDS)])
            await scenario(rig)
        finally:
            await rig.close()

    asyncio.run(main())


def waits(rig: ClusterRig) -> dict[str, "asyncio.Task[None]"]:
    """A wait for each shard."""
    return {key: asyncio.create_task(rig.log.wait({key: START}, LONG)) for key in KEYS}


async def cancelled(tasks: dict[str, "asyncio.Task[None]"]) -> None:
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


def connections(cluster: Cluster) -> dict[int, int]:
    """How many clients each master has, besides the one that asks."""
    return {node.port: int(node.info("clients")["connected_clients"]) for node in cluster.masters}


def test_only_the_shard_that_is_written_to_is_woken(cluster: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        waiting = waits(rig)
        await asyncio.sleep(0.1)

        await rig.log.append("orders:7", {"a": 1}, None)
        await waiting["orders:7"]

        assert {key for key, task in waiting.items() if task.done()} == {"orders:7"}
        await cancelled(waiting)

    run(cluster, scenario)


def test_a_wait_is_not_woken_by_reads_and_acknowledgements(cluster: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        written = await rig.log.append(KEY, {"a": 1}, None)
        assert written is not None
        waiting = asyncio.create_task(rig.log.wait({KEY: written}, LONG))
        await asyncio.sleep(0.1)

        await rig.log.read([(access(5), 1)])
        await rig.log.claim(access(5), START, 10)
        await rig.log.drop_consumer(access(5, consumer="other"))
        await asyncio.sleep(0.1)

        assert not waiting.done()
        await cancelled({KEY: waiting})

    run(cluster, scenario)


def test_sixteen_waits_take_two_connections_to_a_node(cluster: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        await rig.log.read([(access(5, shard=shard), 1) for shard in range(SHARDS)])
        before = connections(cluster)
        waiting = waits(rig)
        await asyncio.sleep(0.2)

        after = connections(cluster)

        assert {port: after[port] - before[port] for port in after} == dict.fromkeys(before, 2)
        await cancelled(waiting)

    run(cluster, scenario)


@pytest.mark.parametrize(
    "rules",
    [("+@all", "-client|tracking", "&*"), ("+@all", "resetchannels")],
    ids=["no tracking", "no channels"],
)
def test_an_account_that_may_not_be_told_of_writes_looks_for_them(cluster: Cluster, rules: tuple[str, ...]) -> None:
    for node in cluster.nodes:
        assert ask(node.port, "ACL", "SETUSER", "plain", "reset", "on", ">secret", "~*", *rules) == b"OK"

    async def scenario(rig: ClusterRig) -> None:
        log = shard_log(cluster.url.replace("redis+cluster://", "redis+cluster://plain:secret@"))
        waiting = asyncio.create_task(log.wait({KEY: START}, LONG))
        await asyncio.sleep(0.2)
        assert not waiting.done()

        await rig.log.append(KEY, {"a": 1}, None)

        await asyncio.wait_for(waiting, 5)
        await log.close()

    run(cluster, scenario)


def test_waits_outlive_the_loss_of_their_connections(cluster: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        port = cluster.master_of(hash_slot(KEY)).port
        for kind in ("normal", "pubsub"):
            waiting = asyncio.create_task(rig.log.wait({KEY: START}, Millis(300)))
            await asyncio.sleep(0.1)
            ask(port, "CLIENT", "KILL", "TYPE", kind)
            await asyncio.gather(waiting, return_exceptions=True)  # woken, or told that the node does not answer

            waiting = asyncio.create_task(rig.log.wait({KEY: RecordId("9-0")}, LONG))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await rig.log.append(KEY, {"a": 1}, None)
            await waiting
            await rig.raw("XTRIM", KEY, "MAXLEN", "0")

    run(cluster, scenario)


def test_a_log_that_was_closed_wakes_who_waits_and_lets_nobody_wait(cluster: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        waiting = waits(rig)
        await asyncio.sleep(0.1)

        await rig.log.close()
        await asyncio.wait(waiting.values())

        with pytest.raises(StreamUnavailable):
            await rig.log.wait({KEY: START}, LONG)

    run(cluster, scenario)


def test_the_node_of_a_shard_is_known_from_the_first_order_on(cluster: Cluster) -> None:
    async def scenario(rig: ClusterRig) -> None:
        log: Any = rig.log
        assert isinstance(log, Scattered)
        before = log.server_of(KEY)

        await rig.log.read([(access(5), 1)])

        owners = [f"127.0.0.1:{cluster.master_of(hash_slot(key)).port}" for key in KEYS]
        assert (before, [log.server_of(key) for key in KEYS]) == (None, owners)

    run(cluster, scenario)
