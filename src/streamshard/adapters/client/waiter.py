"""Waiting for new records on many shards with few connections."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import attrs

from streamshard.core.ids import Millis, RecordId
from streamshard.core.ports import Scattered, ShardLog
from streamshard.errors import StreamUnavailable

LONGEST_WAIT, SHORTEST_WAIT = Millis(1_000), Millis(20)
WITHOUT_SLOT_S = 0.1
MOST_WAITS = 8
TURNS_AHEAD = 3
MOST_UNHEARD = 3
"""How often a wait tells of a shard that nobody is idle on before it leaves it out."""


@runtime_checkable
class Pointing(Protocol):
    """What a `ShardLog` may offer besides: to tell which keys a wait ended for; the others need no look then."""

    async def wait_for_news(self, after: Mapping[str, RecordId], timeout: Millis) -> Mapping[str, RecordId]:
        """As `ShardLog.wait`; the keys that have a record after their id, and the id of the first."""
        ...


@attrs.frozen(eq=False)
class _Idle:
    key: str
    after: RecordId
    woken: "asyncio.Future[bool]"


@attrs.define(eq=False)
class _Wait:
    """One blocking read. A shard that it told of stays in it, from there on, if it is likely to be idle there soon."""

    after: dict[str, RecordId]
    idle: list[_Idle]
    unheard: dict[str, int] = attrs.field(factory=dict)


class Waiter:
    """Shards that are idle at the same time share one blocking read; those that come later get another.

    So a shard that falls idle does not sit out the wait of the others. All waits end together once a second, and
    everybody is woken: then they share one again. With all waits taken, a shard is woken after 100 ms to look for
    itself. Being woken promises nothing: a fenced read follows. Shards that are scattered over servers are waited
    for one by one, all at the same time.
    """

    def __init__(self, log: ShardLog, most_waits: int = MOST_WAITS) -> None:
        self._log = log
        self._most = most_waits
        self._scattered = isinstance(log, Scattered)
        self._pointing = log if isinstance(log, Pointing) else None
        self._idle: list[_Idle] = []
        self._waits: dict[asyncio.Task[None], _Wait] = {}

    def idle(self, key: str, after: RecordId) -> "asyncio.Future[bool]":
        """A future that is done when ``key`` may have a record after ``after``, within about a second.

        True: nobody else was woken with it.
        """
        loop = asyncio.get_running_loop()
        entry = _Idle(key, after, loop.create_future())
        if self._scattered:
            self._begin(_Wait({key: after}, [entry]))
        elif not self._join(entry):
            self._idle.append(entry)
            if len(self._waits) < self._most:
                # Others may fall idle in the same turn of the loop: they share the wait.
                loop.call_soon(self._launch)
            else:
                loop.call_later(WITHOUT_SLOT_S, _wake, [entry])
        return entry.woken

    async def close(self) -> None:
        """End all waits, and wake everybody."""
        for task in self._waits:
            task.cancel()
        await asyncio.gather(*self._waits, return_exceptions=True)
        _wake(self._idle)

    def _join(self, entry: _Idle) -> bool:
        """Whether a wait that is under way is for just this."""
        for wait in self._waits.values() if self._pointing else ():
            if wait.after.get(entry.key) == entry.after:
                wait.idle.append(entry)
                wait.unheard.pop(entry.key, None)
                return True
        return False

    def _launch(self) -> None:
        self._idle = [entry for entry in self._idle if not entry.woken.done()]
        if not self._idle or len(self._waits) >= self._most:
            return
        together = {entry.key: entry for entry in self._idle}
        chosen = list(together.values())
        self._idle = [entry for entry in self._idle if entry not in chosen]
        self._begin(_Wait({entry.key: entry.after for entry in chosen}, chosen))

    def _begin(self, wait: _Wait) -> None:
        task = asyncio.get_running_loop().create_task(self._hold(wait))
        self._waits[task] = wait
        task.add_done_callback(self._over)

    async def _hold(self, wait: _Wait) -> None:
        try:
            if self._pointing is None:
                await self._log.wait(wait.after, LONGEST_WAIT)
                return
            while news := await self._pointing.wait_for_news(wait.after, _until_all_wake()):
                self._tell(wait, news)
                for _ in range(TURNS_AHEAD):
                    await asyncio.sleep(0)  # whoever was woken reads first
                if not wait.after:
                    return
        except StreamUnavailable:
            # The reads that follow meet the same trouble, and back off.
            await asyncio.sleep(WITHOUT_SLOT_S)
        finally:
            wait.after.clear()  # it is over: nobody may join it any more
            _wake(wait.idle)

    def _tell(self, wait: _Wait, news: Mapping[str, RecordId]) -> None:
        """Wake those that the news are for; take in those that came meanwhile."""
        heard = {entry.key for entry in wait.idle if not entry.woken.done()}
        _wake([entry for entry in wait.idle if entry.key in news])
        wait.idle = [entry for entry in wait.idle if not entry.woken.done()]
        for key, first in news.items():
            wait.after[key] = first
            wait.unheard[key] = 0 if key in heard else wait.unheard.get(key, 0) + 1
            if wait.unheard[key] >= MOST_UNHEARD:
                del wait.after[key], wait.unheard[key]
        for entry in [entry for entry in self._idle if entry.key not in wait.after and not entry.woken.done()]:
            self._idle.remove(entry)
            wait.idle.append(entry)
            wait.after[entry.key] = entry.after

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._waits[task]
        if self._idle and not task.cancelled():
            self._launch()


def _until_all_wake() -> Millis:
    """All waits end at full seconds of the loop's clock; one that would end at once lasts until the next."""
    left = LONGEST_WAIT - int(asyncio.get_running_loop().time() * 1000) % LONGEST_WAIT
    return Millis(left if left > SHORTEST_WAIT else LONGEST_WAIT)


def _wake(entries: Sequence[_Idle]) -> None:
    for entry in entries:
        if not entry.woken.done():
            entry.woken.set_result(len(entries) == 1)
