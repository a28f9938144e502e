"""A coordinator of a few lines, shards to read, and things to wait for."""

import asyncio
from collections.abc import Callable, Sequence

import attrs

from streamshard import ScriptedCoordinator, StreamApp
from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.effects import GroupStart, Provision
from streamshard.core.ids import (
    Epoch,
    Generation,
    GroupKey,
    GroupName,
    LayoutVersion,
    Lineage,
    MemberId,
    Millis,
    RecordId,
    Seq,
    ShardIndex,
    StreamPrefix,
    Token,
    stream_key,
)
from streamshard.core.replies import Extension, Grant, HeartbeatReply, Routing, Status

ORDERS = GroupKey(StreamPrefix("orders"), GroupName("billing"))
CLOCK, ENTROPY = SystemClock(), SystemEntropy()
FIRST_GENERATION, FIRST_LAYOUT = Generation(1), LayoutVersion(1)


def routing(shards: int, version: int = 1, lease_ms: int = 60_000) -> Routing:
    return Routing(ORDERS, shards, LayoutVersion(version), Lineage("a"), version, "murmur3-v1", Millis(lease_ms))


def reply(status: Status = Status.OK, lease_ms: int = 3_000, heartbeat_ms: int = 100) -> HeartbeatReply:
    durations = (Millis(heartbeat_ms), Millis(60_000), Millis(lease_ms))
    return HeartbeatReply(status, MemberId("anybody"), Epoch(1), Seq(0), *durations)


class Granting:
    """Gives its shards to whoever beats; what it is told to give takes effect with the next answer."""

    def __init__(self, shards: Sequence[int], lease_ms: int = 3_000) -> None:
        self.tokens = {ShardIndex(shard): Token(10 + shard) for shard in shards}
        self.lease_ms = lease_ms

    def __call__(self, beat: Heartbeat) -> HeartbeatReply:
        staying = beat.intent is not Intent.LEAVE
        given = self.tokens if staying else {}
        held = {hold.shard: hold.token for hold in beat.holds}
        return attrs.evolve(
            reply(lease_ms=self.lease_ms),
            member=beat.member,
            seq=beat.seq,
            assigned=tuple(given),
            grants=tuple(Grant(shard, token, FIRST_GENERATION) for shard, token in given.items()),
            extended=tuple(Extension(shard, token) for shard, token in held.items()),
        )


def memory_streams(shards: int) -> MemoryStreams:
    """Shards of ``orders`` with the group ``billing``, in memory."""
    world = MemoryStreams()
    starts = (GroupStart(ORDERS.group, "0"),)
    orders = [Provision(ORDERS.prefix, ShardIndex(n), FIRST_GENERATION, FIRST_LAYOUT, starts) for n in range(shards)]
    asyncio.run(MemoryStreamBackend(world).provision(orders))
    return world


def nothing_pending(world: MemoryStreams) -> bool:
    """Everything that was delivered is acknowledged, and everything was delivered."""
    groups = [(stream, group) for stream in world.streams.values() for group in stream.groups.values()]
    return all(not group.pending and not stream.after(group.last_delivered) for stream, group in groups)


async def fill(log: MemoryShardLog, shard: int, count: int) -> list[RecordId]:
    """Append ``count`` records to a shard; returns their ids."""
    key = stream_key(ORDERS.prefix, ShardIndex(shard))
    written = [await log.append(key, {"n": n}, None) for n in range(count)]
    return [record for record in written if record is not None]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what must come true; a test that hangs fails by its own deadline."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def app_over(world: MemoryStreams, *shards: int, lease_ms: int = 3_000) -> tuple[StreamApp, ScriptedCoordinator]:
    api = ScriptedCoordinator([Granting(shards, lease_ms)], [routing(len(shards))])
    return StreamApp(api, MemoryShardLog(world), drain_timeout=5), api
