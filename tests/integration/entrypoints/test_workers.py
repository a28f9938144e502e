"""Threads for handlers that are plain functions."""

import asyncio
import contextvars
import threading

import pytest

from streamshard.entrypoints.workers import Workers

WHO = contextvars.ContextVar("WHO", default="nobody")


def test_threads_are_used_again_and_no_more_are_made_than_allowed() -> None:
    names: list[str] = []

    def work() -> int:
        names.append(threading.current_thread().name)
        return len(names)

    async def scenario() -> None:
        workers = Workers(2, "test")
        assert await workers.run(work) == 1
        assert await workers.run(work) == 2
        await asyncio.gather(*(workers.run(work) for _ in range(20)))
        workers.close()

    asyncio.run(scenario())
    assert set(names) <= {"test-1", "test-2"}
    assert names[:2] == ["test-1", "test-1"]


def test_what_is_raised_and_the_context_get_across() -> None:
    async def scenario() -> None:
        workers = Workers(1, "test")
        WHO.set("me")
        assert await workers.run(WHO.get) == "me"
        with pytest.raises(ZeroDivisionError):
            await workers.run(lambda: 1 / 0)
        workers.close()

    asyncio.run(scenario())


def test_a_cancelled_wait_lasts_until_the_thread_is_done_unless_it_is_abandoned() -> None:
    async def scenario() -> None:
        workers = Workers(1, "test")
        go_on, begun = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            go_on.wait()

        task = asyncio.create_task(workers.run(work))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()

        workers.abandon()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        workers.close()

    asyncio.run(scenario())
