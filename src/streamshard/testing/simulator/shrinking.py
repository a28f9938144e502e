"""A failure made small: the fewest choices that still break the same invariant, as a test that needs no chance."""

import time
from collections.abc import Iterator, Sequence

import attrs

from streamshard.testing.simulator.choices import Choice
from streamshard.testing.simulator.running import Outcome, replay

SMALLEST_STEP_MS = 100
LINE = 110
MOST_TRIES = 10_000
SIZES_OF_A_WORLD = (0, 1)
"""Which numbers of the first choice can't be 0."""


@attrs.define
class Shrinker:
    """Tries shorter lists of choices until none fails alike, or the time is over."""

    invariant: str
    best: list[Choice]
    until: float
    most: int
    """How many runs to try."""
    tried: int = 0

    def shrink(self) -> list[Choice]:
        """Leave out what is not needed, then make what is left plain; over and over."""
        before: list[Choice] = []
        while self.best != before and self._time_left():
            before = list(self.best)
            self._leave_out_the_idle()
            self._merge()
            self._leave_out()
            self._simplify()
        return self.best

    def _leave_out_the_idle(self) -> None:
        outcome = replay(self.best)
        self._try([choice for number, choice in enumerate(outcome.choices) if number not in outcome.idle])

    def _leave_out(self) -> None:
        # ddmin: ever smaller pieces of what is left, from the end, where most of it is not needed
        size = max(1, (len(self.best) - 1) // 2)
        while True:
            end = len(self.best)
            while end > 1 and self._time_left():
                start = max(1, end - size)
                self._try([*self.best[:start], *self.best[end:]])
                end = min(start, len(self.best))
            if size == 1 or not self._time_left():
                return
            size = max(1, size // 2)

    def _merge(self) -> None:
        place = 1
        while place + 1 < len(self.best) and self._time_left():
            first, second = self.best[place], self.best[place + 1]
            if first[0] == second[0] == "go_on":
                merged = "go_on", int(first[1]) + int(second[1]), *first[2:], *second[2:]
                if self._try([*self.best[:place], merged, *self.best[place + 2 :]]):
                    continue
            place += 1

    def _simplify(self) -> None:
        for place in range(len(self.best)):
            for plainer in _plainer(self.best[place]) if place < len(self.best) else ():
                if not self._time_left():
                    return
                if self._try([*self.best[:place], plainer, *self.best[place + 1 :]]):
                    break

    def _try(self, choices: list[Choice]) -> bool:
        self.tried += 1
        outcome = replay(choices)
        if outcome.failure is None or outcome.invariant != self.invariant:
            return False
        self.best = outcome.choices
        return True

    def _time_left(self) -> bool:
        return time.monotonic() < self.until and self.tried < self.most


def shrink(failed: Outcome, seconds: float = 60, most: int = MOST_TRIES) -> Outcome:
    """The smallest run found within so many seconds and tries that breaks the same invariant."""
    shrinker = Shrinker(failed.invariant, list(failed.choices), time.monotonic() + seconds, most)
    smallest = replay(shrinker.shrink())
    return attrs.evolve(smallest, seed=failed.seed, profile=failed.profile)


def _plainer(choice: Choice) -> Iterator[Choice]:
    name, *numbers = choice
    if name == "go_on":
        yield from _shorter(int(choice[1]), choice[2:])
        return
    for place, number in enumerate(numbers):
        least = 1 if name == "world" and place in SIZES_OF_A_WORLD else 0
        for less in _less(int(number), least):
            yield name, *numbers[:place], less, *numbers[place + 1 :]


def _shorter(duration: int, weather: Choice) -> Iterator[Choice]:
    if weather:
        yield "go_on", duration
        yield "go_on", duration, *weather[:-1]
    for number, fate in enumerate(weather):
        if fate != "GOOD":
            yield "go_on", duration, *weather[:number], "GOOD", *weather[number + 1 :]
    for shorter in (duration // 2 // SMALLEST_STEP_MS * SMALLEST_STEP_MS, duration - SMALLEST_STEP_MS):
        if shorter > 0:
            yield "go_on", shorter, *weather


def _less(number: int, least: int) -> Iterator[int]:
    for less in sorted({least, number // 2, number - 1}):
        if least <= less < number:
            yield less


def as_test(outcome: Outcome) -> str:
    """A pytest module that plays the run again and fails as long as the invariant is broken."""
    told = " ".join((outcome.failure or "").split())[:LINE]
    name = f"seed_{outcome.seed}_of_{outcome.profile.replace('-', '_')}"
    lines = [
        f'"""Found by `streamshard simulate --seed {outcome.seed} --profile {outcome.profile}`."""',
        "",
        "from streamshard.testing.simulator import Choice, replay",
        "",
        f"# {told}",
        "CHOICES: list[Choice] = [",
        *(f"    {_written(choice)}," for choice in outcome.choices),
        "]",
        "",
        "",
        f"def test_nothing_is_broken_by_{name}() -> None:",
        "    assert replay(CHOICES).failure is None",
        "",
    ]
    return "\n".join(lines)


def _written(choice: Sequence[str | int]) -> str:
    inner = ", ".join(f'"{part}"' if isinstance(part, str) else str(part) for part in choice)
    return f"({inner},)" if len(choice) == 1 else f"({inner})"
