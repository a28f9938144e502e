"""A whole system over one URL: metadata, shards, a consumer and a producer, each connected as a user's would be."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import attrs

from streamshard import Message, NotWritten, Producer, StreamApp
from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.adapters.stores.redis import RedisStore
from streamshard.adapters.streams.opening import stream_backend
from streamshard.core.admin import Author, CreateStream, GroupSpec, Scale
from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import Millis, ReshardingId
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.timing import Timing
from streamshard.entrypoints.ticker import Ticker, ticking
from streamshard.errors import MaybeWritten
from tests.integration.client.script import ORDERS

QUICK = Timing(
    lease_ms=Millis(3_000),
    heartbeat_ms=Millis(300),
    tick_ms=Millis(100),
    rebalance_timeout_ms=Millis(10_000),
    routing_lease_ms=Millis(2_000),
)
BY = Author("tester", "a test")


@attrs.frozen
class System:
    """A running coordinator with the stream ``orders`` and its group ``billing``."""

    coordinator: Coordinator
    store: RedisStore

    async def scale(self, target: int) -> None:
        """Change the shard count, and wait until that is done."""
        await self.coordinator.scale(Scale(ORDERS.prefix, BY, target, ReshardingId(f"to-{target}")))
        async with asyncio.timeout(30):
            while (await self.coordinator.stream(ORDERS.prefix)).resharding is not None:
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def system(url: str, shards: int = 2, timing: Timing = QUICK) -> AsyncIterator[System]:
    """A coordinator with metadata and shards where ``url`` says."""
    store = await RedisStore.open(url)
    backend = stream_backend(url)
    clock = SystemClock()
    coordinator = Coordinator(store, backend, clock, SystemEntropy(), CoordinatorSettings("here", timing=timing))
    try:
        async with ticking(Ticker(coordinator, clock, timing.tick_ms)):
            groups = (GroupSpec(ORDERS.group),)
            await coordinator.create_stream(CreateStream(ORDERS.prefix, BY, shards, groups=groups))
            yield System(coordinator, store)
    finally:
        await backend.close()
        await store.close()


@attrs.define
class Ledger:
    """What was published, and what was handled."""

    published: set[str] = attrs.field(factory=set)
    handled: set[str] = attrs.field(factory=set)

    def consumer(self, coordinator: Coordinator, url: str) -> StreamApp:
        """An app that acknowledges everything."""
        app = StreamApp(coordinator, url, drain_timeout=5)

        @app.listener("orders", group="billing", redeliver_after=0.5, sweep_every=0.5)
        async def handle(message: Message) -> None:
            self.handled.add(message.text("n"))
            await message.ack()

        return app

    async def publish(self, producer: Producer, name: str) -> bool:
        """Whether it is surely written; what may be is published again under the same name."""
        try:
            await producer.publish(name, {"n": name})
        except (NotWritten, MaybeWritten):
            return False
        self.published.add(name)
        return True


async def until(holds: Callable[[], bool], within: float = 20.0) -> float:
    """Wait for it; how many seconds it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.02)
    return loop.time() - began
