"""Whether an application's event loop turns, as its members' other thread sees it."""

import asyncio
import logging

from streamshard.adapters.client.noise import Grumble
from streamshard.core.ids import Instant, Millis
from streamshard.core.ports import Clock

_LOG = logging.getLogger(__name__)


class Pulse:
    """Asked with every heartbeat; what it waits for costs the loop one callback."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, grumble: Grumble) -> None:
        self._loop, self._clock, self._grumble = loop, clock, grumble
        self._asked_at: Instant | None = None

    def feel(self, patience: Millis) -> None:
        """Ask for a sign of life; warn if there was none to the last question for longer than ``patience``."""
        now, asked_at = self._clock.boot(), self._asked_at
        if asked_at is not None:
            if now - asked_at > patience:
                self._grumble.say(
                    "stalled",
                    f"the event loop has not turned for {(now - asked_at) / 1000:.1f} s, so nothing is read: something "
                    "blocks it, such as a handler that computes or waits without await; make that one a plain function",
                )
            return
        self._asked_at = now
        try:
            self._loop.call_soon_threadsafe(self._beat)
        except RuntimeError:
            _LOG.debug("the application's loop is closed: it has no pulse")

    def _beat(self) -> None:
        self._asked_at = None
        self._grumble.over("stalled", "the event loop turns again")
