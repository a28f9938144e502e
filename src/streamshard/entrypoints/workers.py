"""Threads for handlers that are plain functions."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias

_Work: TypeAlias = tuple["Future[Any]", Callable[[], Any]]


class Workers:
    """At most ``most`` threads, made when they are needed.

    They are daemons, unlike those of the standard library's pool: a process must be able to end although a
    handler hangs.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0
        self._abandoned = False

    async def run(self, call: Callable[[], Any]) -> Any:
        """Call in a thread, and wait to its end, also when cancelled.

        A thread can't be broken off, so what it works for must not count as finished before.
        """
        running: Future[Any] = Future()
        self._submit((running, partial(contextvars.copy_context().run, call)))
        future = asyncio.wrap_future(running)
        while True:
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                if future.done() or self._abandoned:
                    future.cancel()
                    raise

    def abandon(self) -> None:
        """Wait for nothing any more that is cancelled: the process is about to end."""
        self._abandoned = True

    def close(self) -> None:
        """Let the threads end that have nothing to do."""
        for _ in range(self._count):
            self._work.put(None)

    def _submit(self, work: _Work) -> None:
        self._work.put(work)
        if not self._idle.acquire(blocking=False) and self._count < self._most:
            self._count += 1
            threading.Thread(target=self._serve, name=f"{self._name}-{self._count}", daemon=True).start()

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            _perform(*work)
            self._idle.release()


def _perform(running: "Future[Any]", call: Callable[[], Any]) -> None:
    if not running.set_running_or_notify_cancel():
        return
    try:
        running.set_result(call())
    except BaseException as error:  # the thread's outermost frame: whatever it is, it belongs to whoever waits
        running.set_exception(error)
