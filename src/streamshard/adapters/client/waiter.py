"""Waiting for new records on many shards with few connections."""

import asyncio

import attrs

from streamshard.core.ids import Millis, RecordId
from streamshard.core.ports import Scattered, ShardLog
from streamshard.errors import StreamUnavailable

LONGEST_WAIT = Millis(1_000)
WITHOUT_SLOT_S = 0.1
MOST_WAITS = 8


@attrs.frozen(eq=False)
class _Idle:
    key: str
    after: RecordId
    woken: "asyncio.Future[None]"


class Waiter:
    """Shards that are idle at the same time share one blocking read; those that come later get another.

    So a shard that falls idle does not sit out the wait of the others. With all waits taken, a shard is
    woken after 100 ms to look for itself. Being woken promises nothing: a fenced read follows. Shards that
    are scattered over servers are waited for one by one, all at the same time.
    """

    def __init__(self, log: ShardLog, most_waits: int = MOST_WAITS) -> None:
        self._log = log
        self._most = most_waits
        self._scattered = isinstance(log, Scattered)
        self._idle: list[_Idle] = []
        self._waits: set[asyncio.Task[None]] = set()

    def idle(self, key: str, after: RecordId) -> "asyncio.Future[None]":
        """A future that is done when ``key`` may have a record after ``after``, within about a second."""
        loop = asyncio.get_running_loop()
        entry = _Idle(key, after, loop.create_future())
        if self._scattered:
            self._begin([entry])
            return entry.woken
        self._idle.append(entry)
        if len(self._waits) < self._most:
            # Others may fall idle in the same turn of the loop: they share the wait.
            loop.call_soon(self._launch)
        else:
            loop.call_later(WITHOUT_SLOT_S, _wake, [entry])
        return entry.woken

    async def close(self) -> None:
        """End all waits, and wake everybody."""
        for wait in self._waits:
            wait.cancel()
        await asyncio.gather(*self._waits, return_exceptions=True)
        _wake(self._idle)

    def _launch(self) -> None:
        self._idle = [entry for entry in self._idle if not entry.woken.done()]
        if not self._idle or len(self._waits) >= self._most:
            return
        together = {entry.key: entry for entry in self._idle}
        chosen = list(together.values())
        self._idle = [entry for entry in self._idle if entry not in chosen]
        self._begin(chosen)

    def _begin(self, chosen: list[_Idle]) -> None:
        wait = asyncio.get_running_loop().create_task(self._wait(chosen))
        self._waits.add(wait)
        wait.add_done_callback(self._over)

    async def _wait(self, chosen: list[_Idle]) -> None:
        try:
            await self._log.wait({entry.key: entry.after for entry in chosen}, LONGEST_WAIT)
        except StreamUnavailable:
            # The reads that follow meet the same trouble, and back off.
            await asyncio.sleep(WITHOUT_SLOT_S)
        finally:
            _wake(chosen)

    def _over(self, wait: asyncio.Task[None]) -> None:
        self._waits.discard(wait)
        if self._idle and not wait.cancelled():
            self._launch()


def _wake(entries: list[_Idle]) -> None:
    for entry in entries:
        if not entry.woken.done():
            entry.woken.set_result(None)
