"""The thread that keeps members alive: heartbeats are never behind a handler, a read or a lock."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from streamshard.adapters.client.member import Member
from streamshard.core.ports import CoordinatorApi

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
        self._ready: Future[tuple[asyncio.AbstractEventLoop, CoordinatorApi]] = Future()
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
        async with self._connect() as api:
            self._ready.set_result((asyncio.get_running_loop(), api))
            await self._closing.wait()


def _forget_all() -> None:
    for membership in list(_ALIVE):
        membership.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
