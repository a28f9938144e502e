"""Limits in fixed windows, with counters that can't grow without end."""

from collections.abc import Callable, Hashable

import attrs

from streamshard.errors import RateLimited

MOST_KEYS = 10_000
"""Counters in a window; who comes later shares one."""


@attrs.frozen
class Limit:
    """So many in so many seconds."""

    count: int
    seconds: float


class FixedWindow:
    """Counts by key; all counters begin anew with each window."""

    def __init__(self, limit: Limit, now: Callable[[], float], most: int = MOST_KEYS) -> None:
        self._limit = limit
        self._now = now
        self._most = most
        self._number = 0
        self._counts: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def check(self, key: Hashable) -> None:
        """Raise `RateLimited` if the key has used up its window."""
        self._turn()
        if self._counts.get(self._counter(key), 0) >= self._limit.count:
            wait = max(1, round((self._number + 1) * self._limit.seconds - self._now() + 0.5))
            raise too_many(f"too many: {self._limit.count} in {self._limit.seconds:g} s are let through", wait)

    def count(self, key: Hashable) -> None:
        """One more."""
        self._turn()
        counter = self._counter(key)
        self._counts[counter] = self._counts.get(counter, 0) + 1

    def take(self, key: Hashable) -> None:
        """Count, unless that raises."""
        self.check(key)
        self.count(key)

    def _turn(self) -> None:
        number = int(self._now() // self._limit.seconds)
        if number != self._number:
            self._number = number
            self._counts.clear()

    def _counter(self, key: Hashable) -> Hashable:
        return key if key in self._counts or len(self._counts) < self._most else None


def too_many(message: str, wait_s: int) -> RateLimited:
    """What is said to who has to wait so many seconds."""
    return RateLimited(message, {"retryAfterSeconds": wait_s})
