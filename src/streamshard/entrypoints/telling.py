"""The application's callbacks, plain or async: told in order, and none can do harm."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

_LOG = logging.getLogger(__name__)

LAST_WORDS_S = 2.0

Telling: TypeAlias = Callable[[], Awaitable[None] | None]


class Tellings:
    """A plain callback has run when `tell` returns; async ones run one after another. What they raise is logged."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: asyncio.Task[None] | None = None

    def tell(self, telling: Telling) -> None:
        """Call it; on the event loop."""
        try:
            awaitable = telling()
        except (Exception, SystemExit):  # the outermost frame of this library around the application's callback
            self._complain()
            return
        if inspect.isawaitable(awaitable):
            self._last = asyncio.get_running_loop().create_task(self._follow(self._last, awaitable))

    async def close(self) -> None:
        """Let async callbacks end that are under way, for two seconds."""
        last = self._last
        if last is None or last.done():
            return
        _, late = await asyncio.wait([last], timeout=LAST_WORDS_S)
        for task in late:
            _LOG.warning("%s: a callback still runs at the end, and is broken off", self._name)
            task.cancel()
            await asyncio.wait([task])

    async def _follow(self, earlier: "asyncio.Task[None] | None", awaitable: Awaitable[None]) -> None:
        if earlier is not None and not earlier.done():
            await asyncio.wait([earlier])
        try:
            await awaitable
        except (Exception, SystemExit):  # the outermost frame of this library around the application's callback
            self._complain()

    def _complain(self) -> None:
        _LOG.exception("%s: a callback failed", self._name)
