"""What a handler is given: one record, or several records of one shard."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Protocol, overload

from streamshard.adapters.lives import left_behind
from streamshard.core.ids import RecordId, ShardIndex, Token
from streamshard.core.records import AckMode, Record
from streamshard.errors import LeaseLost


class Settler(Protocol):
    """Settles records of one run.

    Each order raises `LeaseLost` if the right to the shard is gone, `StreamUnavailable` if Redis does not answer.
    """

    async def acknowledge(self, ids: Sequence[RecordId], mode: AckMode) -> None:
        """Acknowledge."""
        ...

    async def give_back(self, ids: Sequence[RecordId]) -> None:
        """Leave pending under nobody's name; raises `ConfigurationError` where the server can't."""
        ...

    async def dead_letter(self, record: Record, reason: str) -> None:
        """Keep the record in the dead-letter stream, and acknowledge it."""
        ...


class Message:
    """A record of a shard, under the lease of the member it was handed to."""

    __slots__ = (
        "_loop",
        "_settler",
        "acknowledged",
        "delivery_count",
        "fencing_token",
        "fields",
        "given_back",
        "id",
        "key",
        "shard",
    )

    def __init__(
        self,
        settler: Settler,
        key: str,
        shard: ShardIndex,
        token: Token,
        record: Record,
    ) -> None:
        self._settler = settler
        self._loop = asyncio.get_running_loop()
        self.key = key
        """The shard's stream key, such as ``orders:3``."""
        self.shard = shard
        self.fencing_token = token
        """For the application's own database: refuse a write under a lower token than the last one seen."""
        self.id, self.delivery_count = record.id, record.deliveries
        self.fields: Mapping[bytes, bytes] = record.fields or {}
        self.acknowledged = False
        self.given_back = False

    def __repr__(self) -> str:
        return f"<Message {self.key} {self.id}>"

    def text(self, field: str, default: str | None = None) -> str:
        """A field as UTF-8 text; raises `KeyError` if it is missing and there is no ``default``."""
        value = self.fields.get(field.encode())
        if value is None:
            if default is None:
                raise KeyError(field)
            return default
        return value.decode()

    async def ack(self) -> None:
        """Acknowledge: no member is handed this record again.

        Raises `LeaseLost` once somebody else may own the shard, `StreamUnavailable` if Redis does not
        answer; the record is then handed over again later.
        """
        if not self.acknowledged:
            await self._settler.acknowledge((self.id,), AckMode.ACK)
            self.acknowledged = True

    async def ack_del(self) -> None:
        """Acknowledge, and delete the record once every group has done so (where the server can)."""
        if not self.acknowledged:
            await self._settler.acknowledge((self.id,), AckMode.ACK_DEL)
            self.acknowledged = True

    async def nack(self) -> None:
        """Give the record back: it comes again soon instead of after ``redeliver_after``; raises as `ack` does.

        Raises `ConfigurationError` where the server has no XNACK (Redis has it from 8.8 on).
        """
        if not self.acknowledged and not self.given_back:
            await self._settler.give_back((self.id,))
            self.given_back = True

    async def dead_letter(self, reason: str) -> None:
        """Give the record up: keep it with the reason in the stream ``PREFIX:dlq``, and acknowledge it.

        Raises as `ack` does; the record is then handed over again later, and may have been kept already.
        """
        if not self.acknowledged:
            await self._settler.dead_letter(Record(self.id, self.fields, self.delivery_count), reason)
            self.acknowledged = True

    def ack_blocking(self) -> None:
        """`ack` for handlers that are plain functions and run in a worker thread."""
        _from_thread(self.ack(), self._loop)

    def ack_del_blocking(self) -> None:
        """`ack_del` for handlers that are plain functions."""
        _from_thread(self.ack_del(), self._loop)

    def nack_blocking(self) -> None:
        """`nack` for handlers that are plain functions."""
        _from_thread(self.nack(), self._loop)

    def dead_letter_blocking(self, reason: str) -> None:
        """`dead_letter` for handlers that are plain functions."""
        _from_thread(self.dead_letter(reason), self._loop)


class Batch(Sequence[Message]):
    """Records of one shard, in id order."""

    def __init__(self, settler: Settler, messages: Sequence[Message]) -> None:
        self._settler = settler
        self._messages = tuple(messages)
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return self._messages[index]

    @property
    def acknowledged(self) -> bool:
        """Every record is."""
        return all(message.acknowledged for message in self._messages)

    async def ack(self) -> None:
        """Acknowledge all records that are not yet, in one round trip; raises as `Message.ack` does."""
        await self._acknowledge(AckMode.ACK)

    async def ack_del(self) -> None:
        """`Message.ack_del` for all records that are not acknowledged yet, in one round trip."""
        await self._acknowledge(AckMode.ACK_DEL)

    async def nack(self) -> None:
        """Give back all records that are not acknowledged; raises as `Message.nack` does."""
        waiting = [message for message in self._messages if not message.acknowledged and not message.given_back]
        if waiting:
            await self._settler.give_back([message.id for message in waiting])
        for message in waiting:
            message.given_back = True

    def ack_blocking(self) -> None:
        """`ack` for handlers that are plain functions and run in a worker thread."""
        _from_thread(self.ack(), self._loop)

    def ack_del_blocking(self) -> None:
        """`ack_del` for handlers that are plain functions."""
        _from_thread(self.ack_del(), self._loop)

    def nack_blocking(self) -> None:
        """`nack` for handlers that are plain functions."""
        _from_thread(self.nack(), self._loop)

    async def _acknowledge(self, mode: AckMode) -> None:
        waiting = [message for message in self._messages if not message.acknowledged]
        if waiting:
            await self._settler.acknowledge([message.id for message in waiting], mode)
        for message in waiting:
            message.acknowledged = True


def _from_thread(settling: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
    """Let the event loop settle, and wait; in the child of a fork there is none that would."""
    if left_behind(loop):
        settling.close()
        raise LeaseLost("this process was forked off: what its parent was handed is the parent's to settle")
    asyncio.run_coroutine_threadsafe(settling, loop).result()
