"""A consumer whose handler does something odd with the first record that it is handed, and handles the others."""

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from streamshard import ConfigurationError, LeaseLost, Message, Producer, StreamApp
from tests.integration.faults.notes import Notes

Oddity: TypeAlias = Callable[[Message], object]


class Odd(BaseException):
    """What nobody expects a handler to raise."""


def leave(message: Message) -> None:
    sys.exit(3)


def throw(message: Message) -> None:
    raise Odd("odd")


def hang(message: Message) -> None:
    threading.Event().wait()


async def cancel_itself(message: Message) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


async def wait_for_what_is_cancelled(message: Message) -> None:
    waiting = asyncio.ensure_future(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(waiting.cancel)
    await waiting


async def swallow(message: Message) -> None:
    while True:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            continue


async def sleep(message: Message) -> None:
    await asyncio.sleep(3_600)


class Forking:
    """Forks a child that uses what its parent had opened."""

    def __init__(self, orders: Producer, notes: Notes, *, blocking: bool) -> None:
        self._orders, self._notes, self._blocking = orders, notes, blocking

    def __call__(self, message: Message) -> None:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        try:
            self._try(LeaseLost, message.ack_blocking if self._blocking else lambda: asyncio.run(message.ack()))
            self._try(ConfigurationError, lambda: asyncio.run(self._publish()))
        finally:
            os._exit(0)

    async def _publish(self) -> None:
        await self._orders.publish("a", {"seq": "of a child"})

    def _try(self, expected: type[Exception], use: Callable[[], object]) -> None:
        try:
            use()
        except expected as error:
            self._notes.note("refused", why=type(error).__name__)
        else:
            self._notes.note("done")


ODDITIES: dict[str, Oddity] = {
    "leaves": leave,
    "throws": throw,
    "hangs": hang,
    "cancels itself": cancel_itself,
    "waits for what is cancelled": wait_for_what_is_cancelled,
    "can't be cancelled": swallow,
    "sleeps": sleep,
}


def main(options: str) -> None:
    """Consume until told to stop."""
    given = json.loads(options)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    notes = Notes(given["notes"])
    app = StreamApp(given["url"], given["redis"], drain_timeout=given["drain"])
    blocking = given["kind"] == "sync"
    forking = Forking(app.producer("orders", "billing"), notes, blocking=blocking)
    oddities: dict[str, Oddity] = {**ODDITIES, "forks": forking}
    oddity = oddities.get(given["oddity"])
    app.listener("orders", group=given["group"], member_id=given["name"], redeliver_after=0.5)(
        in_a_thread(oddity, notes) if blocking else on_the_loop(oddity, notes)
    )
    app.run()


def on_the_loop(oddity: Oddity | None, notes: Notes) -> Callable[[Message], Awaitable[None]]:
    """The handler as a coroutine."""
    odd = [] if oddity is None else [oddity]

    async def handle(message: Message) -> None:
        if odd:
            notes.note("odd", seq=message.text("seq"))
            done = odd.pop()(message)
            if isinstance(done, Awaitable):
                await done
        await message.ack()
        notes.note("acked", **facts(message))

    return handle


def in_a_thread(oddity: Oddity | None, notes: Notes) -> Callable[[Message], None]:
    """The handler as a plain function."""
    odd = [] if oddity is None else [oddity]

    def handle(message: Message) -> None:
        if odd:
            notes.note("odd", seq=message.text("seq"))
            odd.pop()(message)
        message.ack_blocking()
        notes.note("acked", **facts(message))

    return handle


def facts(message: Message) -> dict[str, Any]:
    """What was acknowledged."""
    return {"seq": message.text("seq"), "id": message.id, "key": message.key}


if __name__ == "__main__":
    main(sys.argv[1])
