"""Publishing, against redis-py's own asyncio client doing the same without routing.

    python benchmarks/publish.py [--records 20000] [--rounds 5] [--shards 16]

One real server, records of 200 bytes, the contenders in turn within each round. Two loads: 100 tasks that each
await one record at a time, and 100 records at a time from one task. What is compared is records per second, and
beside it the processor time per record of the client and of the server. The last two lines are the result as JSON.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

import attrs
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
PAYLOAD = b"x" * 192  # with the field's name and the framing of a small record: about 200 bytes
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

Load = Callable[[int], Awaitable[None]]


@attrs.frozen
class Sample:
    """One run: records per second, and microseconds of processor time per record."""

    rate: float
    client_us: float
    server_us: float


def server_seconds(pid: int) -> float:
    """Processor time that a process has used, as Linux counts it."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        words = stat.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) * TICK_S


def client_seconds() -> float:
    """Processor time that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(load: Load, records: int, pid: int) -> Sample:
    """Run one load once."""
    gc.collect()
    client, server, began = client_seconds(), server_seconds(pid), time.perf_counter()
    await load(records)
    took, micros = time.perf_counter() - began, 1e6 / records
    return Sample(records / took, (client_seconds() - client) * micros, (server_seconds(pid) - server) * micros)


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


def median(samples: Sequence[Sample]) -> Sample:
    """Each figure's median."""
    return Sample(*(statistics.median(figures) for figures in zip(*map(attrs.astuple, samples), strict=True)))


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
    for name, sample in found.items():
        rate, client, server = attrs.astuple(sample)
        print(f"{name:34} {rate:9,.0f} records/s   client {client:6.1f} us   server {server:5.1f} us")
    pairs = {
        "publish": ("publish, 100 tasks", "redis-py xadd, 100 tasks"),
        "publish_many": ("publish_many(100)", "redis-py pipeline of 100"),
        "publish_many, routed": ("publish_many(100)", "redis-py pipeline of 100, routed"),
    }
    rates = {name: round(found[ours].rate / found[theirs].rate, 2) for name, (ours, theirs) in pairs.items()}
    times = {name: round(found[theirs].client_us / found[ours].client_us, 2) for name, (ours, theirs) in pairs.items()}
    print(json.dumps({"records a second, times theirs": rates}))
    print(json.dumps({"client time a record, times less than theirs": times}))


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shards", type=int, default=16)
    report(asyncio.run(compare(parser.parse_args())))


if __name__ == "__main__":
    main()
