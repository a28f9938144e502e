"""Acknowledgements of what is handled, on their way while the next records are handled already."""

import asyncio
from collections.abc import Callable, Sequence

from streamshard.adapters.client.message import Message, Settler
from streamshard.core.records import AckMode
from streamshard.errors import LeaseLost, StreamUnavailable


class LateAcks:
    """Those of one run: one order at a time is under way, and meanwhile the next gathers, up to ``most`` records.

    ``failed`` hears of those that could not be acknowledged.
    """

    def __init__(self, settler: Settler, most: int, failed: Callable[[list[Message], Exception], None]) -> None:
        self._settler, self._most, self._failed = settler, most, failed
        self._waiting: list[Message] = []
        self._sender: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        """Handle nothing more before `settled`."""
        return len(self._waiting) >= self._most

    def add(self, messages: Sequence[Message]) -> None:
        """Acknowledge soon those that are not acknowledged or given back."""
        self._waiting += [message for message in messages if not (message.acknowledged or message.given_back)]
        if self._waiting and self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def settled(self) -> None:
        """Return when nothing waits or is under way."""
        while self._sender is not None:
            await asyncio.shield(self._sender)

    def cancel(self) -> None:
        """Give up what is under way."""
        if self._sender is not None:
            self._sender.cancel()

    async def _send(self) -> None:
        try:
            while self._waiting:
                messages, self._waiting = self._waiting, []
                await self._acknowledge(messages)
        finally:
            self._sender = None

    async def _acknowledge(self, messages: list[Message]) -> None:
        try:
            await self._settler.acknowledge([message.id for message in messages], AckMode.ACK)
        except (LeaseLost, StreamUnavailable) as error:
            self._failed(messages, error)
            return
        for message in messages:
            message.acknowledged = True
