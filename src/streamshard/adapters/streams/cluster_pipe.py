"""The one connection to a node of a cluster that orders of many tasks share."""

import asyncio
from collections.abc import Callable, Sequence

from streamshard.adapters.redis_link import Address
from streamshard.adapters.redis_url import Place
from streamshard.adapters.streams.appender import Appender
from streamshard.adapters.streams.connections import Command, Connections
from streamshard.core.ids import Millis

LATE_S = 1.0


class Pipe:
    """Sends what has gathered while the last round trip was under way.

    ``late`` is called each second in which the node is asked and does not answer: whether it has been
    replaced meanwhile only others can tell.
    """

    def __init__(self, place: Place, address: Address, timeout: Millis, late: Callable[[Address], None]) -> None:
        self.address = address
        self._connections = Connections(place.at(address), limit=1, timeout=timeout)
        self._appender = Appender(self._connections)
        self._late = late
        self._under_way = 0
        self._heard_at = 0.0
        self._watch: asyncio.TimerHandle | None = None

    async def exchange(self, commands: Sequence[Command]) -> list[object]:
        """For each command its reply, its `RedisError`, `NotSent`, or `AnswerLost`; raises none of them."""
        loop = asyncio.get_running_loop()
        if self._under_way == 0:
            self._heard_at = loop.time()
        if self._watch is None:
            self._watch = loop.call_later(LATE_S, self._look)
        self._under_way += 1
        try:
            return await self._appender.append(commands)
        finally:
            self._under_way -= 1
            self._heard_at = loop.time()

    @property
    def answering(self) -> bool:
        """Somebody waits for the node, and it has not been silent for long."""
        if not self._under_way:
            return False
        return asyncio.get_running_loop().time() - self._heard_at < LATE_S

    async def close(self) -> None:
        """Give up what is under way, and let go of the connection; idempotent."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        await self._appender.close()
        await self._connections.close()

    def _look(self) -> None:
        self._watch = None
        if not self._under_way:
            return
        loop = asyncio.get_running_loop()
        if loop.time() - self._heard_at >= LATE_S:
            self._late(self.address)
        self._watch = loop.call_later(LATE_S / 2, self._look)
