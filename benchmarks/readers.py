"""Processes that read, for `latency.py` and `many_shards.py`, and what both need around them.

A reader prints ``ready`` once it reads every shard. To each line of input it answers with a line of JSON: what it has
handled since the last one, how old each record was that carries a time, in milliseconds, and its processor time.
"""

import argparse
import asyncio
import contextlib
import json
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

from join import coordinators
from measuring import PAYLOAD, client_seconds, percentile
from redis import Redis

from streamshard import Batch, Message, StreamApp
from streamshard.adapters.streams.embedded import EmbeddedServer

STREAM = "orders"
BATCH = 100
PATIENCE_S = 60.0


class Told(NamedTuple):
    """What a reader has handled since it was asked before."""

    count: int
    ages_ms: list[float]
    cpu_s: float


class Log:
    """What a reader keeps until it is asked."""

    def __init__(self) -> None:
        self._count, self._ages, self._cpu = 0, list[float](), client_seconds()

    def note(self, sent: bytes | None) -> None:
        """One more record, sent at this time."""
        self._count += 1
        if sent is not None:
            self._ages.append((time.monotonic_ns() - int(sent)) / 1e6)

    def tell(self) -> None:
        """Print it, and begin anew."""
        count, ages, cpu, now = self._count, self._ages, self._cpu, client_seconds()
        self._count, self._ages, self._cpu = 0, [], now
        print(json.dumps([count, ages, now - cpu]), flush=True)


async def read_ours(options: argparse.Namespace) -> None:
    """Read with a `StreamApp`; every shard must become ours."""
    log, missing = Log(), set(range(options.shards))
    app = StreamApp(options.coordinator, redis=options.redis)

    def assigned(member: str, shard: int, token: int) -> None:
        missing.discard(shard)
        if not missing:
            print("ready", flush=True)

    async def one(message: Message) -> None:
        log.note(message.fields.get(b"t"))
        if options.how != "on_success":
            await message.ack()

    async def many(batch: Batch) -> None:
        for message in batch:
            log.note(message.fields.get(b"t"))
        await batch.ack()

    late = {"ack": "on_success"} if options.how == "on_success" else {}
    batch = {"batch": BATCH} if options.how == "batch" else {}
    handler = many if batch else one
    app.listener(STREAM, group=options.group, on_assigned=assigned, **late, **batch)(handler)  # type: ignore[arg-type]
    async with app:
        while await asyncio.to_thread(sys.stdin.readline):
            log.tell()


def read_by_hand(options: argparse.Namespace) -> None:
    """Read with a blocking loop: no fence, no lease, no coordinator."""
    log, redis = Log(), Redis.from_url(options.redis)
    keys = {f"{STREAM}:{shard}": ">" for shard in range(options.shards)}

    def answer() -> None:
        while sys.stdin.readline():
            log.tell()

    asking = threading.Thread(target=answer)
    asking.start()
    print("ready", flush=True)
    while asking.is_alive():
        reply: Any = redis.xreadgroup(options.group, "c", keys, count=BATCH, block=1_000)
        for key, entries in reply:
            for _, fields in entries:
                log.note(fields.get(b"t"))
            redis.xack(key, options.group, *[entry for entry, _ in entries])
    redis.close()


class Reader:
    """A reader's process, seen from outside."""

    def __init__(self, who: str, group: str, place: "Place", how: str = "one") -> None:
        where = ["--redis", place.redis, "--coordinator", place.coordinator, "--shards", str(place.shards)]
        command = [sys.executable, __file__, who, "--group", group, "--how", how, *where]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._hearing = threading.Thread(target=self._hear, daemon=True)
        self._hearing.start()
        self._line()

    def ask(self) -> Told:
        """What it has handled since it was asked before."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Told(*json.loads(self._line()))

    def end(self) -> None:
        """Let it leave."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._hearing.join()

    def _hear(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                self._lines.put(line)

    def _line(self) -> str:
        return self._lines.get(timeout=PATIENCE_S)


class Place(NamedTuple):
    """Where readers read."""

    redis: str
    coordinator: str
    shards: int
    pid: int
    """The process of the server of shards."""

    def create(self, groups: Sequence[str]) -> None:
        """Make the stream, with groups that read it from the start."""
        body = {"initialShardCount": self.shards, "consumerGroups": groups, "requestedBy": "benchmark"}
        headers = {"Content-Type": "application/json"}
        url = f"{self.coordinator}/coord/v1/streams/{STREAM}"
        with urlopen(Request(url, json.dumps(body).encode(), headers)) as answer:
            answer.read()


@contextlib.contextmanager
def place(shards: int) -> Iterator[Place]:
    """A server of shards, and a coordinator in a process of its own."""
    with EmbeddedServer() as server, coordinators(1, "memory:", server.url) as (url,):
        yield Place(server.url, url, shards, server.pid)


def publish(redis: "Redis", seconds: float, rate: float, pick: Callable[[], int]) -> None:
    """Add records at random moments, so many a second in the mean, to shards as they are picked."""
    chance, began = random.Random(7), time.monotonic()
    due = began
    while due < began + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        redis.xadd(f"{STREAM}:{pick()}", {"t": time.monotonic_ns(), "payload": PAYLOAD})
        due += chance.expovariate(rate)


def shares(ages: Sequence[float]) -> tuple[float, float]:
    """The median and the 99th percentile."""
    figures = sorted(ages)
    return percentile(figures, 0.5), percentile(figures, 0.99)


def main() -> None:
    """Be a reader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("who", choices=["ours", "by-hand"])
    for name in ("--redis", "--coordinator", "--group"):
        parser.add_argument(name, required=True)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--how", choices=["one", "batch", "on_success"], default="one")
    options = parser.parse_args()
    if options.who == "ours":
        asyncio.run(read_ours(options))
    else:
        read_by_hand(options)


if __name__ == "__main__":
    main()
