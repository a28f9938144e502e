"""Consuming and acknowledging, against a loop written by hand on redis-py's asyncio client.

    python benchmarks/consume.py [--records 40000] [--rounds 5] [--shards 16]

One real server, records of 200 bytes, the contenders in turn within each round, each over its own backlog. The loop by
hand reads 100 records of a shard at a time and acknowledges them in a pipeline, shard after shard: no fence, no lease,
no coordinator. Ours go through `StreamApp` with fencing on: handlers of one record that only acknowledge, and of
batches. What is compared is the client's processor time per record; the server's stands beside it. The last line is
the result as JSON.
"""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs
from publish import Sample, measure, median
from redis.asyncio import Redis

from streamshard import Batch, Message, StreamApp
from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.core.admin import Author, CreateGroup, CreateStream, GroupSpec
from streamshard.core.ids import GroupKey, GroupName, StreamPrefix
from streamshard.entrypoints.settings import serve_settings
from streamshard.entrypoints.wiring import service

BATCH = 100
PAYLOAD = b"x" * 192
STREAM = StreamPrefix("orders")

Consumer = Callable[[str, int], Awaitable[None]]


async def fill(redis: "Redis", records: int, shards: int) -> None:
    """Put a backlog of so many records into the shards."""
    for shard in range(shards):
        for _ in range(0, records // shards, 1_000):
            async with redis.pipeline(transaction=False) as pipe:
                for _ in range(min(1_000, records // shards)):
                    pipe.xadd(f"orders:{shard}", {"payload": PAYLOAD})
                await pipe.execute()


def by_hand(redis: "Redis", shards: int) -> Consumer:
    """Read and acknowledge until so many records are through."""

    async def consume(group: str, records: int) -> None:
        seen = 0
        while seen < records:
            for shard in range(shards):
                key = f"orders:{shard}"
                reply: Any = await redis.xreadgroup(group, "c", {key: ">"}, count=BATCH)
                for _, entries in reply:
                    async with redis.pipeline(transaction=False) as pipe:
                        pipe.xack(key, group, *[entry for entry, _ in entries])
                        await pipe.execute()
                    seen += len(entries)

    return consume


def ours(url: str, coordinator: object, batch: int | None) -> Consumer:
    """A `StreamApp` with one listener until so many records are acknowledged."""

    async def consume(group: str, records: int) -> None:
        app, done, seen = StreamApp(coordinator, redis=url), asyncio.Event(), 0  # type: ignore[arg-type]

        def count(more: int) -> None:
            nonlocal seen
            seen += more
            if seen >= records:
                done.set()

        async def one(message: Message) -> None:
            await message.ack()
            count(1)

        async def many(messages: Batch) -> None:
            await messages.ack()
            count(len(messages))

        app.listener("orders", group=group, batch=batch, page=BATCH)(one if batch is None else many)
        async with app:
            await done.wait()

    return consume


async def compare(options: argparse.Namespace) -> dict[str, Sample]:
    """Start what is needed, and measure each contender with a group of its own over the same records."""
    found: dict[str, list[Sample]] = {}
    with EmbeddedServer() as server:
        settings = serve_settings({"store": "memory:", "redis": server.url, "port": "0"}, {})
        async with service(settings) as built, Redis.from_url(server.url) as redis:
            await built.coordinator.create_stream(CreateStream(STREAM, Author("benchmark"), options.shards))
            await fill(redis, options.records, options.shards)
            contenders = {
                "redis-py loop by hand": by_hand(redis, options.shards),
                "batch handler": ours(server.url, built.coordinator, BATCH),
                "handler of one record": ours(server.url, built.coordinator, None),
            }
            for turn in range(options.rounds):
                for name, consume in contenders.items():
                    group = f"{name.replace(' ', '-')}-{turn}"
                    key = GroupKey(STREAM, GroupName(group))
                    spec = GroupSpec(key.group, start_from="0")
                    await built.coordinator.create_group(CreateGroup(key, Author("benchmark"), spec))
                    sample = await measure(partial(consume, group), options.records, server.pid)
                    found.setdefault(name, []).append(sample)
    return {name: median(samples) for name, samples in found.items()}


def report(found: dict[str, Sample]) -> None:
    """Print the figures and what they come to."""
    for name, sample in found.items():
        rate, client, server = attrs.astuple(sample)
        print(f"{name:24} {rate:9,.0f} records/s   client {client:6.1f} us   server {server:5.1f} us")
    floor = found["redis-py loop by hand"].client_us
    ratios = {name: round(sample.client_us / floor, 2) for name, sample in found.items()}
    print(json.dumps({"client time per record, times that of the loop by hand": ratios}))


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shards", type=int, default=16)
    report(asyncio.run(compare(parser.parse_args())))


if __name__ == "__main__":
    main()
