"""The one place that knows every part: builds a coordinator from settings, and takes it down again."""

import contextlib
import socket
from collections.abc import AsyncIterator

import attrs

from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.core.coordinator import Coordinator
from streamshard.core.ports import Clock, Entropy, MetadataStore, StreamBackend
from streamshard.core.settings import CoordinatorSettings
from streamshard.entrypoints.settings import MEMORY, SQLITE, ServeSettings


@attrs.frozen
class Service:
    """A coordinator with what it works on."""

    coordinator: Coordinator
    store: MetadataStore
    streams: StreamBackend
    clock: Clock


@contextlib.asynccontextmanager
async def service(settings: ServeSettings) -> AsyncIterator[Service]:
    """Build everything; on the way out close it, streams before the store.

    Raises `UnsupportedSchema` or `StoreUnavailable` if the store can't be used.
    """
    clock, entropy = SystemClock(), SystemEntropy()
    store = await _store(settings.store)
    async with contextlib.AsyncExitStack() as opened:
        opened.push_async_callback(store.close)
        streams = await _streams(settings.redis, opened)
        chosen = _coordinator_settings(settings, entropy)
        yield Service(Coordinator(store, streams, clock, entropy, chosen), store, streams, clock)


async def _store(url: str) -> MetadataStore:
    # Imported here: whoever keeps metadata in memory need not have the driver.
    if url == MEMORY:
        from streamshard.adapters.stores.memory import MemoryStore

        return MemoryStore()
    from streamshard.adapters.stores.sqlite import SqliteStore

    return await SqliteStore.open(url.removeprefix(SQLITE))


async def _streams(url: str, opened: contextlib.AsyncExitStack) -> StreamBackend:
    if url == MEMORY:
        from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
        from streamshard.adapters.streams.memory_world import MemoryStreams

        return MemoryStreamBackend(MemoryStreams())
    from streamshard.adapters.streams.redis_backend import RedisStreamBackend

    backend = RedisStreamBackend.from_url(url)
    opened.push_async_callback(backend.close)
    return backend


def _coordinator_settings(settings: ServeSettings, entropy: Entropy) -> CoordinatorSettings:
    return CoordinatorSettings(
        coordinator_id=f"{socket.gethostname()}-{entropy.nonce()[:8]}",
        timing=settings.timing,
        default_shard_count=settings.default_shards,
    )
