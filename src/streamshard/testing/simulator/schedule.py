"""Chance: what happens next, from a seed. Nothing else in a run depends on it."""

import heapq
import math
import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from streamshard.testing.simulator.choices import ACTS, Act, Choice
from streamshard.testing.simulator.profiles import GOES_ON, Profile
from streamshard.testing.simulator.world import World

T = TypeVar("T")

SHARE_OF_KINDS = 0.75
"""Not every kind of fault happens in every run: some only show where others don't interfere."""
QUIET_START_MS = 2_500
PACES_MS = (100, 100, 200, 300, 500)


class Schedule:
    """The choices of one run; the same for the same seed and profile, whatever the Python."""

    def __init__(self, seed: int, profile: Profile) -> None:
        self._profile = profile
        self._random = random.Random(f"{profile.name}:{seed}")
        self._intensity = math.exp(self._between(math.log(0.3), math.log(3.0)))
        self._rates = {
            name: rate for name, rate in sorted(profile.rates.items()) if self._random.random() < SHARE_OF_KINDS
        }
        if not any(ACTS[name].kind is not None for name in self._rates):
            self._rates = dict(sorted(profile.rates.items()))
        self._agenda: list[tuple[int, int, Choice]] = []
        self._planned = 0
        self.shards = self._whole(*profile.shards)
        self.members = self._whole(*profile.members)

    def beginning(self) -> Choice:
        """The world that all happens in."""
        coordinators = self._whole(*self._profile.coordinators)
        return "world", self.shards, coordinators, self._whole(0, 1), int(self._profile.illegal)

    def choices(self, world: World) -> Iterator[Choice]:
        """What happens in that world, to its end."""
        for number in range(self.members):
            yield "a_member_starts", number
        yield ("producers_start_or_stop",)
        yield "go_on", QUIET_START_MS
        if self._profile.steady:
            yield ("members_stay",)
        until = world.now + int(self._between(*self._profile.chaos_ms)) // 100 * 100
        yield from self._one_fault(world, until) if self._profile.once else self._chaos(world, until)
        if not self._profile.steady:
            yield "a_core_is_healed", self._whole(0, 11), self._whole(0, 11)
        yield ("all_is_healed",)

    def _chaos(self, world: World, until: int) -> Iterator[Choice]:
        while world.now < until:
            pace = self._of(PACES_MS)
            yield from self._due(world.now)
            yield from self._befalls(world.now, pace)
            yield "go_on", pace, *self._weather(len(world.alive) * pace // 300)

    def _one_fault(self, world: World, until: int) -> Iterator[Choice]:
        yield "go_on", self._whole(0, 20) * 100
        acts = [name for name in sorted(self._profile.rates) if ACTS[name].kind is not None]
        which = self._whole(0, len(acts) + len(self._profile.fates) - 1)
        if which < len(acts):
            yield self._begin(ACTS[acts[which]], world.now)
        else:
            yield "go_on", 600, self._profile.fates[which - len(acts)].value
        while world.now < until:
            yield from self._due(world.now)
            yield "go_on", self._of(PACES_MS)
            if world.network.letters:
                yield "a_late_heartbeat_arrives", self._whole(0, 11), self._whole(0, 11), 0

    def _befalls(self, now: int, pace: int) -> Iterator[Choice]:
        for name, rate in self._rates.items():
            if self._random.random() < rate * self._intensity * pace / 1000:
                yield self._begin(ACTS[name], now)
        for name, rate in GOES_ON.items():
            if self._random.random() < rate * pace / 1000:
                yield self._begin(ACTS[name], now)

    def _begin(self, act: Act, now: int) -> Choice:
        if act.ended_by is not None:
            shortest, longest = act.lasts_ms
            after = int(math.exp(self._between(math.log(shortest), math.log(longest))))
            end = ACTS[act.ended_by]
            self._planned += 1
            heapq.heappush(self._agenda, (now + after, self._planned, self._draw(end)))
        return self._draw(act)

    def _due(self, now: int) -> Iterator[Choice]:
        while self._agenda and self._agenda[0][0] <= now:
            yield heapq.heappop(self._agenda)[2]

    def _draw(self, act: Act) -> Choice:
        return act.name, *(self._of(values) for values in act.draws)

    def _weather(self, beats: int) -> list[str]:
        share = min(0.9, self._profile.bad_weather * self._intensity)
        if not share:
            return []
        fates = ["GOOD" if self._random.random() >= share else self._fate() for _ in range(beats + 1)]
        while fates and fates[-1] == "GOOD":
            fates.pop()
        return fates

    def _fate(self) -> str:
        return self._of([fate.value for fate in self._profile.fates])

    # only `random()` is the same in every version of Python for certain

    def _between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()

    def _whole(self, low: int, high: int) -> int:
        return low + int(self._random.random() * (high - low + 1))

    def _of(self, values: Sequence[T]) -> T:
        return values[int(self._random.random() * len(values))]
