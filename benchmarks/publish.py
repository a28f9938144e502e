"""Publishing, against redis-py's own asyncio client doing the same without routing.

    python benchmarks/publish.py [--records 20000] [--rounds 5] [--shards 16]

One real server, records of 200 bytes, the contenders in turn within each round. Two loads: 100 tasks that each
await one record at a time, and 100 records at a time from one task. What is compared is records per second, and
beside it the processor time per record of the client and of the server.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from measuring import PAYLOAD, Load, Sample, goal, measure, median, table
from redis.asyncio import Redis

from streamshard import Producer, Published, StreamApp
from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.core.admin import Author, CreateGroup, GroupSpec
from streamshard.core.ids import GroupKey, GroupName, StreamPrefix
from streamshard.core.routing import route
from streamshard.entrypoints.settings import serve_settings
from streamshard.entrypoints.wiring import service

KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
TASKS = 100


async def tasks(one: Callable[[int], Awaitable[object]], records: int) -> None:
    """Let so many tasks each await one record at a time."""

    async def task(first: int) -> None:
        for n in range(first, records, TASKS):
            await one(n)

    await asyncio.gather(*(task(first) for first in range(TASKS)))


def pipelined(redis: "Redis", key_of: Callable[[int], str]) -> Load:
    """Add so many records in pipelines, each to the key that its number leads to."""

    async def load(records: int) -> None:
        for first in range(0, records, TASKS):
            async with redis.pipeline(transaction=False) as pipe:
                for n in range(first, first + TASKS):
                    pipe.xadd(key_of(n), {"payload": PAYLOAD}, nomkstream=True)
                await pipe.execute()

    return load


def contenders(producer: Producer, redis: "Redis", shards: int) -> dict[str, Load]:
    """Who publishes what, by name; the pairs to compare stand one after the other."""

    async def publish(n: int) -> None:
        await producer.publish(f"order-{n}", {"payload": PAYLOAD})

    async def xadd(n: int) -> None:
        await redis.xadd(f"orders:{n % shards}", {"payload": PAYLOAD}, nomkstream=True)

    async def many(records: int) -> None:
        for first in range(0, records, TASKS):
            batch = [(f"order-{n}", {"payload": PAYLOAD}) for n in range(first, first + TASKS)]
            results = await producer.publish_many(batch)
            assert all(isinstance(result, Published) for result in results)

    def routed(n: int) -> str:
        return f"orders:{route('murmur3-v1', f'order-{n}'.encode(), shards)}"

    return {
        "publish, 100 tasks": lambda records: tasks(publish, records),
        "redis-py xadd, 100 tasks": lambda records: tasks(xadd, records),
        "publish_many(100)": many,
        "redis-py pipeline of 100": pipelined(redis, lambda n: f"orders:{n % shards}"),
        "redis-py pipeline of 100, routed": pipelined(redis, routed),
    }


async def rounds(loads: dict[str, Load], redis: "Redis", options: argparse.Namespace, pid: int) -> dict[str, Sample]:
    """The median of each contender over the rounds."""
    found: dict[str, list[Sample]] = {name: [] for name in loads}
    for _ in range(options.rounds):
        for name, load in loads.items():
            for shard in range(options.shards):
                await redis.xtrim(f"orders:{shard}", maxlen=0)
            found[name].append(await measure(load, options.records, pid))
    return {name: median(samples) for name, samples in found.items()}


async def compare(options: argparse.Namespace) -> dict[str, Sample]:
    """Start what is needed, and measure."""
    with EmbeddedServer() as server:
        settings = serve_settings({"store": "memory:", "redis": server.url, "port": "0"}, {})
        async with service(settings) as built, Redis.from_url(server.url) as redis:
            create = CreateGroup(KEY, Author("benchmark"), GroupSpec(KEY.group), shard_count=options.shards)
            await built.coordinator.create_group(create)
            async with StreamApp(built.coordinator, redis=server.url) as app:
                loads = contenders(app.producer(KEY.prefix, KEY.group), redis, options.shards)
                return await rounds(loads, redis, options, server.pid)


def report(found: dict[str, Sample]) -> None:
    """Print the figures and what they come to."""
    table(found)
    print()
    pairs = {
        ("publish, 100 tasks", "redis-py xadd, 100 tasks"): 8.0,
        ("publish_many(100)", "redis-py pipeline of 100"): 1.5,
        ("publish_many(100)", "redis-py pipeline of 100, routed"): 1.5,
    }
    for (ours, theirs), times in pairs.items():
        goal(f"records/s, {ours} to {theirs}", found[ours].rate / found[theirs].rate, times)
        print(f"  client time a record, times less: {found[theirs].client_us / found[ours].client_us:.2f}")


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shards", type=int, default=16)
    report(asyncio.run(compare(parser.parse_args())))


if __name__ == "__main__":
    main()
