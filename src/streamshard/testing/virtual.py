"""An event loop whose time stands still until a test lets it pass."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeVar, TypeVarTuple

from streamshard.core.ids import Instant, Millis, WallMillis

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")

THREAD_WAIT_S = 0.05
MOST_TURNS = 1_000_000
"""Turns of the loop without a rest, after which something is taken to spin."""


class _Selector(selectors.DefaultSelector):
    """Asked to wait, it says that the loop is idle instead; it waits only for threads."""

    def __init__(self, idle: Callable[[float | None], None], threads: Callable[[], int]) -> None:
        super().__init__()
        self._idle, self._threads = idle, threads

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        found = super().select(THREAD_WAIT_S if self._threads() else 0)
        if not found and not self._threads():
            self._idle(timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Timers fire when `advance` has gone so far, whatever the machine is doing; threads are waited for."""

    def __init__(self) -> None:
        self._now = 0.0
        self._next_in: float | None = None
        self._in_threads = 0
        self._turns = 0
        self._pool = ThreadPoolExecutor(thread_name_prefix="streamshard-test")
        super().__init__(_Selector(self._rest, lambda: self._in_threads))
        self.set_default_executor(self._pool)

    def time(self) -> float:
        """Seconds as passed so far."""
        self._turns += 1
        if self._turns > MOST_TURNS:
            raise RuntimeError("the event loop never comes to rest: something in it spins without waiting")
        return self._now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Arguments], _Result], *args: *_Arguments
    ) -> "asyncio.Future[_Result]":
        """As every loop does; time stands still, and the loop does not rest, until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._out_of_thread)
        return future

    def settle(self) -> None:
        """Run everything that is due at this moment."""
        self._turns = 0
        self.run_forever()

    def advance(self, seconds: float) -> None:
        """Let time pass, from one timer to the next."""
        if seconds < 0:
            raise ValueError("time never runs backwards")
        target = self._now + seconds
        self.settle()
        while self._next_in is not None and self._now + self._next_in <= target:
            self._now += self._next_in
            self.settle()
        self._now = target
        self.settle()

    def finish(self, work: Coroutine[Any, Any, _Result], within: float) -> _Result:
        """Run ``work`` to its end, letting up to ``within`` seconds pass; `TimeoutError` if that is too little."""
        task = self.create_task(work)
        ends_at = self._now + within
        self.settle()
        while not task.done():
            if self._next_in is None or self._now + self._next_in > ends_at:
                task.cancel()
                self.settle()
                raise TimeoutError(f"not done within {within} s: it waits for more time to pass, or for nothing")
            self._now += self._next_in
            self.settle()
        return task.result()

    def end(self) -> None:
        """Cancel what still runs, and close."""
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.settle()
        self.finish(self.shutdown_asyncgens(), 0)
        self._pool.shutdown()
        self.close()

    def _rest(self, next_in: float | None) -> None:
        self._next_in = next_in
        self.stop()

    def _out_of_thread(self, _: object) -> None:
        self._in_threads -= 1


class LoopClock:
    """The `Clock` of a `VirtualLoop`."""

    def __init__(self, loop: VirtualLoop, wall: int = 1_700_000_000_000) -> None:
        self._loop = loop
        self._wall = wall

    def boot(self) -> Instant:
        """The loop's time in milliseconds."""
        return Instant(int(self._loop.time() * 1000 + 1e-6))

    def wall(self) -> WallMillis:
        """The same, counted from a moment in 2023."""
        return WallMillis(self._wall + self.boot())

    async def sleep(self, duration: Millis) -> None:
        """Wait until so much time was let pass."""
        await asyncio.sleep(duration / 1000)
