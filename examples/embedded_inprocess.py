"""Coordinator, consumer and producer in one process: no HTTP, no Redis, nothing to install or start.

Useful to try the library and to test handlers. Run it with ``python examples/embedded_inprocess.py``.
"""

import asyncio

from streamshard import Message, StreamApp
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.admin import Author, CreateStream, GroupSpec
from streamshard.core.ids import GroupName, Millis, StreamPrefix
from streamshard.core.timing import Timing
from streamshard.entrypoints.settings import ServeSettings
from streamshard.entrypoints.ticker import Ticker, ticking
from streamshard.entrypoints.wiring import service

TIMING = Timing(lease_ms=Millis(3_000), heartbeat_ms=Millis(200), tick_ms=Millis(100))
SETTINGS = ServeSettings(store="memory:", redis="memory:", timing=TIMING)
ORDERS = CreateStream(
    prefix=StreamPrefix("orders"),
    author=Author("the example", "to show how"),
    shard_count=4,
    groups=(GroupSpec(GroupName("billing")),),
)


async def main(records: int = 100) -> int:
    """Publish so many records and return how many were handled."""
    world = MemoryStreams()
    async with service(SETTINGS, world) as built:
        async with ticking(Ticker(built.coordinator, built.clock, SETTINGS.timing.tick_ms)):
            await built.coordinator.create_stream(ORDERS)
            return await consume(StreamApp(built.coordinator, MemoryShardLog(world)), records)


async def consume(app: StreamApp, records: int) -> int:
    """Two members share four shards until every record was handled."""
    handled: set[str] = set()
    done = asyncio.Event()

    @app.listener("orders", group="billing", concurrency=2)
    async def handle(message: Message) -> None:
        await message.ack()
        handled.add(message.id)
        if len(handled) == records:
            done.set()

    orders = app.producer("orders", "billing")
    async with app:
        for number in range(records):
            await orders.publish(f"order-{number}", {"number": number})
        await asyncio.wait_for(done.wait(), timeout=30)
    return len(handled)


if __name__ == "__main__":
    print(f"handled {asyncio.run(main())} records")
