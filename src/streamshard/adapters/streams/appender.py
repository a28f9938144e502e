"""Appends of many tasks, sent together: a publish costs a share of a round trip, not one of its own."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import attrs

from streamshard.adapters.streams.connections import AnswerLost, Command, Connections, NotSent, pack

COMMANDS_A_ROUND_TRIP = 1_024
BYTES_A_ROUND_TRIP = 1_000_000


@attrs.define(eq=False)  # made for every record: frozen, it would cost three times as much
class _Order:
    """Commands of one caller, which travel together."""

    packed: bytes
    count: int
    answer: "asyncio.Future[list[object]]"


class Appending(Protocol):
    """Whatever sends orders of many tasks together."""

    async def append(self, commands: Sequence[Command]) -> list[object]:
        """For each command its reply, its `RedisError`, `NotSent`, or `AnswerLost`; raises none of them."""
        ...

    async def close(self) -> None:
        """Give up what is under way; idempotent."""
        ...


class Appender:
    """Sends what has gathered while the last round trip was under way; keeps the order of arrival."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: deque[_Order] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def append(self, commands: Sequence[Command]) -> list[object]:
        """For each command its reply, its `RedisError`, `NotSent`, or `AnswerLost`; raises none of them.

        Those with `AnswerLost` are the last ones. A caller that is cancelled while in line sends nothing.
        """
        order = _Order(pack(commands), len(commands), asyncio.get_running_loop().create_future())
        self._waiting.append(order)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        return await order.answer

    async def close(self) -> None:
        """Give up what is under way; its callers hear `AnswerLost`, those still in line `NotSent`."""
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.cancel()
            await asyncio.wait([sender])

    async def _send_all(self) -> None:
        try:
            while batch := self._next_batch():
                await self._send(batch)
        finally:
            self._dismiss(NotSent("The connections to Redis are closed"))

    def _dismiss(self, error: NotSent) -> None:
        """Send nothing of what is in line."""
        for order in self._waiting:
            _settle(order, [error] * order.count)
        self._waiting.clear()

    def _next_batch(self) -> list[_Order]:
        batch: list[_Order] = []
        count = size = 0
        while self._waiting and count < COMMANDS_A_ROUND_TRIP and size < BYTES_A_ROUND_TRIP:
            order = self._waiting.popleft()
            if not order.answer.done():
                batch.append(order)
                count += order.count
                size += len(order.packed)
        return batch

    async def _send(self, batch: list[_Order]) -> None:
        count = sum([order.count for order in batch])
        outcomes: list[object] = [AnswerLost("The connections to Redis were closed")] * count
        try:
            outcomes = await self._connections.exchange_packed(b"".join([order.packed for order in batch]), count)
        except NotSent as error:
            outcomes = [error] * count
            self._dismiss(error)  # they have waited long enough for a server that can't be had
        finally:
            first = 0
            for order in batch:
                _settle(order, outcomes[first : first + order.count])
                first += order.count


def _settle(order: _Order, outcomes: list[object]) -> None:
    if not order.answer.done():
        order.answer.set_result(outcomes)
