"""Repeated troubles, said once in a while."""

import logging

from streamshard.core.ids import Millis
from streamshard.core.ports import Clock

EVERY = Millis(30_000)


class Grumble:
    """Logs a kind of trouble at most once per 30 s, with how often it was left unsaid."""

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._said: dict[str, int] = {}
        self._unsaid: dict[str, int] = {}

    def say(self, kind: str, message: str, level: int = logging.WARNING, error: BaseException | None = None) -> None:
        """Log ``message``, and the traceback of ``error``, unless ``kind`` was logged lately."""
        now = self._clock.boot()
        if kind in self._said and now - self._said[kind] < EVERY:
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return
        self._said[kind] = now
        unsaid = self._unsaid.pop(kind, 0)
        more = f" ({unsaid} more like it)" if unsaid else ""
        self._logger.log(level, "%s%s", message, more, exc_info=error)
