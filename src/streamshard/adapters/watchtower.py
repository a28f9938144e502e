"""Holds watches open on one event loop: one wake-up per commit, however many wait.

What this coordinator commits or reads itself wakes the waiters at once. What others commit is found by
asking the store, while somebody waits, for the versions of the watched records: one question for all of
them, some twenty times a second. A store that can't be asked that leaves it to the ticks.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol, runtime_checkable

import attrs

from streamshard.core.commands import Heartbeat
from streamshard.core.ids import GroupKey, Millis
from streamshard.core.notices import Listener, Watch, Watched
from streamshard.core.ports import CoordinatorApi
from streamshard.core.replies import HeartbeatReply, News, Routing
from streamshard.errors import StreamshardError, Terminating

PACE_S = 0.04
TROUBLED_PACE_S = 1.0
MOST_WAITERS = 20_000
"""Whoever comes when so many wait is answered at once, that there is no news."""


class Lookout(Protocol):
    """What is asked: a coordinator's `watches`."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each key whose record changed."""
        ...

    async def look(self, watch: Watch) -> News:
        """Judge by what the store has now."""
        ...

    def glance(self, watch: Watch) -> News | None:
        """Judge by what is in hand; None if nothing is."""
        ...

    async def refresh(self, keys: Collection[Watched]) -> bool:
        """Take in what others have changed; False if that can't be done."""
        ...


@runtime_checkable
class Watchable(CoordinatorApi, Protocol):
    """A coordinator that can be asked what changed."""

    @property
    def watches(self) -> Lookout:
        """Whom to ask."""
        ...


@attrs.frozen(eq=False)
class _Waiter:
    watch: Watch
    news: "asyncio.Future[News | None]"

    def hear(self, lookout: Lookout) -> None:
        """Answer if there is news, or if there is nothing to go by any more."""
        if self.news.done():
            return
        try:
            found = lookout.glance(self.watch)
        except StreamshardError as error:
            self.news.set_exception(error)
            return
        if found is None or found.changed:
            self.news.set_result(found)


class Watchtower:
    """`Watching` over a coordinator of this event loop; needs no closing, `close` only hastens the end."""

    def __init__(self, lookout: Lookout, *, pace_s: float = PACE_S, most_waiters: int = MOST_WAITERS) -> None:
        self._lookout = lookout
        self._pace_s = pace_s
        self._most = most_waiters
        self._waiting: dict[Watched, set[_Waiter]] = {}
        self._count = 0
        self._noted: set[Watched] = set()
        self._polling: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def watch(self, watch: Watch, wait: Millis) -> News:
        """Answer as soon as there is news, or after ``wait``; raises `NotFound`, `InvalidRequest`, `Terminating`."""
        if self._closed:
            raise _terminating()
        news = await self._lookout.look(watch)
        if news.changed or wait <= 0 or self._count >= self._most:
            return news
        # Nothing is awaited from the look's judgement until the waiter is listed, so nothing is missed.
        return await self._wait(watch, wait) or await self._lookout.look(watch)

    def close(self) -> None:
        """Turn everybody away who waits, and who comes; from any thread, or a signal's handler."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._turn_away)

    async def _wait(self, watch: Watch, wait: Millis) -> News | None:
        self._begin()
        waiter = _Waiter(watch, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(watch.watched, set()).add(waiter)
        self._count += 1
        self._keep_polling()
        try:
            async with asyncio.timeout(wait / 1000):
                return await waiter.news
        except TimeoutError:
            return self._lookout.glance(watch)
        finally:
            self._leave(waiter)

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._closed:
            raise _terminating()
        if self._unsubscribe is None:
            self._unsubscribe = self._lookout.subscribe(self._note)

    def _leave(self, waiter: _Waiter) -> None:
        self._count -= 1
        waiting = self._waiting[waiter.watch.watched]
        waiting.discard(waiter)
        if not waiting:
            del self._waiting[waiter.watch.watched]
        if not self._count and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _note(self, key: Watched) -> None:
        if key not in self._waiting or self._loop is None:
            return
        if not self._noted:
            self._loop.call_soon(self._answer)
        self._noted.add(key)

    def _answer(self) -> None:
        noted, self._noted = self._noted, set()
        for waiters in [self._waiting[key] for key in self._waiting if key in noted]:
            for waiter in waiters:
                waiter.hear(self._lookout)

    def _keep_polling(self) -> None:
        if self._polling is None or self._polling.done():
            self._polling = asyncio.get_running_loop().create_task(self._poll(), name="streamshard-watchtower")

    async def _poll(self) -> None:
        pause = self._pace_s
        while self._waiting:
            await asyncio.sleep(pause)
            try:
                if not await self._lookout.refresh(tuple(self._waiting)):
                    return
                pause = self._pace_s
            except StreamshardError:  # the store is away, or a record can't be read: the ticks say so
                pause = TROUBLED_PACE_S

    def _turn_away(self) -> None:
        for waiter in [waiter for waiters in self._waiting.values() for waiter in waiters]:
            if not waiter.news.done():
                waiter.news.set_exception(_terminating())


class WatchedCoordinator:
    """A coordinator of this process with its watches, as members and producers ask it."""

    def __init__(self, coordinator: Watchable) -> None:
        self._coordinator = coordinator
        self._tower = Watchtower(coordinator.watches)

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        """As the coordinator's own."""
        return await self._coordinator.heartbeat(key, beat)

    async def routing(self, key: GroupKey) -> Routing:
        """As the coordinator's own."""
        return await self._coordinator.routing(key)

    async def watch(self, watch: Watch, wait: Millis) -> News:
        """As the tower's own."""
        return await self._tower.watch(watch, wait)


def _terminating() -> Terminating:
    return Terminating("this coordinator is shutting down: ask another one, or this one again in a moment")
