"""Asking one watch after the other: never often, whatever a coordinator or a proxy on the way answers."""

import asyncio
import logging

from streamshard.adapters.client.noise import Grumble
from streamshard.core.ids import Instant, Millis
from streamshard.core.notices import GroupWatch, LayoutWatch
from streamshard.core.ports import Clock, Entropy, Watching
from streamshard.core.replies import News
from streamshard.errors import GroupNotFound, StreamNotFound, StreamshardError, Unavailable

_LOG = logging.getLogger(__name__)

WAIT = Millis(25_000)
GRACE_S = 10.0
LEAST_PAUSE_MS = 50
CUT_SHORT_MS = 1_000
"""An answer without news that comes sooner than this was no held one."""

FIRST_BACKOFF_MS = 500
LONGEST_BACKOFF_MS = 30_000
ABSENT_MS = 3_000
UNKNOWN_MS = 60_000
"""How long a coordinator that does not know of watches is left alone."""


class Ear:
    """One line of watches; `hear` is called again and again, and waits as long as it has to."""

    def __init__(self, api: Watching, clock: Clock, entropy: Entropy) -> None:
        self._api, self._clock, self._entropy = api, clock, entropy
        self._not_before = Instant(0)
        self._troubles = 0
        self._grumble = Grumble(_LOG, clock)

    async def hear(self, watch: GroupWatch | LayoutWatch) -> News | None:
        """The next answer; None after trouble, of which nothing depends."""
        await self._clock.sleep(Millis(max(0, self._not_before - self._clock.boot())))
        asked_at = self._clock.boot()
        self._pause(LEAST_PAUSE_MS, asked_at)
        try:
            async with asyncio.timeout(WAIT / 1000 + GRACE_S):
                news = await self._api.watch(watch, WAIT)
        except (StreamshardError, TimeoutError) as error:
            self._suffer(error)
            return None
        if not news.changed and self._clock.boot() < asked_at + CUT_SHORT_MS:
            self._back_off()
        else:
            self._troubles = 0
        return news

    def spare(self) -> None:
        """The last answer led nowhere: ask later."""
        self._back_off()

    def _suffer(self, error: Exception) -> None:
        match error:
            case StreamNotFound() | GroupNotFound():
                self._pause(ABSENT_MS, self._clock.boot())
            case Unavailable() | TimeoutError():
                self._back_off()
            case _:
                self._pause(UNKNOWN_MS, self._clock.boot())
        self._grumble.say("watch", f"a watch failed, so changes are noticed later: {error}", logging.DEBUG)

    def _back_off(self) -> None:
        self._troubles += 1
        pause = min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS << min(self._troubles - 1, 8))
        self._pause(int(pause * (0.5 + self._entropy.fraction())), self._clock.boot())

    def _pause(self, duration: int, now: Instant) -> None:
        self._not_before = Instant(now + duration)
