"""Drives a coordinator's ticks: on time if it can, never in a burst, never dying of one that failed."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from streamshard.core.chronicle import TRIMMED_UNREAD, Event
from streamshard.core.ids import Instant, Millis
from streamshard.core.ports import Clock
from streamshard.core.tally import SLOW, Histogram
from streamshard.entrypoints.digest import Digest
from streamshard.entrypoints.logs import fields
from streamshard.errors import StreamshardError

logger = logging.getLogger(__name__)

ALARMING = frozenset(
    {
        "fence-unbelievable",
        "frozen",
        "lapsed",
        "member-expired",
        "member-fenced",
        TRIMMED_UNREAD,
        "quarantine",
        "recreated",
        "revived",
        "stream-lineage",
        "unread",
        "violation",
    }
)
"""Kinds of events that somebody may have to do something about; the others are told for the record."""

LetPass = Callable[[float], Awaitable[None]]
"""Waits until the requests that are here by now are answered, for at most so many seconds."""


class Ticking(Protocol):
    """What is driven: a coordinator."""

    async def tick(self) -> None:
        """Look at everything once and do what is wanted."""
        ...


class Eventful(Ticking, Protocol):
    """What is driven, and tells what it did."""

    def drain_events(self) -> tuple[Event, ...]:
        """What it changed since it was last asked, oldest first."""
        ...


class Ticker:
    """Calls ``tick`` every ``period_ms``; heartbeats that queued up while the process slept go first."""

    def __init__(self, coordinator: Ticking, clock: Clock, period_ms: Millis, let_pass: LetPass | None = None) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._period_ms = period_ms
        self._let_pass = let_pass
        self._stopping = asyncio.Event()
        self._failures = 0
        self.lateness_ms = Millis(0)
        """How much later than planned the last tick began."""

    async def run(self) -> None:
        """Tick until `stop` was called; a tick under way is finished."""
        due = self._clock.boot()
        while not self._stopping.is_set():
            self._measure(due)
            await self._turn()
            due = self._next(due)
            await self._pause(Millis(due - self._clock.boot()))

    def stop(self) -> None:
        """End `run` after the tick under way."""
        self._stopping.set()

    def _next(self, due: Instant) -> Instant:
        # From the planned time while that is ahead, so that ticks don't drift; else anew, never to catch up.
        planned, now = due + self._period_ms, self._clock.boot()
        return Instant(planned if planned > now else now + self._period_ms)

    def _measure(self, due: Instant) -> None:
        before, self.lateness_ms = self.lateness_ms, Millis(max(0, self._clock.boot() - due))
        if self.lateness_ms > self._period_ms >= before:
            logger.warning("the tick is %d ms late: the process or its machine was held up", self.lateness_ms)

    async def _turn(self) -> None:
        if self._let_pass is not None:
            await self._let_pass(self._period_ms / 1000)
        try:
            await self._coordinator.tick()
        except Exception as error:  # the outermost loop: the next tick asks for everything again
            self._failures += 1
            if self._failures == 1:
                _complain(error)
        else:
            if self._failures:
                logger.info("ticks work again after %d that failed", self._failures)
            self._failures = 0

    async def _pause(self, duration: Millis) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(duration))
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({sleeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (sleeping, stopping):
            task.cancel()
        await asyncio.gather(sleeping, stopping, return_exceptions=True)


def _complain(error: Exception) -> None:
    if isinstance(error, StreamshardError):  # it says all there is to know: a store that is away is no fault of ours
        logger.warning("a tick failed; the next one tries again: %s", error.message)
    else:
        logger.exception("a tick failed; the next one tries again")


class Chronicling:
    """Ticks a coordinator, and logs the changes that this coordinator made since: few lines for many that are alike.

    How long each tick took is noted in ``durations``, for the metrics.
    """

    def __init__(self, coordinator: Eventful, durations: Histogram | None = None) -> None:
        self._coordinator = coordinator
        self._durations = durations or Histogram(SLOW)
        self._digest = Digest()

    async def tick(self) -> None:
        """As the coordinator's own; what it did before it failed is logged too."""
        began = time.perf_counter()
        try:
            await self._coordinator.tick()
        finally:
            self._durations.note(time.perf_counter() - began)
            for line in self._digest.told(self._coordinator.drain_events()):
                about = fields(event=line.kind, stream=line.prefix, group=line.group, shards=line.shards)
                logger.log(logging.WARNING if line.kind in ALARMING else logging.INFO, "%s", line.text, extra=about)


@contextlib.asynccontextmanager
async def ticking(ticker: Ticker) -> AsyncIterator[None]:
    """Run ``ticker`` beside the body; on the way out the tick under way is finished."""
    running = asyncio.create_task(ticker.run(), name="streamshard-ticker")
    try:
        yield
    finally:
        ticker.stop()
        await running
