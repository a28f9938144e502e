"""A run: from a seed with chance, or from a list of choices without."""

from collections import Counter
from collections.abc import Iterable

import attrs

from streamshard.core.stream import Retention
from streamshard.errors import StreamshardError
from streamshard.testing.checkers import Violation
from streamshard.testing.simulator import endings, hostile, hosts, passing, people, shards, storing
from streamshard.testing.simulator.choices import ACTS, Choice
from streamshard.testing.simulator.profiles import PROFILES
from streamshard.testing.simulator.schedule import Schedule
from streamshard.testing.simulator.world import World

DEFINE_ACTS = (endings, hostile, hosts, passing, people, shards, storing)
RETENTIONS = tuple(Retention)
WENT_WRONG = (ArithmeticError, AssertionError, AttributeError, LookupError, StreamshardError, TypeError, ValueError)
"""What no coordinator, member or producer may raise, whatever happens to it."""


@attrs.define
class Outcome:
    """What came of a run."""

    choices: list[Choice] = attrs.field(factory=list)
    idle: set[int] = attrs.field(factory=set)
    """Which of the choices changed nothing."""
    profile: str = ""
    seed: int = 0
    failure: str | None = None
    """The invariant that does not hold, and how; None if all do."""
    digest: str = ""
    """Of everything that happened: the same for the same run, on every Python."""
    events: int = 0
    simulated_ms: int = 0
    handled: int = 0
    again: int = 0
    lost_by_redis: int = 0
    taken_away: int = 0
    moves: int = 0
    overlaps: int = 0
    faults: Counter[str] = attrs.field(factory=Counter)

    @property
    def invariant(self) -> str:
        """The failure's first word."""
        return (self.failure or "").partition(":")[0]

    @property
    def void(self) -> str | None:
        """Why the run says nothing: it was not what it was meant to be."""
        if self.failure is not None:
            return None
        if not self.handled:
            return "no record was handled"
        if self.profile != "calm" and not self.faults:
            return "no fault happened"
        return None


class Play:
    """A world in which one choice after the other is carried out, and judged."""

    def __init__(self) -> None:
        self.outcome = Outcome()
        self._world: World | None = None

    @property
    def world(self) -> World:
        """The one that the first choice made."""
        assert self._world is not None, "the first choice makes the world"
        return self._world

    def do(self, choice: Choice) -> None:
        """Carry a choice out; raises `Violation`, or whatever else went wrong."""
        self.outcome.choices.append(choice)
        name, *numbers = choice
        if name == "world":
            shards_, coordinators, retention, illegal = (int(number) for number in numbers)
            self._world = World(shards_, coordinators, RETENTIONS[retention % len(RETENTIONS)], illegal)
            return
        act, world = ACTS[str(name)], self.world
        world.note(repr(choice))
        if act.do(world, *numbers):
            world.events += 1
            if act.kind is not None:
                world.faults[act.kind] += 1
        else:
            self.outcome.idle.add(len(self.outcome.choices) - 1)
        world.hear_answers()
        world.check()

    def attempt(self, choices: Iterable[Choice]) -> Outcome:
        """Carry all of them out, up to the first that goes wrong."""
        try:
            for choice in choices:
                self.do(choice)
        except Violation as violation:
            self.outcome.failure = str(violation)
        except WENT_WRONG as error:
            self.outcome.failure = f"{type(error).__name__}: {error}"
        return self.sum_up()

    def sum_up(self) -> Outcome:
        """The figures."""
        outcome, world = self.outcome, self._world
        if world is None:
            return outcome
        outcome.digest = world.history.hexdigest()
        outcome.events, outcome.simulated_ms, outcome.faults = world.events, world.now, world.faults
        accounts = world.accounts
        outcome.handled = sum(map(len, accounts.handled.values())) + sum(map(len, accounts.earlier.values()))
        outcome.again, outcome.lost_by_redis = accounts.again, accounts.lost_by_redis
        outcome.taken_away, outcome.moves, outcome.overlaps = accounts.taken_away, world.books.moves, world.overlaps
        return outcome


def simulate(seed: int, profile: str) -> Outcome:
    """One run of a profile, all of it decided by the seed."""
    chosen = PROFILES[profile]
    schedule, play = Schedule(seed, chosen), Play()
    play.outcome.seed, play.outcome.profile = seed, profile
    first = schedule.beginning()

    def choices() -> Iterable[Choice]:
        yield first
        yield from schedule.choices(play.world)

    return play.attempt(choices())


def replay(choices: Iterable[Choice]) -> Outcome:
    """The same again, from what was chosen; raises nothing."""
    return Play().attempt(choices)
