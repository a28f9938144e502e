"""Appends of many tasks, sent together: a publish costs a share of a round trip, not one of its own."""

import asyncio
from collections import deque
from typing import Any

import attrs
from redis.exceptions import RedisError

from streamshard.adapters.redis_link import describe
from streamshard.adapters.streams.connections import AnswerLost, Command, Connections, NotSent
from streamshard.errors import MaybeWritten, NotWritten

APPENDS_A_ROUND_TRIP = 256


@attrs.frozen(eq=False)
class _Waiting:
    command: Command
    written: "asyncio.Future[Any]"


class Appender:
    """Sends what has gathered while the last round trip was under way; keeps the order of arrival."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: deque[_Waiting] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def append(self, command: Command) -> Any:
        """The server's reply; `NotWritten` if it can't have been carried out, else `MaybeWritten`."""
        entry = _Waiting(command, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        return await entry.written

    async def close(self) -> None:
        """Give up what is under way; its callers hear `MaybeWritten`, those still in line `NotWritten`."""
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.cancel()
            await asyncio.wait([sender])

    async def _send_all(self) -> None:
        try:
            while batch := self._next_batch():
                await self._send(batch)
        finally:
            for entry in self._waiting:
                _settle(entry, NotSent("The connections to Redis are closed"))
            self._waiting.clear()

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < APPENDS_A_ROUND_TRIP:
            entry = self._waiting.popleft()
            if not entry.written.done():
                batch.append(entry)
        return batch

    async def _send(self, batch: list[_Waiting]) -> None:
        outcomes: list[object] = [AnswerLost("The connections to Redis were closed")] * len(batch)
        try:
            outcomes = await self._connections.exchange([entry.command for entry in batch])
        except NotSent as error:
            outcomes = [error] * len(batch)
        finally:
            for entry, outcome in zip(batch, outcomes, strict=True):
                _settle(entry, outcome)


def _settle(entry: _Waiting, outcome: object) -> None:
    if entry.written.done():
        return
    match outcome:
        case NotSent():
            entry.written.set_exception(NotWritten(outcome.message))
        case AnswerLost():
            entry.written.set_exception(MaybeWritten(outcome.message))
        case RedisError():
            entry.written.set_exception(NotWritten(f"Redis refused the record: {describe(outcome)}"))
        case _:
            entry.written.set_result(outcome)
