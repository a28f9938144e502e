"""An event loop for a whole program, which ends although something in it goes on for ever."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_LOG = logging.getLogger(__name__)

LAST_WORDS_S = 2.0


def run_to_the_end(main: Coroutine[Any, Any, None]) -> None:
    """Like `asyncio.run`, but a task that does not let itself be cancelled does not keep the process."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(main)
    try:
        loop.run_until_complete(task)
    finally:
        try:
            _finish(loop, task)
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _finish(loop: asyncio.AbstractEventLoop, main: "asyncio.Task[None]") -> None:
    if not main.done():  # an exception that is none of a task's, such as Ctrl-C, went past it
        main.cancel()
        loop.run_until_complete(asyncio.wait([main]))
    loop.run_until_complete(loop.shutdown_asyncgens())
    if loop.run_until_complete(_end_tasks()):
        _LOG.warning("some tasks can't be cancelled: the process ends without them")
        loop.set_exception_handler(lambda loop, context: None)  # that they never ended is said
    else:
        loop.run_until_complete(loop.shutdown_default_executor())


async def _end_tasks() -> bool:
    """Cancel whatever still runs; whether something goes on all the same."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if not tasks:
        return False
    _, going_on = await asyncio.wait(tasks, timeout=LAST_WORDS_S)
    return bool(going_on)
