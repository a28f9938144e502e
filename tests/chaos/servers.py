"""What is done to the servers of shards and metadata."""

import os
import signal
from collections.abc import Iterator, Mapping

from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.core.slots import hash_slot
from tests.chaos.ground import Clustered, Single
from tests.chaos.plan import GROUP, MOST_IN_CHAOS, MOST_SHARDS, STREAM
from tests.chaos.stage import NotNow, Stage
from tests.chaos.wounds import EVERY_SHARD, Nemesis, Wound, a_while
from tests.integration.cluster import Node, ask

SHARDS, METADATA = "server of the shards", "server of the metadata"
POSTPONED_S = 2.5
"""How long a server that syncs every second may put off what it writes while the disk is slow."""

SLOW_S = 3.0


def restart(which: str) -> Nemesis:
    """kill -9 of a server that keeps an append-only file, and a restart from that."""

    def nemesis(stage: Stage, wound: Wound) -> Iterator[float]:
        with stage.victims(which):
            server = _server(stage, which)
            server.kill()
            if which == SHARDS:
                wound.loses(EVERY_SHARD, POSTPONED_S)
            yield a_while(stage, 0.1, SLOW_S)
            server.start()

    return nemesis


def freeze(which: str) -> Nemesis:
    """SIGSTOP of a server."""

    def nemesis(stage: Stage, wound: Wound) -> Iterator[float]:
        with stage.victims(which):
            server = _server(stage, which)
            _signal(server, signal.SIGSTOP)
            try:
                yield a_while(stage, 0.1, SLOW_S)
            finally:
                _signal(server, signal.SIGCONT)

    return nemesis


def tell(which: str, *words: str | int, lasts: float = 0.1) -> Nemesis:
    """One command to a server."""

    def nemesis(stage: Stage, wound: Wound) -> Iterator[float]:
        with stage.victims(which):
            reply = ask(_server(stage, which).port, *words)
            assert reply == b"OK", f"{words}: {reply!r}"
            yield lasts

    return nemesis


def older_file(stage: Stage, wound: Wound) -> Iterator[float]:
    """A copy of the metadata's file, made some seconds ago, in its place."""
    with stage.victims(METADATA):
        ground = _single(stage)
        copy = stage.folder / "older.db"
        ground.copy_file(copy)
        yield a_while(stage, 0.5, 4.0)
        ground.put_file(copy)
        yield 0.1


def flush(stage: Stage, wound: Wound) -> Iterator[float]:
    """FLUSHALL of the metadata; a while later somebody finds a copy that was made some seconds before."""
    with stage.victims(METADATA):
        port = _server(stage, METADATA).port
        copies = {key: ask(port, "DUMP", key) for key in ask(port, "KEYS", "*")}
        yield a_while(stage, 0.3, 3.0)
        ask(port, "FLUSHALL")
        yield a_while(stage, 0.3, 3.0)
        ask(port, "FLUSHALL")
        for key, copy in copies.items():
            if copy is not None:
                ask(port, "RESTORE", key, 0, copy)


def fail_over(stage: Stage, wound: Wound) -> Iterator[float]:
    """A master's replica takes over in good order."""
    with stage.victims(SHARDS):
        cluster = _clustered(stage).cluster
        master = _a_master(stage)
        replica = cluster.replica_of(master)
        ask(replica.port, "CLUSTER", "FAILOVER")
        for _ in range(100):
            yield 0.1
            if replica in cluster.masters:
                return
        raise AssertionError("the replica did not take over within 10 s")


def lose_writes(stage: Stage, wound: Wound) -> Iterator[float]:
    """A master dies that acknowledged what its replica never got: that much is lost, and nothing else."""
    with stage.victims(SHARDS):
        cluster = _clustered(stage).cluster
        master = _a_master(stage)
        replica = cluster.replica_of(master)
        theirs = [n for n in range(MOST_SHARDS) if cluster.master_of(hash_slot(f"{STREAM}:{n}")) is master]
        replica.signal(signal.SIGSTOP)
        try:
            wound.loses(theirs)
            ask(master.port, "CLIENT", "KILL", "TYPE", "replica")
            yield a_while(stage, 0.2, 0.7)
            master.signal(signal.SIGKILL)
            wound.loses(theirs)
        finally:
            replica.signal(signal.SIGCONT)
        for _ in range(300):
            yield 0.1
            if replica in cluster.masters:
                break
        else:
            raise AssertionError("the replica did not take over within 30 s")
        cluster.revive(master)
        yield from _following(stage, master)


def move_slot(stage: Stage, wound: Wound) -> Iterator[float]:
    """The slot of a shard goes to another master, key by key."""
    with stage.victims(SHARDS):
        cluster = _clustered(stage).cluster
        slot = hash_slot(f"{STREAM}:{stage.chance.randrange(MOST_IN_CHAOS)}")
        others = [node for node in cluster.masters if node is not cluster.master_of(slot)]
        cluster.move(slot, stage.chance.choice(others))
        yield 0.2


def freeze_master(stage: Stage, wound: Wound) -> Iterator[float]:
    """For less than what makes its replica take over."""
    with stage.victims(SHARDS):
        master = _a_master(stage)
        master.signal(signal.SIGSTOP)
        try:
            yield a_while(stage, 0.1, 0.6)
        finally:
            master.signal(signal.SIGCONT)


def kill_replica(stage: Stage, wound: Wound) -> Iterator[float]:
    """A replica dies, and comes back empty."""
    with stage.victims(SHARDS):
        cluster = _clustered(stage).cluster
        replica = cluster.replica_of(_a_master(stage))
        replica.signal(signal.SIGKILL)
        yield a_while(stage, 0.2, 2.0)
        cluster.revive(replica)
        yield from _following(stage, replica)


def script_flush_everywhere(stage: Stage, wound: Wound) -> Iterator[float]:
    """Every master forgets every script."""
    with stage.victims(SHARDS):
        for master in _clustered(stage).cluster.masters:
            ask(master.port, "SCRIPT", "FLUSH")
        yield 0.1


def destroy_group(stage: Stage, wound: Wound) -> Iterator[float]:
    """The group of one shard is gone, and with it what it was given; its records are still there."""
    with stage.victims(SHARDS):
        shard = stage.chance.randrange(MOST_IN_CHAOS)
        key = f"{STREAM}:{shard}"
        if not stage.waiting(shard)[0]:
            raise NotNow
        wound.forgets([shard])
        stage.ground.ask(key, "XGROUP", "DESTROY", key, GROUP)
        yield 0.5


def _following(stage: Stage, node: Node) -> Iterator[float]:
    """Until it has everything that its master has: before that, the master's death would lose more."""
    for _ in range(300):
        yield 0.1
        told = node.info("replication")
        if told["role"] == "slave" and told["master_link_status"] == "up":
            return
    raise AssertionError("a node that came back follows no master within 30 s")


def _a_master(stage: Stage) -> Node:
    cluster = _clustered(stage).cluster
    masters = [node for node in cluster.masters if node.info("replication").get("connected_slaves") != "0"]
    if not masters:
        raise NotNow
    return stage.chance.choice(masters)


def _server(stage: Stage, which: str) -> EmbeddedServer:
    ground = _single(stage)
    server = ground.shards if which == SHARDS else ground.metadata
    assert server is not None
    return server


def _single(stage: Stage) -> Single:
    assert isinstance(stage.ground, Single)
    return stage.ground


def _clustered(stage: Stage) -> Clustered:
    assert isinstance(stage.ground, Clustered)
    return stage.ground


def _signal(server: EmbeddedServer, how: signal.Signals) -> None:
    # A child that nobody has waited for keeps its pid: it can't be anybody else's.
    os.kill(server.pid, how)


SINGLE: Mapping[str, Nemesis] = {
    "redis-kill": restart(SHARDS),
    "redis-stop": freeze(SHARDS),
    "redis-pause": tell(SHARDS, "CLIENT", "PAUSE", 700, "ALL", lasts=0.8),
    "redis-sleep": tell(SHARDS, "DEBUG", "SLEEP", "0.5"),
    "script-flush": tell(SHARDS, "SCRIPT", "FLUSH"),
    "group-destroyed": destroy_group,
}
FILED: Mapping[str, Nemesis] = {"store-restore": older_file}
ON_SERVER: Mapping[str, Nemesis] = {
    "store-flush": flush,
    "store-kill": restart(METADATA),
    "store-stop": freeze(METADATA),
    "store-scripts": tell(METADATA, "SCRIPT", "FLUSH"),
}
CLUSTERED: Mapping[str, Nemesis] = {
    "failover": fail_over,
    "failover-loss": lose_writes,
    "slot-move": move_slot,
    "master-stop": freeze_master,
    "replica-kill": kill_replica,
    "script-flush": script_flush_everywhere,
    "group-destroyed": destroy_group,
}
