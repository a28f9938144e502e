"""A coordinator in this process, with quick timings and ticks, over shards in memory or on a real server."""

import contextlib
from collections.abc import AsyncIterator

import attrs

from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.adapters.streams.opening import shard_log, stream_backend
from streamshard.core.admin import Author, CreateStream, GroupSpec, Scale
from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import Millis, ReshardingId
from streamshard.core.ports import ShardLog, StreamBackend
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.timing import Timing
from streamshard.entrypoints.ticker import Ticker, ticking
from tests.integration.client.script import ORDERS

QUICK = Timing(
    lease_ms=Millis(2_000),
    heartbeat_ms=Millis(300),
    tick_ms=Millis(100),
    rebalance_timeout_ms=Millis(10_000),
    routing_lease_ms=Millis(2_000),
)
TESTER = Author("tester", "a test")


@attrs.frozen
class Rig:
    """A running coordinator with the stream ``orders`` and its group ``billing``."""

    coordinator: Coordinator
    log: ShardLog

    async def scale(self, target: int) -> None:
        """Ask for another shard count."""
        await self.coordinator.scale(Scale(ORDERS.prefix, TESTER, target, ReshardingId(f"to-{target}")))

    async def owners(self) -> dict[int, str]:
        """Who holds which shard."""
        view = await self.coordinator.group(ORDERS)
        return {shard: holding.member for shard, holding in view.record.holdings.items() if not holding.draining}


@contextlib.asynccontextmanager
async def memory_rig(shards: int) -> AsyncIterator[Rig]:
    """Everything in memory."""
    world = MemoryStreams()
    async with _running(MemoryStreamBackend(world), MemoryShardLog(world), shards) as rig:
        yield rig


@contextlib.asynccontextmanager
async def redis_rig(url: str, shards: int) -> AsyncIterator[Rig]:
    """Metadata in memory, shards on a server or in a cluster."""
    backend, log = stream_backend(url), shard_log(url)
    try:
        async with _running(backend, log, shards) as rig:
            yield rig
    finally:
        await log.close()
        await backend.close()


@contextlib.asynccontextmanager
async def _running(backend: StreamBackend, log: ShardLog, shards: int) -> AsyncIterator[Rig]:
    settings = CoordinatorSettings("here", timing=QUICK)
    clock = SystemClock()
    coordinator = Coordinator(MemoryStore(), backend, clock, SystemEntropy(), settings)
    async with ticking(Ticker(coordinator, clock, QUICK.tick_ms)):
        await coordinator.create_stream(CreateStream(ORDERS.prefix, TESTER, shards, groups=(GroupSpec(ORDERS.group),)))
        yield Rig(coordinator, log)
