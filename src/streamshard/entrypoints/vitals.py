"""Says in the log when what a coordinator depends on is gone, and when it is back."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from streamshard.core.ids import Millis
from streamshard.core.ports import Clock
from streamshard.core.queries import Health

logger = logging.getLogger(__name__)

PERIOD_MS = Millis(5_000)


_AILING = {
    "DOWN": "%s does not answer at %s: nothing can be created, granted or scaled until it does",
    "PARTLY_DOWN": "%s at %s has nodes that do not answer: nothing can be created, granted or scaled on them",
    "READ_ONLY": "%s takes no writes at %s: nothing can be created, granted, renewed or scaled until it does",
}


class Measured(Protocol):
    """What is looked after: a coordinator."""

    async def health(self) -> Health:
        """Measure; never raises."""
        ...


class Vitals:
    """Looks every five seconds, and speaks when something has changed.

    ``places`` is where Redis and the store are, as a log may show it.
    """

    def __init__(self, coordinator: Measured, clock: Clock, places: Mapping[str, str]) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._places = places
        self._last: dict[str, str] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(PERIOD_MS)

    async def look(self) -> None:
        """Measure once; log what went down or came back since the last look."""
        health = await self._coordinator.health()
        for name, state in (("Redis", health.redis), ("the metadata store", health.store)):
            before, self._last[name] = self._last.get(name, "UP"), state
            if state in _AILING and state != before:
                logger.warning(_AILING[state], name, self._places[name])
            elif state == "UP" and before in _AILING:
                logger.info("%s answers again at %s", name, self._places[name])


@contextlib.asynccontextmanager
async def watched(vitals: Vitals) -> AsyncIterator[None]:
    """Look beside the body, until it ends."""
    looking = asyncio.create_task(vitals.run(), name="streamshard-vitals")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
