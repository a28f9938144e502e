"""What many runs come to, in figures; and the one line with which a failure can be had again."""

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from streamshard.testing.simulator.choices import ACTS
from streamshard.testing.simulator.profiles import PROFILES
from streamshard.testing.simulator.running import Outcome
from streamshard.testing.simulator.world import FATES

NAMES_OF_FAULTS = tuple(sorted({*FATES.values(), *(act.kind for act in ACTS.values() if act.kind is not None)}))

SUMMED = ("events", "simulated_ms", "handled", "again", "lost_by_redis", "taken_away", "moves", "overlaps")


@attrs.define
class Tally:
    """The sum of many runs."""

    runs: int = 0
    events: int = 0
    simulated_ms: int = 0
    handled: int = 0
    again: int = 0
    lost_by_redis: int = 0
    taken_away: int = 0
    moves: int = 0
    overlaps: int = 0
    seconds: float = 0.0
    """Of this process's own time."""
    faults: Counter[str] = attrs.field(factory=Counter)
    by_profile: Counter[str] = attrs.field(factory=Counter)
    void: list[str] = attrs.field(factory=list)
    failed: list[Outcome] = attrs.field(factory=list)

    def add(self, outcome: Outcome, seconds: float) -> None:
        """Count one run."""
        self.runs += 1
        self.seconds += seconds
        self.by_profile[outcome.profile] += 1
        self.faults += outcome.faults
        for figure in (
            "events",
            "simulated_ms",
            "handled",
            "again",
            "lost_by_redis",
            "taken_away",
            "moves",
            "overlaps",
        ):
            setattr(self, figure, getattr(self, figure) + getattr(outcome, figure))
        if outcome.void is not None:
            self.void.append(f"seed {outcome.seed} of {outcome.profile}: {outcome.void}")
        if outcome.failure is not None:
            self.failed.append(outcome)

    @property
    def missing(self) -> tuple[str, ...]:
        """Kinds of faults that never happened."""
        return tuple(name for name in NAMES_OF_FAULTS if not self.faults[name])


def tally(total: Tally, runs: Iterable[tuple[int, str]], run: Callable[[int, str], Outcome]) -> Iterator[Outcome]:
    """Carry out runs one after the other, and count them."""
    for seed, profile in runs:
        begun = time.process_time()
        outcome = run(seed, profile)
        total.add(outcome, time.process_time() - begun)
        yield outcome


def repro(outcome: Outcome, version: str) -> str:
    """The one line with which a run can be had again."""
    return f"REPRO: streamshard simulate --seed {outcome.seed} --profile {outcome.profile}  # {version}"


def figures(total: Tally) -> Mapping[str, str]:
    """What there is to say, for people."""
    seconds = max(total.seconds, 0.001)
    hours = total.simulated_ms / 3_600_000
    return {
        "runs": f"{total.runs} ({len(total.void)} void)",
        "profiles": ", ".join(name for name in PROFILES if total.by_profile[name]),
        "simulated": f"{hours:.2f} h, {total.simulated_ms / 1000 / seconds:.0f} times as fast as the clock",
        "events": f"{total.events:,}, {total.events / seconds:,.0f} a second on one core ({platform.python_version()})",
        "records handled": f"{total.handled:,} ({total.again:,} times again)",
        "records lost by Redis": f"{total.lost_by_redis:,}",
        "records taken away by operators": f"{total.taken_away:,}",
        "shards moved": f"{total.moves:,}",
        "faults": f"{sum(total.faults.values()):,} of {len(NAMES_OF_FAULTS) - len(total.missing)} kinds"
        f" ({len(total.missing)} never)",
        "violations": f"{len(total.failed)}",
    }
