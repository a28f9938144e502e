"""The thread that keeps members alive: heartbeats are never behind a handler, a read or a lock."""

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from streamshard.adapters.client.convoy import Convoy
from streamshard.adapters.client.ear import Ear
from streamshard.adapters.client.member import Answering, Member
from streamshard.adapters.client.watcher import Watcher
from streamshard.core.ids import GroupKey
from streamshard.core.ports import Batching, CoordinatorApi, Watching

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[CoordinatorApi]]

_ALIVE: "weakref.WeakSet[Membership]" = weakref.WeakSet()


class Membership:
    """All logical members of a process, on one thread with its own event loop and its own connections.

    ``connect`` is called on that thread. In the child of a fork every member owns nothing: make a new
    membership there.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._members: list[Member] = []
        self._watchers: dict[GroupKey, tuple[Watcher, asyncio.Task[None]]] = {}
        self._api: CoordinatorApi | None = None
        self._ready: Future[tuple[asyncio.AbstractEventLoop, Answering]] = Future()
        self._closing: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._work, name="streamshard-membership", daemon=True)

    def start(self) -> None:
        """Begin; returns once the thread's loop runs."""
        self._thread.start()
        _ALIVE.add(self)
        self._ready.result()

    def add(self, member: Member) -> "Future[None]":
        """Let ``member`` join; the future is done when it has left or was rejected."""
        loop, api = self._ready.result()
        self._members.append(member)
        loop.call_soon_threadsafe(self._watch_for, member)
        return asyncio.run_coroutine_threadsafe(member.run(api), loop)

    def close(self) -> None:
        """End the thread; members that have not left are silent from now on, and expire. Idempotent."""
        if not self._thread.is_alive() or self._closing is None:
            return
        loop, _ = self._ready.result()
        loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def forget(self) -> None:
        """Own nothing any more: the thread stayed behind in the parent process."""
        for member in self._members:
            member.forget()

    def _work(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
                return
            raise

    async def _serve(self) -> None:
        self._closing = asyncio.Event()
        async with self._connect() as api, contextlib.AsyncExitStack() as ending:
            self._api, beats = api, self._beats(api, ending)
            ending.push_async_callback(self._stop_watching)
            self._ready.set_result((asyncio.get_running_loop(), beats))
            await self._closing.wait()

    def _beats(self, api: CoordinatorApi, ending: contextlib.AsyncExitStack) -> Answering:
        if not isinstance(api, Batching):
            return api
        convoy = Convoy(api, self._muster)
        ending.push_async_callback(convoy.close)
        return convoy

    def _muster(self) -> None:
        for member in tuple(self._members):
            member.come_along()

    def _watch_for(self, member: Member) -> None:
        if not isinstance(self._api, Watching):
            return
        watcher, task = self._watchers.get(member.key, (None, None))
        if watcher is None or task is None or task.done():
            watcher = Watcher(member.key, Ear(self._api, member.clock, member.entropy))
            watcher.enlist(member)
            self._watchers[member.key] = watcher, asyncio.create_task(watcher.run(), name=f"watch of {member.key}")
        else:
            watcher.enlist(member)

    async def _stop_watching(self) -> None:
        tasks = [task for _, task in self._watchers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _forget_all() -> None:
    for membership in list(_ALIVE):
        membership.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
