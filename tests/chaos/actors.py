"""The processes of a run: each has a name for good, and a life after another."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from streamshard.entrypoints.demo.children import Child
from tests.chaos.plan import BATCH, GROUP, MEMBERS_A_CONSUMER, STREAM, TIMING
from tests.integration.faults.proxy import Proxy

CLOCK_LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
)


@attrs.define(eq=False)
class Actor:
    """A coordinator, a consumer or a producer. ``links``: its ways to Redis; ``ways``: those to the coordinators."""

    kind: str
    name: str
    links: tuple[Proxy, ...] = ()
    ways: tuple[Proxy, ...] = ()
    port: int = 0
    number: int = 0
    child: Child | None = None
    stopped: bool = False

    @property
    def life(self) -> str:
        """The name of its present life, and of that one's journal."""
        return f"{self.kind}-{self.name}.{self.number}"

    def signal(self, how: signal.Signals) -> None:
        """Send it a signal; nothing happens if it is gone."""
        self.stopped = how == signal.SIGSTOP or (self.stopped and how != signal.SIGCONT)
        if self.child is not None and self.child.code is None:
            self.child.process.send_signal(how)

    @property
    def running(self) -> bool:
        """There is a process."""
        return self.child is not None and self.child.code is None


def coordinator_arguments(port: int, store: str, redis: str) -> list[str]:
    """What `streamshard` is called with."""
    options = [text for name, length in TIMING.items() for text in (f"--{name}", length)]
    return ["serve", "--store", store, "--redis", redis, "--port", str(port), *options]


def client_arguments(actor: Actor, folder: Path, urls: Sequence[str], redis: str, rate: int) -> list[str]:
    """What a consumer or a producer is called with."""
    given = {
        "name": actor.name,
        "life": actor.life,
        "urls": list(urls),
        "redis": redis,
        "journal": str(folder / f"{actor.life}.jsonl"),
        "stream": STREAM,
        "group": GROUP,
        "members": MEMBERS_A_CONSUMER,
        "batch": BATCH,
        "ms_a_record": 0.1,
        "rate": rate,
    }
    return [json.dumps(given)]


def clock_library() -> str | None:
    """What gives a process a wall clock of its own, where there is such a thing."""
    return next((path for path in CLOCK_LIBRARIES if os.path.exists(path)), None)


@contextlib.contextmanager
def clock_of(place: Path) -> Iterator[None]:
    """What is started meanwhile has the wall clock that the file says."""
    library = clock_library()
    if library is None:
        yield
        return
    given: Mapping[str, str] = {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(place),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_CACHE_DURATION": "1",
        # Without it, threads that wait for Python's lock spin, and everything takes a hundred times as long.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name)
            else:
                os.environ[name] = text
