"""The one place that knows every part: builds a coordinator from settings, and takes it down again."""

import contextlib
import socket
import typing
from collections.abc import AsyncIterator

import attrs

from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.adapters.turns import AsyncTurns
from streamshard.core.coordinator import Coordinator
from streamshard.core.inspection import StreamInspector
from streamshard.core.ports import Clock, Entropy, MetadataStore, StreamBackend
from streamshard.core.settings import CoordinatorSettings
from streamshard.entrypoints.http.metrics_recorder import Recorder
from streamshard.entrypoints.measured import measured
from streamshard.entrypoints.settings import MEMORY, SQLITE, ServeSettings

if typing.TYPE_CHECKING:
    from streamshard.adapters.streams.memory_world import MemoryStreams


@attrs.frozen
class Service:
    """A coordinator with what it works on."""

    coordinator: Coordinator
    store: MetadataStore
    streams: StreamBackend
    clock: Clock
    inspector: StreamInspector
    recorder: Recorder
    """Times the store's operations; hand it to the `Traffic`, and it counts requests too."""


@contextlib.asynccontextmanager
async def service(settings: ServeSettings, world: "MemoryStreams | None" = None) -> AsyncIterator[Service]:
    """Build everything; on the way out close it, streams before the store.

    ``world`` is what ``redis = "memory:"`` means, for whoever shares it with consumers of this process.
    Raises `ConfigurationError`, `UnsupportedSchema` or `StoreUnavailable` if the store can't be used.
    """
    clock, entropy = SystemClock(), SystemEntropy()
    recorder = Recorder(settings.detail)
    store = await _store(settings.store, recorder)
    async with contextlib.AsyncExitStack() as opened:
        opened.push_async_callback(store.close)
        streams, inspector = _streams(settings.redis, world, clock, opened)
        chosen = _coordinator_settings(settings, entropy)
        coordinator = Coordinator(store, streams, clock, entropy, chosen)
        coordinator.take_turns(AsyncTurns())
        yield Service(coordinator, store, streams, clock, inspector, recorder)


async def _store(url: str, recorder: Recorder) -> MetadataStore:
    # Nothing is timed of the store in memory: it is no more than a few calls of functions.
    # Imported here: nobody waits for the driver of a store that is not used.
    if url == MEMORY:
        from streamshard.adapters.stores.memory import MemoryStore

        return MemoryStore()
    if not url.startswith(SQLITE):
        from streamshard.adapters.stores.redis import RedisStore

        return measured(await RedisStore.open(url), "redis", recorder)
    from streamshard.adapters.stores.sqlite import SqliteStore

    return measured(await SqliteStore.open(url.removeprefix(SQLITE)), "sqlite", recorder)


def _streams(
    url: str, world: "MemoryStreams | None", clock: Clock, opened: contextlib.AsyncExitStack
) -> tuple[StreamBackend, StreamInspector]:
    if url == MEMORY:
        from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
        from streamshard.adapters.streams.memory_inspector import MemoryStreamInspector
        from streamshard.adapters.streams.memory_world import MemoryStreams

        world = world or MemoryStreams()
        return MemoryStreamBackend(world), MemoryStreamInspector(world, clock.wall)
    from streamshard.adapters.streams.opening import stream_backend, stream_inspector

    backend, inspector = stream_backend(url), stream_inspector(url)
    opened.push_async_callback(backend.close)
    opened.push_async_callback(inspector.close)
    return backend, inspector


def _coordinator_settings(settings: ServeSettings, entropy: Entropy) -> CoordinatorSettings:
    return CoordinatorSettings(
        coordinator_id=f"{socket.gethostname()}-{entropy.nonce()[:8]}",
        timing=settings.timing,
        default_shard_count=settings.default_shards,
        trim_every_ms=settings.trim_every_ms,
    )
