"""How long a join takes in a group of 20 members, from its start until every shard is read by its new owner.

Everything is real: coordinators over HTTP on one SQLite file or one Valkey, five consumer processes, and the
default timings (a heartbeat every 3 s). Prints the median of several joins.

    python benchmarks/join.py [--rounds 7] [--coordinators 2] [--store redis] [--without-watch]
"""

import argparse
import asyncio
import contextlib
import functools
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamshard import GroupKey, HttpCoordinator, Message, StreamApp
from streamshard.adapters.streams.embedded import EmbeddedServer, find_servers
from streamshard.core.commands import Heartbeat
from streamshard.core.ports import CoordinatorApi
from streamshard.core.replies import HeartbeatReply, Routing

SHARDS = 40
RESIDENTS = (5, 5, 5, 4)
MEMBERS = sum(RESIDENTS) + 1
LISTENS = re.compile(r"listens on (http://\S+)")
PATIENCE_S = 60.0


class Plain:
    """A coordinator as an older one looks to a client: no watch, no batches."""

    def __init__(self, api: CoordinatorApi) -> None:
        self._api = api

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        """Pass it on."""
        return await self._api.heartbeat(key, beat)

    async def routing(self, key: GroupKey) -> Routing:
        """Pass it on."""
        return await self._api.routing(key)


async def consume(name: str, members: int, redis: str, urls: list[str], *, watching: bool) -> None:
    """Be one consumer process: say what is read from when on, until the input ends."""

    def say(kind: str, member: str = "", shard: int = -1) -> None:
        print(json.dumps([time.monotonic(), kind, member, shard]), flush=True)

    own = HttpCoordinator(urls)
    app = StreamApp(urls if watching else Plain(own), redis)

    @app.listener(
        "orders",
        group="billing",
        concurrency=members,
        member_id=name,
        on_assigned=lambda member, shard, token: say("reads", member, shard),
        on_revoked=lambda member, shard, token: say("stopped", member, shard),
    )
    async def handle(message: Message) -> None:
        await message.ack()

    async with own:
        say("starts")
        async with app:
            await asyncio.to_thread(sys.stdin.read)
            beats = sum(member.session.seq for member in app.members)
        say("heartbeats", name, beats)


class Process:
    """A child whose output is read as it comes."""

    def __init__(self, arguments: list[str], hear: Callable[[str], None], *, stderr: bool = False) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=None if stderr else subprocess.PIPE,
            stderr=subprocess.PIPE if stderr else None,
            text=True,
        )
        lines = self._process.stderr if stderr else self._process.stdout
        assert lines is not None
        self._reader = threading.Thread(target=_each, args=(lines, hear), daemon=True)
        self._reader.start()

    def end(self, number: int | None = None) -> None:
        """Close its input, or signal it, and wait."""
        assert self._process.stdin is not None
        if number is None:
            self._process.stdin.close()
        else:
            self._process.send_signal(number)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reader.join()


def _each(lines: Iterable[str], hear: Callable[[str], None]) -> None:
    for line in lines:
        hear(line)


class Play:
    """Who reads what, as the consumers themselves say."""

    def __init__(self) -> None:
        self.readers: dict[int, str] = {}
        self.last = 0.0
        self.started: dict[str, float] = {}
        self.heartbeats = 0
        self._changed = threading.Condition()

    def hear(self, name: str, line: str) -> None:
        """Take in one line of a consumer's."""
        at, kind, member, shard = json.loads(line)
        with self._changed:
            if kind == "starts":
                self.started[name] = at
            elif kind == "reads":
                self.readers[shard], self.last = member, max(self.last, at)
            elif kind == "stopped" and self.readers.get(shard) == member:
                del self.readers[shard]
            elif kind == "heartbeats":
                self.heartbeats += shard
            self._changed.notify_all()

    def settle(self, members: int) -> None:
        """Wait until every shard is read and so many members share them evenly."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._even(members), PATIENCE_S):
                raise SystemExit(f"not settled after {PATIENCE_S} s: {self.readers}")

    def _even(self, members: int) -> bool:
        counts = Counter(self.readers.values())
        spread = max(counts.values(), default=0) - min(counts.values(), default=0)
        return len(self.readers) == SHARDS and len(counts) == members and spread <= 1


@contextlib.contextmanager
def coordinators(count: int, store: str, redis: str) -> Iterator[list[str]]:
    """So many of them on one store."""
    urls: list[str] = []
    heard = threading.Condition()

    def hear(line: str) -> None:
        found = LISTENS.search(line)
        with heard:
            if found is not None:
                urls.append(found[1])
                heard.notify_all()

    where = ["--store", store, "--redis", redis, "--port", "0"]
    running = []
    try:
        for number in range(count):
            running.append(Process(["-m", "streamshard", "serve", *where], hear, stderr=True))
            with heard:
                if not heard.wait_for(functools.partial(_has, urls, number + 1), PATIENCE_S):
                    raise SystemExit("a coordinator did not start")
        yield urls
    finally:
        for each in running:
            each.end(signal.SIGTERM)


def _has(urls: list[str], count: int) -> bool:
    return len(urls) == count


def _store(kind: str, folder: str, redis: str) -> str:
    return redis if kind == "redis" else f"sqlite:///{folder}/metadata.db"


def measure(options: argparse.Namespace) -> tuple[list[float], int]:
    """The joins' durations in milliseconds, and all heartbeats of the play."""
    play = Play()
    server = EmbeddedServer(next(iter(find_servers().values())))
    with (
        server,
        tempfile.TemporaryDirectory() as folder,
        coordinators(options.coordinators, _store(options.store, folder, server.url), server.url) as urls,
    ):
        create(urls[0])

        def join(number: int, members: int) -> Process:
            ordered = urls[number % len(urls) :] + urls[: number % len(urls)]
            plain = ["--without-watch"] if options.without_watch else []
            who = ["--consume", f"c{number}", str(members), server.url, *ordered]
            return Process([__file__, *plain, *who], lambda line: play.hear(f"c{number}", line))

        residents = [join(number, members) for number, members in enumerate(RESIDENTS)]
        play.settle(MEMBERS - 1)
        took = []
        for number in range(options.rounds):
            newcomer = join(100 + number, 1)
            play.settle(MEMBERS)
            took.append((play.last - play.started[f"c{100 + number}"]) * 1000)
            newcomer.end()
            play.settle(MEMBERS - 1)
        for resident in residents:
            resident.end()
    return took, play.heartbeats


def create(url: str) -> None:
    """The stream with its group."""
    from urllib.request import Request, urlopen

    body = {"initialShardCount": SHARDS, "consumerGroups": ["billing"], "requestedBy": "benchmark", "reason": "join"}
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{url}/coord/v1/streams/orders", json.dumps(body).encode(), headers)) as answer:
        answer.read()


def main() -> None:
    """Measure, or be a child."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--coordinators", type=int, default=1)
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--without-watch", action="store_true")
    parser.add_argument("--consume", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.consume:
        name, members, redis, *urls = options.consume
        asyncio.run(consume(name, int(members), redis, urls, watching=not options.without_watch))
        return
    took, heartbeats = measure(options)
    how = "without watch" if options.without_watch else "with watch"
    every: dict[str, Any] = {"rounds": [round(each) for each in took], "heartbeats": heartbeats}
    print(f"join in a group of {MEMBERS}, {options.coordinators} coordinator(s) on {options.store}, {how}: {every}")
    print(f"median {statistics.median(took):.0f} ms, slowest {max(took):.0f} ms")


if __name__ == "__main__":
    main()
