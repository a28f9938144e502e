"""Which requests are being answered, so that a tick can let them pass and a stop can turn them away."""

import asyncio
import itertools
from collections.abc import Callable

from streamshard.entrypoints.http.metrics_recorder import Recorder


class Traffic:
    """Counts requests in and out; once `close` was called new ones are turned away.

    ``recorder`` is what the answers are counted and timed in; it is shared with whoever counts the rest.
    """

    def __init__(self, recorder: Recorder | None = None) -> None:
        self.recorder = recorder or Recorder()
        self._open: dict[int, asyncio.Event | None] = {}
        self._tickets = itertools.count()
        self._closing: list[Callable[[], None]] = []
        self.closed = False

    def when_closed(self, call: Callable[[], None]) -> None:
        """Call ``call`` once new requests are turned away; it has to be safe in a signal's handler."""
        self._closing.append(call)

    def close(self) -> None:
        """Turn new requests away from now on; those under way are finished."""
        self.closed = True
        for call in self._closing:
            call()

    @property
    def busy(self) -> bool:
        """Whether anybody waits for an answer."""
        return bool(self._open)

    def enter(self) -> int:
        """A request has come; hand its ticket to `leave`."""
        ticket = next(self._tickets)
        self._open[ticket] = None
        return ticket

    def leave(self, ticket: int) -> None:
        """The request is answered."""
        waiting = self._open.pop(ticket, None)
        if waiting is not None:
            waiting.set()

    def stand_aside(self, ticket: int) -> None:
        """The request is held open until something happens: nobody is to wait for its answer."""
        self.leave(ticket)

    async def let_pass(self, limit_s: float) -> None:
        """Return once every request that is here by now has been answered, or after ``limit_s`` seconds."""
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
        last = next(self._tickets)
        try:
            async with asyncio.timeout(limit_s):
                await self._until_answered(last)
        except TimeoutError:
            return

    async def _until_answered(self, last: int) -> None:
        while (oldest := next(iter(self._open), last)) < last:
            event = self._open[oldest] or asyncio.Event()
            self._open[oldest] = event
            await event.wait()


_ROUNDS = 4
"""Turns of the loop from bytes in a socket to a request under way: read, start the task, enter."""
