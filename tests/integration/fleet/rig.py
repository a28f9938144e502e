"""Coordinators, consumers and a producer as processes, on real metadata and real shards, and what they wrote down."""

import contextlib
import functools
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import httpx
from redis import Redis

from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.entrypoints.demo.children import Child, Children
from streamshard.entrypoints.demo.journal import Journal
from streamshard.entrypoints.demo.plan import GROUP, STREAM
from streamshard.entrypoints.demo.verdict import judge
from tests.integration.fleet.front import Front

Json: TypeAlias = dict[str, Any]
Owner: TypeAlias = tuple[str | None, int | None]

FULL = bool(os.environ.get("STREAMSHARD_FULL"))
"""Every variant, and the whole backlog: minutes instead of seconds."""

PATIENCE_S = 60.0
LOOK_EVERY_S = 0.1
TIMING = {"lease": "5s", "heartbeat": "500ms", "tick": "200ms"}
LEASE_S = 5.0
ROUTING_LEASE_S = 30
"""Longer than any outage here: the producer gives up when its routing runs out."""
LISTENS = re.compile(r"listens on http://127\.0\.0\.1:(\d+)")
BY = {"requestedBy": "fleet tests", "reason": "a test"}
CONSUMER = "tests.integration.fleet.consumer"
PRODUCER = "streamshard.entrypoints.demo.producer"
CLOCKED = "tests.integration.fleet.clocked"

ALWAYS = ("nothing-lost", "nothing-invented", "duplicates", "in-order", "one-reader", "no-old-token")
"""What holds whatever happens to coordinators and members, as long as Redis keeps its word."""


@attrs.define(eq=False)
class Coordinator:
    """One of the fleet: it keeps its port over all its lives."""

    name: str
    child: Child
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Fleet:
    """Everything that runs in one test."""

    def __init__(self, folder: Path, redis: str, store: str, routing_lease_s: int) -> None:
        self.folder, self.redis, self.store = folder, redis, store
        self._timing = {**TIMING, "routing-lease": f"{routing_lease_s}s"}
        self.children = Children(folder)
        self.story = Journal(folder / "story.jsonl")
        self.coordinators: dict[str, Coordinator] = {}
        self.consumers: dict[str, Child] = {}
        self.producer: Child | None = None
        self._front: Front | None = None
        self.ask = httpx.Client(trust_env=False, timeout=10.0)

    @property
    def url(self) -> str:
        """The round robin over all coordinators that were started by its first use."""
        if self._front is None:
            self._front = Front([one.port for one in self.coordinators.values()])
        return self._front.url

    def end(self) -> None:
        """End everything, also what was stopped in its tracks."""
        for one in self.coordinators.values():
            if one.child.code is None:
                one.child.process.send_signal(signal.SIGCONT)
        self.children.end()
        self.ask.close()
        self.story.close()
        if self._front is not None:
            self._front.close()

    # -- coordinators -------------------------------------------------------------------------------------------

    def coordinate(self, *names: str, offset_s: int = 0) -> None:
        """Start coordinators, the second time on the port that each had; ``offset_s`` puts their clocks wrong."""
        for name in names:
            before = self.coordinators.get(name)
            child = self._launch(name, 0 if before is None else before.port, offset_s)
            self.coordinators[name] = Coordinator(name, child, 0 if before is None else before.port)
        for name in names:
            one = self.coordinators[name]
            self.until(functools.partial(self._listens, one), f"{name} to listen: {one.child.last_words()}")

    def _launch(self, name: str, port: int, offset_s: int) -> Child:
        options = [text for option, length in self._timing.items() for text in (f"--{option}", length)]
        where = ["--store", self.store, "--redis", self.redis, "--port", str(port), "--log-format", "text", *options]
        if offset_s:
            return self.children.start(name, CLOCKED, [str(offset_s), *where])
        return self.children.start(name, "streamshard", ["serve", *where])

    def _listens(self, one: Coordinator) -> bool:
        assert one.child.code is None, one.child.last_words()
        found = LISTENS.search(one.child.log.read_text())
        if found is not None:
            one.port = int(found[1])
        return found is not None

    def kill(self, *names: str) -> None:
        """As a crash would."""
        for name in names:
            self.children.kill(self.coordinators[name].child)

    def freeze(self, name: str) -> None:
        """Stop it where it stands."""
        self.coordinators[name].child.process.send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Let it go on, as if no time had passed."""
        self.coordinators[name].child.process.send_signal(signal.SIGCONT)

    def dismiss(self, name: str) -> int:
        """SIGTERM; its exit code."""
        child = self.coordinators[name].child
        self.children.dismiss(child)
        return child.process.wait(PATIENCE_S)

    # -- clients ------------------------------------------------------------------------------------------------

    def consume(self, *names: str, urls: Sequence[str] = (), group: str = GROUP, ms_a_record: float = 0) -> None:
        """Start consumer processes of two members each; ``urls`` instead of the front."""
        for name in names:
            journal = self.folder / f"consumer-{name}.{group}.jsonl"
            place = [name, ",".join(urls) or self.url, self.redis, str(journal), group, str(ms_a_record)]
            self.consumers[name] = self.children.start(f"consumer-{name}", CONSUMER, place)

    def kill_consumer(self, name: str) -> None:
        """As a crash would."""
        child = self.consumers.pop(name)
        self.children.kill(child)
        self.story.note("killed", who=f"consumer-{name}", code=child.code)

    def produce(self, rate: int = 300, journal: str = "producer") -> None:
        """Publish at a steady rate from now on."""
        path = self.folder / f"{journal}.jsonl"
        self.producer = self.children.start(journal, PRODUCER, [self.url, self.redis, str(path), str(rate)])
        self.until(lambda: path.exists() and path.stat().st_size > 0, "the first publish")

    def stop_producing(self) -> None:
        """And wait for its end."""
        assert self.producer is not None
        self.children.dismiss(self.producer)
        assert self.producer.process.wait(PATIENCE_S) == 0, self.producer.last_words()
        self.producer = None

    # -- looking ------------------------------------------------------------------------------------------------

    def until(self, done: Callable[[], bool], what: str, patience: float = PATIENCE_S) -> None:
        """Wait for it; nothing may fall over meanwhile."""
        deadline = time.monotonic() + patience
        while not done():
            assert time.monotonic() < deadline, f"waited {patience:.0f} s in vain for {what}"
            self.pause(LOOK_EVERY_S)

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        deadline = time.monotonic() + seconds
        while True:
            fallen = self.children.fallen()
            assert fallen is None, f"{fallen.name} ended with {fallen.code}: {fallen.last_words()}"
            if (left := deadline - time.monotonic()) <= 0:
                return
            time.sleep(min(LOOK_EVERY_S, left))

    def get(self, path: str, url: str | None = None) -> Json:
        """Ask until somebody answers; the answer has to be a good one."""
        return self._insist("GET", path, None, url)

    def post(self, path: str, body: Mapping[str, object], url: str | None = None) -> Json:
        """The same; only for what may be asked twice."""
        return self._insist("POST", path, body, url)

    def _insist(self, method: str, path: str, body: Mapping[str, object] | None, url: str | None) -> Json:
        found: list[httpx.Response] = []

        def answered() -> bool:
            with contextlib.suppress(httpx.TransportError):
                found[:] = [self.ask.request(method, f"{url or self.url}/coord/v1/{path}", json=body)]
            return bool(found) and found[0].status_code < 500

        self.until(answered, f"an answer to {method} {path}")
        assert found[0].is_success, found[0].text
        answer: Json = found[0].json()
        return answer

    def create(self, shards: int, *groups: str) -> None:
        """The stream with its groups."""
        self.post(f"streams/{STREAM}", {"initialShardCount": shards, "consumerGroups": groups or [GROUP], **BY})

    def owners(self, group: str = GROUP) -> dict[int, Owner]:
        """Who may read which shard under which token, as the coordinators have it."""
        found = self.get(f"monitoring/streams/{STREAM}/groups/{group}/assignments")
        return {row["shardIndex"]: (row["owner"], row["token"]) for row in found["shards"]}

    def settle(self, shards: int, *consumers: str) -> dict[int, Owner]:
        """Wait until these share so many shards evenly and nothing is under way."""
        crew = sorted(f"{name}-m{number}" for name in consumers for number in range(2))
        self.until(lambda: self._even(shards, crew), f"{crew} to share {shards} shards")
        return self.owners()

    def _even(self, shards: int, crew: Iterable[str]) -> bool:
        group = self.get(f"streams/{STREAM}/groups/{GROUP}")
        held: dict[str, int] = group["currentAssignmentSummary"]
        counts = [held.get(name, 0) for name in crew]
        whole = sum(counts) == shards == sum(held.values())
        return group["state"] == "STABLE" and whole and max(counts) - min(counts) <= 1 and not group["quarantine"]

    def events(self) -> list[str]:
        """Every line that any coordinator logged of a change, whichever life it was in."""
        texts = [path.read_text() for path in sorted(self.folder.glob("*-k*.log"))]
        return [line for text in texts for line in text.splitlines()]

    def expired(self) -> list[str]:
        """The expiries among them."""
        return [line for line in self.events() if " member-expired " in line]

    # -- judging ------------------------------------------------------------------------------------------------

    def finish(self, shards: int, groups: Iterable[str] = (GROUP,), patience: float = PATIENCE_S) -> None:
        """Let everything be read, stop the consumers, and note what Redis holds then."""
        if self.producer is not None:
            self.stop_producing()
        with Redis.from_url(self.redis) as redis:
            self.until(lambda: nothing_waits(redis, shards, groups), "everything to be handled", patience)
            for child in self.consumers.values():
                self.children.dismiss(child)
            for child in self.consumers.values():
                assert child.process.wait(PATIENCE_S) == 0, child.last_words()
            for group in groups:
                self.take_stock(redis, group)

    def take_stock(self, redis: Redis, group: str = GROUP, most: int = 16) -> None:
        """Ask Redis itself about every shard that there may have been."""
        for shard in range(most):
            fence = redis.hgetall(f"{{{STREAM}:{shard}}}:fence")
            exists = bool(redis.exists(f"{STREAM}:{shard}"))
            if fence or exists:
                mark, sealed = int(fence.get(f"t:{group}".encode(), 0)), fence.get(b"sealed") == b"1"
                facts = {"shard": shard, "exists": exists, "sealed": sealed, "mark": mark}
                self.story.note("remains", group=group, **facts, pending=None, lag=None)

    def wrong(self, *checks: str, group: str = GROUP) -> dict[str, tuple[str, ...]]:
        """What the ledger of a group proves wrong, by the name of the check."""
        theirs = [*self.folder.glob(f"consumer-*.{group}.jsonl"), *self.folder.glob("producer.jsonl")]
        files = {path.stem.removesuffix(f".{group}"): path.read_text() for path in theirs}
        told = (self.folder / "story.jsonl").read_text().splitlines(keepends=True)
        files["story"] = "".join(line for line in told if json.loads(line).get("group", group) == group)
        verdict = judge(files)
        known = {check.name for check in verdict.checks}
        assert known >= set(checks)
        return {check.name: check.wrong[:5] for check in verdict.checks if check.name in checks and not check.ok}


def nothing_waits(redis: Redis, shards: int, groups: Iterable[str] = (GROUP,)) -> bool:
    """Every group has read and acknowledged everything on the shards that stay."""
    wanted = [(group.encode(), shard) for group in groups for shard in range(shards)]
    return all(_waiting(redis, shard, group) == (0, 0) for group, shard in wanted)


def _waiting(redis: Redis, shard: int, group: bytes) -> tuple[int, int] | None:
    rows = {row["name"]: row for row in redis.xinfo_groups(f"{STREAM}:{shard}")}
    return None if group not in rows else (rows[group]["pending"], rows[group]["lag"])


@contextlib.contextmanager
def fleet(folder: Path, redis: str, store: str, routing_lease_s: int = ROUTING_LEASE_S) -> Iterator[Fleet]:
    """A fleet to be filled by the test, and ended with it."""
    made = Fleet(folder, redis, store, routing_lease_s)
    try:
        yield made
    finally:
        made.end()


def sqlite_in(folder: Path) -> str:
    """A store in one file."""
    return f"sqlite:///{folder}/metadata.db"


def store_of(kind: str, folder: Path, server: EmbeddedServer) -> str:
    """``sqlite``, or another database of the server that has the shards."""
    return sqlite_in(folder) if kind == "sqlite" else server.url.replace("/0", "/1")
