"""Where the demo plays: a server, a coordinator, consumers and a producer, each a process of its own."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.entrypoints.cli.client import Api, Json
from streamshard.entrypoints.cli.reshard import ENDED
from streamshard.entrypoints.demo.children import Child, Children
from streamshard.entrypoints.demo.journal import Journal
from streamshard.entrypoints.demo.plan import RATE, STREAM, TIMING
from streamshard.entrypoints.demo.timeline import Readers, Timeline, changes
from streamshard.errors import StreamshardError

PATIENCE_S = 20.0
LOOK_EVERY_S = 0.1
ASK_EVERY_S = 0.4
LISTENS = re.compile(r"listens on http://127\.0\.0\.1:(\d+)")
ENTRYPOINTS = "streamshard.entrypoints.demo"


class DemoFailed(StreamshardError):
    """The play could not go on."""


class Stage:
    """Everything that runs; each wait looks after it, and tells what changes."""

    def __init__(self, folder: Path, server: EmbeddedServer, timeline: Timeline) -> None:
        self.folder = folder
        self.redis = server.url
        self.timeline = timeline
        self.children = Children(folder)
        self.story = Journal(folder / "story.jsonl")
        self.consumers: dict[str, Child] = {}
        self.coordinator: Child | None = None
        self.producer: Child | None = None
        self.port = 0
        self._readers = Readers()
        self._shown: dict[int, str] = {}
        self._shards: set[int] = set()

    @property
    def url(self) -> str:
        """The coordinator's."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def readers(self) -> dict[int, str]:
        """Which member reads which shard now."""
        return dict(self._readers.now)

    def start_coordinator(self) -> None:
        """Start it and wait until it listens; the second time on the port that it had."""
        options = [text for name, length in TIMING.items() for text in (f"--{name}", length)]
        where = ["--store", f"sqlite:///{self.folder}/metadata.db", "--redis", self.redis, "--port", str(self.port)]
        child = self.children.start("coordinator", "streamshard", ["serve", *where, *options])
        self.coordinator = child
        self.until(lambda: LISTENS.search(child.log.read_text()) is not None, "the coordinator to listen")
        found = LISTENS.search(child.log.read_text())
        assert found is not None
        self.port = int(found[1])

    def start_consumer(self, name: str) -> None:
        """Start one; it joins by itself."""
        place = [name, self.url, self.redis, str(self._journal(name))]
        self.consumers[name] = self.children.start(f"consumer-{name}", f"{ENTRYPOINTS}.consumer", place)

    def start_producer(self, journal: str = "producer", rate: int = RATE) -> None:
        """Start it and wait for its first acknowledged publish."""
        path = self.folder / f"{journal}.jsonl"
        place = [self.url, self.redis, str(path), str(rate)]
        self.producer = self.children.start("producer", f"{ENTRYPOINTS}.producer", place)
        self.until(lambda: path.exists() and path.stat().st_size > 0, "the producer's first publish")

    def kill_consumer(self, name: str) -> None:
        """SIGKILL."""
        child = self.consumers.pop(name)
        self.children.kill(child)
        self.story.note("killed", who=f"consumer-{name}", code=child.code)
        self.look()
        self._readers.gone(name)
        self.look(f"{name} was killed (kill -9): its shards wait for its lease")

    def kill_coordinator(self) -> None:
        """SIGKILL."""
        assert self.coordinator is not None
        self.story.note("coordinator-killed")
        self.children.kill(self.coordinator)

    def dismiss(self, child: Child) -> None:
        """SIGTERM, and wait for its end."""
        self.children.dismiss(child)
        self.until(lambda: child.code is not None, f"{child.name} to stop")
        self.story.note("stopped", who=child.name, code=child.code)

    def api(self) -> Api:
        """The coordinator's API; a context manager."""
        return Api(self.url)

    def expect(self, shards: int) -> None:
        """Show so many shards in the grid, read or not."""
        self._shards = set(range(shards))

    def until(self, done: Callable[[], bool], what: str, patience: float = PATIENCE_S) -> None:
        """Wait for ``done``; raises `DemoFailed` if that takes too long, or a process falls meanwhile."""
        deadline = time.monotonic() + patience
        while not done():
            if time.monotonic() >= deadline:
                raise DemoFailed(f"waited {patience:.0f} s in vain for {what}")
            self.pause(LOOK_EVERY_S)

    def pause(self, seconds: float) -> None:
        """Let it run for a while."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(LOOK_EVERY_S, left))
            self.look()

    def resharded(self, resharding: str) -> None:
        """Wait for the end of a resharding, telling what it waits for."""
        told = ""
        with self.api() as api:
            deadline = time.monotonic() + PATIENCE_S
            while (found := _migration(api, resharding)) is None or found["state"] not in ENDED:
                told = self._tell(found, told)
                if time.monotonic() >= deadline:
                    raise DemoFailed(f"{STREAM} is not resharded after {PATIENCE_S:.0f} s: {told}")
                self.pause(ASK_EVERY_S)
        self.timeline.say(f"resharding is {found['state']}", "green")

    def linger(self) -> None:
        """Go on until interrupted, whatever is done to the processes."""
        while True:
            time.sleep(LOOK_EVERY_S)
            fallen = self.children.fallen()
            if fallen is not None:
                self.children.forget(fallen)
                self._readers.gone(fallen.name.removeprefix("consumer-"))
                self.timeline.say(f"{fallen.name} ended with code {fallen.code}")
            self.look()

    def end(self) -> None:
        """End every process."""
        self.children.end()
        self.story.close()

    def look(self, why: str = "") -> None:
        """See that everything lives, and show the grid if it changed."""
        fallen = self.children.fallen()
        if fallen is not None:
            raise DemoFailed(f"{fallen.name} ended with code {fallen.code}: {fallen.last_words()}")
        self._readers.look(sorted(self.folder.glob("consumer-*.jsonl")))
        now = self.readers
        if now != self._shown or why:
            grid = {shard: now.get(shard) for shard in self._shards | set(now)}
            self.timeline.grid(grid, why or changes(self._shown, now))
            self._shown = now

    def _tell(self, migration: Json | None, told: str) -> str:
        if migration is None:
            return told
        now = "; ".join([f"resharding is {migration['state']}", *_reasons(migration)])
        if now != told:
            self.timeline.say(now, "dim")
        return now

    def _journal(self, name: str) -> Path:
        return self.folder / f"consumer-{name}.jsonl"


def _migration(api: Api, resharding: str) -> Json | None:
    migrations = api.get("streams", STREAM)["migrations"]
    return next((m for m in migrations if m["reshardingId"] == resharding), None)


def _reasons(migration: Json) -> list[str]:
    """Shards that wait for the same thing are told of together."""
    found: dict[str, list[str]] = {}
    for look in migration["draining"]:
        found.setdefault(look["reason"], []).append(str(look["shardIndex"]))
    return [f"{'shard' if len(shards) == 1 else 'shards'} {', '.join(shards)}: {why}" for why, shards in found.items()]
