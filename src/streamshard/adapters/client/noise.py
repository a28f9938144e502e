"""Repeated troubles, said once in a while."""

import logging

from streamshard.core.ids import Instant, Millis
from streamshard.core.ports import Clock

EVERY = Millis(30_000)
TRACEBACK_EVERY = Millis(600_000)


class Grumble:
    """Logs a kind of trouble at most once per 30 s, with how often it was left unsaid, and once when it is over.

    Whatever shares one, such as all shards and members of an app, is one voice: an outage that everybody
    suffers from is said once.
    """

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._said: dict[str, Instant] = {}
        self._unsaid: dict[str, int] = {}
        self._traced: dict[str, Instant] = {}
        self._open: set[str] = set()

    def say(self, kind: str, message: str, level: int = logging.WARNING, error: BaseException | None = None) -> None:
        """Log ``message`` unless ``kind`` was logged lately; the traceback of ``error`` once per ten minutes."""
        now = self._clock.boot()
        if _lately(self._said, kind, now, EVERY):
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return
        self._said[kind] = now
        self._open.add(kind)
        unsaid = self._unsaid.pop(kind, 0)
        more = f" ({unsaid} more like it)" if unsaid else ""
        self._logger.log(level, "%s%s", message, more, exc_info=self._trace(kind, now, error))

    def over(self, kind: str, message: str) -> None:
        """Log ``message`` if ``kind`` was said since this was last asked."""
        if kind in self._open:
            self._open.discard(kind)
            self._logger.info("%s", message)

    def _trace(self, kind: str, now: Instant, error: BaseException | None) -> BaseException | None:
        if error is None or _lately(self._traced, kind, now, TRACEBACK_EVERY):
            return None
        self._traced[kind] = now
        return error


def _lately(times: dict[str, Instant], kind: str, now: Instant, within: Millis) -> bool:
    return kind in times and now - times[kind] < within
