"""Time and randomness that a test decides about."""

import bisect
import random
import types
from collections.abc import Generator

from streamshard.core.ids import Instant, Millis, Nonce, WallMillis


class ManualClock:
    """A `Clock` that moves only when told to.

    `sleep` suspends with a bare ``yield`` until `advance` has gone far enough, so that a coroutine may
    be driven by ``send(None)`` without an event loop; under asyncio a sleeper is polled at every turn
    of the loop.
    """

    def __init__(self, boot: int = 0, wall: int = 1_700_000_000_000) -> None:
        self._boot = boot
        self._wall = wall
        self._wakeups: list[int] = []

    def boot(self) -> Instant:
        """Milliseconds as set."""
        return Instant(self._boot)

    def wall(self) -> WallMillis:
        """Milliseconds as set."""
        return WallMillis(self._wall)

    async def sleep(self, duration: Millis) -> None:
        """Wait until the boot clock has been advanced by so much; no wait at all for 0 and less."""
        wakeup = self._boot + duration
        bisect.insort(self._wakeups, wakeup)
        try:
            while self._boot < wakeup:
                await _suspend()
        finally:
            self._wakeups.remove(wakeup)

    def advance(self, duration: int) -> None:
        """Let so many milliseconds pass on both clocks."""
        if duration < 0:
            raise ValueError("a boot clock never runs backwards: only the wall clock can be stepped")
        self._boot += duration
        self._wall += duration

    def step_wall(self, by: int) -> None:
        """Let the wall clock alone jump, backwards if negative."""
        self._wall += by

    def next_wakeup(self) -> Instant | None:
        """When the first of those who sleep wants to go on; None if nobody sleeps."""
        return Instant(self._wakeups[0]) if self._wakeups else None


@types.coroutine
def _suspend() -> Generator[None, None, None]:
    yield


class SeededEntropy:
    """An `Entropy` that says the same things again for the same seed."""

    def __init__(self, seed: int | str = 0) -> None:
        self._random = random.Random(seed)

    def nonce(self) -> Nonce:
        """128 bits, in hex."""
        return Nonce(f"{self._random.getrandbits(128):032x}")

    def fraction(self) -> float:
        """Uniform in [0, 1)."""
        return self._random.random()
