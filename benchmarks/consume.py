"""Consuming and acknowledging, against a loop by hand on redis-py's asyncio client, and against other libraries.

    python benchmarks/consume.py [--records 64000] [--rounds 5] [--shards 16] [--peers-python PEERS/bin/python]

One real server, records of 200 bytes, the contenders in turn within each round, each over its own backlog. The loop by
hand reads 100 records of a shard at a time and acknowledges them in a pipeline, shard after shard: no fence, no lease,
no coordinator. Ours go through `StreamApp` with fencing on, start and leave included, with handlers that do nothing but
acknowledge: of 100 records; of one record, which wait for each acknowledgement; and of one record with
``ack="on_success"``, where the next is handled while the acknowledgement is on its way.

The other libraries are FastStream and taskiq-redis, over records in their own format, and where they take one at a time
over an eighth of them. They don't share our dependencies: make them a Python of their own, or they are left out.

    python -m venv PEERS && PEERS/bin/pip install 'faststream[redis]' taskiq-redis

What is compared is the client's processor time per record, or records per second; the server's time stands beside it.
"""

import argparse
import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from measuring import PAYLOAD, Sample, goal, measure, median, table
from redis.asyncio import Redis

from streamshard import Batch, Message, StreamApp
from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.core.admin import Author, CreateGroup, CreateStream, GroupSpec
from streamshard.core.ids import GroupKey, GroupName, StreamPrefix
from streamshard.entrypoints.listening import ListenerOptions
from streamshard.entrypoints.settings import serve_settings
from streamshard.entrypoints.wiring import service

BATCH = 100
STREAM = StreamPrefix("orders")
PEERS = Path(__file__).with_name("peers.py")
BY_HAND, BATCHES, ONE, LATE = "redis-py loop by hand", "batch handler", "handler of one record", "the same, on_success"

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


def ours(url: str, coordinator: object, options: ListenerOptions) -> Consumer:
    """A `StreamApp` with one listener until so many records are handled."""

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

        async def late(message: Message) -> None:
            count(1)

        async def many(messages: Batch) -> None:
            await messages.ack()
            count(len(messages))

        singly = late if options.get("ack") == "on_success" else one
        app.listener("orders", group=group, **options)(many if "batch" in options else singly)
        async with app:
            await done.wait()

    return consume


def contenders(url: str, coordinator: object, redis: "Redis", shards: int) -> dict[str, Consumer]:
    """Who consumes, by name."""
    return {
        BY_HAND: by_hand(redis, shards),
        BATCHES: ours(url, coordinator, {"batch": BATCH}),
        ONE: ours(url, coordinator, {"page": BATCH}),
        "the same, max_workers=1": ours(url, coordinator, {"page": BATCH, "max_workers": 1}),
        LATE: ours(url, coordinator, {"page": BATCH, "ack": "on_success"}),
    }


def peers(python: str | None) -> list[str]:
    """The other libraries that this Python can import."""
    if python is None:
        return []
    listed = subprocess.run([python, PEERS, "--list"], check=True, capture_output=True, text=True)
    return list(json.loads(listed.stdout))


def peer(options: argparse.Namespace, name: str, server: EmbeddedServer) -> Sample:
    """One run of another library, in a process of its own."""
    records = options.records if "batches" in name else options.records // 8
    size = ["--records", str(records), "--shards", str(options.shards)]
    command = [options.peers_python, PEERS, name, "--url", server.url, "--pid", str(server.pid), *size]
    return Sample(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


async def compare(options: argparse.Namespace) -> dict[str, Sample]:
    """Start what is needed, and measure each contender with a group of its own over the same records."""
    found: dict[str, list[Sample]] = {}
    with EmbeddedServer() as server:
        settings = serve_settings({"store": "memory:", "redis": server.url, "port": "0"}, {})
        async with service(settings) as built, Redis.from_url(server.url) as redis:
            await built.coordinator.create_stream(CreateStream(STREAM, Author("benchmark"), options.shards))
            await fill(redis, options.records, options.shards)
            for turn in range(options.rounds):
                for name, consume in contenders(server.url, built.coordinator, redis, options.shards).items():
                    key = GroupKey(STREAM, GroupName(f"{name}-{turn}"))
                    spec = GroupSpec(key.group, start_from="0")
                    await built.coordinator.create_group(CreateGroup(key, Author("benchmark"), spec))
                    sample = await measure(partial(consume, key.group), options.records, server.pid)
                    found.setdefault(name, []).append(sample)
                for name in peers(options.peers_python):
                    found.setdefault(name, []).append(await asyncio.to_thread(peer, options, name, server))
    return {name: median(samples) for name, samples in found.items()}


def report(found: dict[str, Sample]) -> None:
    """Print the figures, and what they come to."""
    table(found)
    print()
    floor = found[BY_HAND].client_us
    goal(f"client time per record, {BATCHES} to {BY_HAND}", found[BATCHES].client_us / floor, 2, at_most=True)
    for name in (LATE, ONE):
        print(f"  {name}: {found[name].client_us / floor:.2f}")
    others = [name for name in found if name.startswith(("FastStream", "taskiq"))]
    for name in others:
        alike, times = (BATCHES, 1.5) if "batches" in name else (ONE, 5.0)
        goal(f"records/s, {alike} to {name}", found[alike].rate / found[name].rate, times)
    if not others:
        print("FastStream and taskiq-redis were left out: no Python that has them (--peers-python)")


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=64_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--peers-python")
    report(asyncio.run(compare(parser.parse_args())))


if __name__ == "__main__":
    main()
