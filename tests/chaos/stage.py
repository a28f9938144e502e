"""A run's processes at work, and the hands that start, hurt, mend and watch them."""

import contextlib
import random
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from streamshard.entrypoints.demo.children import Children
from streamshard.entrypoints.demo.journal import Journal
from tests.chaos.actors import Actor, client_arguments, clock_of, coordinator_arguments
from tests.chaos.ground import Clustered, Single
from tests.chaos.meddler import Meddler
from tests.chaos.plan import FIRST_SHARDS, GROUP, MEMBERS_A_CONSUMER, MOST_SHARDS, STREAM, Plan
from tests.integration.cluster import free_ports
from tests.integration.faults.proxy import HOST, Proxy

PATIENCE_S = 60.0
LOOK_EVERY_S = 0.05
BY = {"requestedBy": "chaos", "reason": "a test"}
COORDINATOR, CONSUMER, PRODUCER = "coordinator", "consumer", "producer"
MODULES = {COORDINATOR: "streamshard", CONSUMER: "tests.ledger.consumer", PRODUCER: "tests.ledger.producer"}
HELD_UP = " ms late"
LISTENS = re.compile(r"listens on http://")


class ChaosFailed(AssertionError):
    """The run could not go on: nothing is proven, and something is wrong."""


class NotNow(Exception):
    """A nemesis finds nothing to hurt at the moment."""


class Stage:
    """Everything that runs."""

    def __init__(self, plan: Plan, folder: Path, ground: Single | Clustered) -> None:
        self.plan, self.folder, self.ground = plan, folder, ground
        self.chance = random.Random(plan.seed)
        self.children = Children(folder)
        self.story = Journal(folder / "story.jsonl")
        self.actors: dict[str, Actor] = {}
        self.http = httpx.Client(trust_env=False, timeout=5.0)
        self._busy: set[str] = set()

    # -- processes ----------------------------------------------------------------------------------------------

    def populate(self) -> None:
        """Start everybody, and create the stream."""
        for number in range(self.plan.coordinators):
            links = self.ground.links(COORDINATOR)
            self._enter(Actor(COORDINATOR, f"k{number + 1}", links, port=free_ports()[0]))
        for one in self.of(COORDINATOR):
            self.until(lambda one=one: self.listens(one), f"{one.name} to listen")  # type: ignore[misc]
        body = {"initialShardCount": FIRST_SHARDS, "consumerGroups": [GROUP], **BY}
        self.post(f"streams/{STREAM}", body)
        for kind, count in ((CONSUMER, self.plan.consumers), (PRODUCER, self.plan.producers)):
            for number in range(count):
                self._enter(Actor(kind, f"{kind[0]}{number + 1}", self.ground.links(kind), self._ways()))

    def start(self, actor: Actor) -> None:
        """Begin its next life."""
        actor.number += 1
        actor.stopped = False
        redis = self.ground.redis_url(actor.links)
        if actor.kind == COORDINATOR:
            arguments = coordinator_arguments(actor.port, self.ground.store_url(actor.links), redis)
        else:
            urls = [f"http://{HOST}:{way.port}" for way in actor.ways]
            arguments = client_arguments(actor, self.folder, urls, redis, self.plan.rate)
        with clock_of(self.clock(actor)):
            actor.child = self.children.start(actor.life, MODULES[actor.kind], arguments)

    def clock(self, actor: Actor) -> Path:
        """The file that says how far its wall clock is off."""
        return self.folder / f"{actor.name}.clock"

    def kill(self, actor: Actor) -> None:
        """As a crash would; it is dead when this returns."""
        if actor.child is not None:
            self.children.kill(actor.child)
            self.story.note("killed", who=actor.life)

    def dismiss(self, actor: Actor) -> None:
        """Ask it to end."""
        if actor.child is not None:
            self.children.dismiss(actor.child)

    def ended(self, actor: Actor) -> bool:
        """Whether one that was asked to end did so; notes how."""
        if actor.running or actor.child is None:
            return False
        self.story.note("ended", who=actor.life, code=actor.child.code)
        return True

    def tend(self) -> None:
        """Start again who fell over by itself, as whatever looks after processes does.

        One of our own errors is a reason to end, such as a stream that nobody knows; any other ends the run.
        """
        while (fallen := self.children.fallen()) is not None:
            self.children.forget(fallen)
            words = fallen.log.read_text("utf-8", "replace")
            last = (words.splitlines() or [""])[-1]
            if "Traceback" in words and not last.startswith("streamshard.errors."):
                raise ChaosFailed(f"{fallen.name} fell over with {fallen.code}: {words[-3000:]}")
            self.story.note("fell", who=fallen.name, code=fallen.code, words=fallen.last_words())
            actor = next(each for each in self.actors.values() if each.child is fallen)
            self.start(actor)

    def of(self, kind: str) -> list[Actor]:
        """All of a kind."""
        return [actor for actor in self.actors.values() if actor.kind == kind]

    @contextlib.contextmanager
    def victims(self, *names: str) -> Iterator[None]:
        """Nobody else hurts these meanwhile; raises `NotNow` if somebody does already."""
        if not self._busy.isdisjoint(names):
            raise NotNow
        self._busy.update(names)
        try:
            yield
        finally:
            self._busy.difference_update(names)

    def complaints(self) -> int:
        """How often processes said so far that they were held up."""
        return sum(HELD_UP in line for path in self.folder.glob("*.log") for line in path.read_text().splitlines())

    def ready(self, actor: Actor) -> bool:
        """Whether it is at work, and so far that it can be told to stop."""
        if actor.kind == COORDINATOR:
            return self.listens(actor)
        journal = self.folder / f"{actor.life}.jsonl"
        started = journal if actor.kind == PRODUCER else actor.child.log if actor.child is not None else journal
        return started.exists() and started.stat().st_size > 0

    def idle(self, *kinds: str) -> Actor:
        """One whom nothing is done to, by chance; raises `NotNow` if there is none."""
        free = [each for kind in kinds for each in self.of(kind) if each.name not in self._busy and each.running]
        if not free:
            raise NotNow
        return self.chance.choice(free)

    def listens(self, actor: Actor) -> bool:
        """Whether a coordinator does."""
        return actor.child is not None and LISTENS.search(actor.child.log.read_text()) is not None

    def _enter(self, actor: Actor) -> None:
        self.actors[actor.name] = actor
        self.clock(actor).write_text("+0")
        self.start(actor)

    def _ways(self) -> tuple[Proxy, ...]:
        ports = [one.port for one in self.of(COORDINATOR)]
        return tuple(Meddler(port, ports, self.chance.randrange(2**32)) for port in ports)

    # -- asking -------------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: Mapping[str, object] | None = None) -> httpx.Response | None:
        """One try at any coordinator that runs; None without an answer."""
        candidates = [one for one in self.of(COORDINATOR) if one.running and not one.stopped]
        for one in self.chance.sample(candidates, len(candidates)):
            with contextlib.suppress(httpx.TransportError):
                return self.http.request(method, f"http://{HOST}:{one.port}/coord/v1/{path}", json=body, timeout=2.0)
        return None

    def get(self, path: str) -> Any:
        """Insist on a good answer."""
        found: list[httpx.Response] = []

        def answered() -> bool:
            response = self.request("GET", path)
            found[:] = [response] if response is not None and response.is_success else []
            return bool(found)

        self.until(answered, f"a good answer to {path}")
        return found[0].json()

    def post(self, path: str, body: dict[str, object]) -> None:
        """Insist on a good answer to what may be asked twice."""

        def answered() -> bool:
            response = self.request("POST", path, body)
            return response is not None and response.is_success

        self.until(answered, f"a good answer to {path}")

    def owners(self) -> dict[int, str]:
        """Which process owns which shard, as the coordinators have it."""
        rows = self.get(f"monitoring/streams/{STREAM}/groups/{GROUP}/assignments")["shards"]
        return {row["shardIndex"]: (row["owner"] or "").rpartition("-")[0] for row in rows}

    def stable(self, shards: int | None = None) -> bool:
        """Everybody is there and shares the shards evenly, and nothing is under way."""
        stream = self.request("GET", f"streams/{STREAM}")
        found = self.request("GET", f"streams/{STREAM}/groups/{GROUP}")
        if stream is None or found is None or not (stream.is_success and found.is_success):
            return False
        group, count = found.json(), stream.json()["shardCount"]
        held: dict[str, int] = group["currentAssignmentSummary"]
        crew = [f"{one.name}-m{n}" for one in self.of(CONSUMER) if one.running for n in range(MEMBERS_A_CONSUMER)]
        counts = [held.get(name, 0) for name in crew]
        even = sum(counts) == count == sum(held.values()) and max(counts) - min(counts) <= 1
        calm = group["state"] == "STABLE" and not group["quarantine"] and stream.json()["activeMigration"] is None
        return even and calm and shards in (None, count)

    def scaling(self) -> str | None:
        """Which resharding is under way; nobody's answer is none, too."""
        stream = self.request("GET", f"streams/{STREAM}")
        active = stream.json()["activeMigration"] if stream is not None and stream.is_success else None
        return None if active is None else str(active["reshardingId"])

    def waiting(self, shard: int) -> tuple[bool, int | None, int | None]:
        """Whether the key of a shard is there, and what is pending and what unread."""
        key = f"{STREAM}:{shard}"
        rows = self.ground.ask(key, "XINFO", "GROUPS", key)
        if not isinstance(rows, list):
            return False, None, None
        groups = [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
        mine = next((group for group in groups if group[b"name"] == GROUP.encode()), {})
        return True, mine.get(b"pending"), mine.get(b"lag")

    def nothing_waits(self) -> bool:
        """Every key that is left has been read and acknowledged to its end."""
        found = [self.waiting(shard) for shard in range(MOST_SHARDS)]
        return all((pending, unread) == (0, 0) for exists, pending, unread in found if exists)

    def until(self, done: Callable[[], bool], what: str, patience: float = PATIENCE_S) -> None:
        """Wait for it, looking after everybody."""
        deadline = time.monotonic() + patience
        while not done():
            if time.monotonic() > deadline:
                raise ChaosFailed(f"waited {patience:.0f} s in vain for {what}")
            self.pause(LOOK_EVERY_S)

    def pause(self, seconds: float) -> None:
        """Let time pass, looking after everybody."""
        deadline = time.monotonic() + seconds
        while True:
            self.tend()
            if (left := deadline - time.monotonic()) <= 0:
                return
            time.sleep(min(LOOK_EVERY_S, left))

    def end(self) -> None:
        """End everything, also what stands still."""
        for actor in self.actors.values():
            actor.signal(signal.SIGCONT)
        self.children.end()
        for actor in self.actors.values():
            for proxy in (*actor.links, *actor.ways):
                proxy.close()
        self.http.close()
        self.story.close()
