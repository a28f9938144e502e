"""What nemeses share: a nemesis is a generator that hurts, yields how many seconds it lasts, and mends."""

import contextlib
import itertools
import signal
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import attrs

from tests.chaos.actors import Actor
from tests.chaos.plan import LEASE_S, MOST_SHARDS
from tests.chaos.stage import NotNow, Stage

EVERY_SHARD = range(MOST_SHARDS)
OUTLASTING_S = 1.5 * LEASE_S


@attrs.define
class Wound:
    """One use of a nemesis, as the ledger will have it."""

    name: str
    began: int = 0
    who: list[str] = attrs.field(factory=list)
    shards: list[int] = attrs.field(factory=list)
    lost_from: int = 0
    lost_to: int = 0

    def forgets(self, shards: list[int]) -> None:
        """Redis keeps every record of these shards, but no longer knows who was given it."""
        self.shards, self.lost_from, self.lost_to = shards, 1, 1

    def loses(self, shards: Iterator[int] | range | list[int], since_s: float = 0.0) -> None:
        """From now on, or since so many seconds, Redis may forget what is written to these shards."""
        self.shards = list(shards)
        self.lost_from = self.lost_from or wall_ms() - round(since_s * 1000)
        self.lost_to = wall_ms()


Nemesis: TypeAlias = Callable[[Stage, Wound], Iterator[float]]


def wall_ms() -> int:
    """The time by which Redis numbers records."""
    return time.time_ns() // 1_000_000


@contextlib.contextmanager
def hurting(stage: Stage, wound: Wound, *actors: Actor) -> Iterator[None]:
    """Nobody else hurts them meanwhile, and the ledger names them."""
    with stage.victims(*(actor.name for actor in actors)):
        wound.who += [actor.life for actor in actors]
        yield


def a_while(stage: Stage, shortest: float, longest: float) -> float:
    """Seconds, the short as likely as the long."""
    return float(shortest * (longest / shortest) ** stage.chance.random())


def kill(kind: str, *, longest_away: float = 5.0) -> Nemesis:
    """kill -9, and a new life a while later."""

    def nemesis(stage: Stage, wound: Wound) -> Iterator[float]:
        actor = stage.idle(kind)
        with hurting(stage, wound, actor):
            stage.kill(actor)
            yield a_while(stage, 0.1, longest_away)
            stage.start(actor)

    return nemesis


def stop(kind: str) -> Nemesis:
    """SIGSTOP, and SIGCONT a while later: every second time only after the lease has long run out."""
    turns = itertools.count()

    def nemesis(stage: Stage, wound: Wound) -> Iterator[float]:
        actor = stage.idle(kind)
        with hurting(stage, wound, actor):
            actor.signal(signal.SIGSTOP)
            try:
                yield a_while(stage, 0.1 if next(turns) % 2 else OUTLASTING_S, stage.plan.longest_stop)
            finally:
                actor.signal(signal.SIGCONT)

    return nemesis


def term(kind: str) -> Nemesis:
    """SIGTERM, and a new life once it has ended."""

    def nemesis(stage: Stage, wound: Wound) -> Iterator[float]:
        actor = stage.idle(kind)
        if not stage.ready(actor):
            raise NotNow
        with hurting(stage, wound, actor):
            yield from ended(stage, actor)
            stage.start(actor)

    return nemesis


def ended(stage: Stage, actor: Actor) -> Iterator[float]:
    """Ask it to end, and wait; who does not end is killed, and the ledger says so."""
    stage.dismiss(actor)
    for _ in range(150):
        if stage.ended(actor):
            return
        yield 0.1
    stage.story.note("ended", who=actor.life, code="none within 15 s")
    stage.kill(actor)
