"""The end of every run: all faults stop, and within a bound everything has to be well again."""

from collections.abc import Iterator

from streamshard.core.group import GroupRecord
from streamshard.core.ids import ShardIndex
from streamshard.core.session import Phase
from streamshard.core.stream import READABLE, EntryState
from streamshard.core.timing import expiry_wait_ms
from streamshard.testing.checkers import Violation
from streamshard.testing.cluster import KEY, Cluster
from streamshard.testing.processes import Consumer

GLANCE_MS = 250


def settle(cluster: Cluster, patience_ms: int = 0) -> None:
    """I8, I11: heal everything, and wait no longer than promised and so much more; raises `Violation`."""
    heal(cluster)
    for _ in range(-(-(bound_ms(cluster) + patience_ms) // GLANCE_MS)):
        if not next(problems(cluster), None):
            return
        cluster.run(GLANCE_MS)
        _revive_group(cluster)
    raise Violation(f"I8: {'; '.join(problems(cluster))}")


def bound_ms(cluster: Cluster) -> int:
    """Two longest waits for an expiry, a rebalance timeout, five heartbeats; then the resharding and the backlog."""
    timing = cluster.timing
    waits = 2 * expiry_wait_ms(timing.lease_ms) + timing.rebalance_timeout_ms + 5 * timing.heartbeat_ms
    backlog = sum(len(stream.entries) for stream in cluster.world.streams.values()) * 50
    return waits + timing.routing_lease_ms + 10 * timing.tick_ms + backlog


def heal(cluster: Cluster) -> None:
    """Wake everybody, let what stands in the middle end, and stop every fault."""
    cluster.network.calm()
    cluster.world.come_back()
    cluster.producing = False
    cluster.slow.clear()
    cluster.strays.clear()
    for process in cluster.coordinators:
        process.asleep = False
        for errand in process.errands:
            cluster.finish(errand)
        process.errands.clear()
        while process.held:
            cluster.go_on(process, 0)
        if process.ticking is not None:
            cluster.tick(process)
    _heal_consumers(cluster)
    _revive_group(cluster)


def _heal_consumers(cluster: Cluster) -> None:
    names: dict[str, Consumer] = {}
    for consumer in cluster.alive:
        consumer.asleep = consumer.stuck = False
        consumer.fails_next = 0
        for run in consumer.runs.values():
            if run.command is not None:
                cluster.arrive(consumer, run.command)
        rival = names.get(consumer.name)
        if rival is not None:  # of two processes under one name the second would wait for ever
            cluster.kill(rival if rival.session.phase is not Phase.MEMBER else consumer)
        if not consumer.killed:
            names[consumer.name] = consumer
    if all(consumer.session.stopping for consumer in cluster.alive):
        cluster.join("medic")


def _revive_group(cluster: Cluster) -> None:
    entry = cluster.stream.groups.get(KEY.group)
    if entry is None or not isinstance(cluster.stored, GroupRecord):
        cluster.create_group()


def problems(cluster: Cluster) -> Iterator[str]:
    """What is not well yet, in words."""
    stream = cluster.stream
    if stream.resharding is not None:
        yield f"resharding {stream.resharding.id} is {stream.resharding.state.value}"
    entry, group = stream.groups.get(KEY.group), cluster.stored
    if entry is None or entry.state is not EntryState.ACTIVE or not isinstance(group, GroupRecord):
        yield "the group is not there"
        return
    if group.quarantine is not None:
        yield f"in quarantine: {group.quarantine.reason}"
    yield from _unwell(cluster)
    for shard in stream.shards.values():
        if shard.phase in READABLE:
            yield from _unread(cluster, group, shard.index)
    if unhandled := cluster.ledger.unhandled():
        yield f"I11: nobody has handled {unhandled}"


def _unwell(cluster: Cluster) -> Iterator[str]:
    for consumer in cluster.alive:
        if consumer.session.stopping:
            yield f"{consumer.name} is still leaving"
        elif consumer.session.phase is not Phase.MEMBER or not consumer.session.settled:
            yield f"{consumer.name} is {consumer.session.phase.value}, settled: {consumer.session.settled}"
    for consumer in cluster.consumers:
        if consumer.session.phase is Phase.REJECTED:
            yield f"{consumer.name} was rejected"


def _unread(cluster: Cluster, group: GroupRecord, shard: ShardIndex) -> Iterator[str]:
    owners = [consumer for consumer in cluster.alive if consumer.may_use(shard) is not None]
    holding = group.holdings.get(shard)
    if len(owners) != 1:
        yield f"shard {shard} has {len(owners)} owners; its holding is {holding}"
        return
    run = owners[0].runs.get(shard)
    if holding is None or run is None or run.access.token != holding.token or run.stopping:
        yield f"shard {shard} is not run by {owners[0].name}; its holding is {holding}"
    elif run.missing or run.polled_at is None or owners[0].clock.boot() - run.polled_at > 2 * GLANCE_MS:
        yield f"shard {shard} is not polled by {owners[0].name}"
