"""What a handler is given: one record, or several records of one shard."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, overload

from streamshard.core.ids import RecordId, ShardIndex, Token
from streamshard.core.records import AckMode


class Settler(Protocol):
    """Acknowledges records of one run."""

    async def acknowledge(self, ids: Sequence[RecordId], mode: AckMode) -> None:
        """Raise `LeaseLost` if the right to the shard is gone, `StreamUnavailable` if Redis does not answer."""
        ...


class Message:
    """A record of a shard, under the lease of the member it was handed to."""

    __slots__ = ("_loop", "_settler", "acknowledged", "delivery_count", "fencing_token", "fields", "id", "key", "shard")

    def __init__(
        self,
        settler: Settler,
        key: str,
        shard: ShardIndex,
        token: Token,
        record: tuple[RecordId, Mapping[bytes, bytes], int],
    ) -> None:
        self._settler = settler
        self._loop = asyncio.get_running_loop()
        self.key = key
        """The shard's stream key, such as ``orders:3``."""
        self.shard = shard
        self.fencing_token = token
        """For the application's own database: refuse a write under a lower token than the last one seen."""
        self.id, self.fields, self.delivery_count = record
        self.acknowledged = False

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
        await self._settle(AckMode.ACK)

    async def ack_del(self) -> None:
        """Acknowledge, and delete the record once every group has done so (where the server can)."""
        await self._settle(AckMode.ACK_DEL)

    def ack_blocking(self) -> None:
        """`ack` for handlers that are plain functions and run in a worker thread."""
        asyncio.run_coroutine_threadsafe(self.ack(), self._loop).result()

    async def _settle(self, mode: AckMode) -> None:
        if not self.acknowledged:
            await self._settler.acknowledge((self.id,), mode)
            self.acknowledged = True


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
        waiting = [message for message in self._messages if not message.acknowledged]
        if waiting:
            await self._settler.acknowledge([message.id for message in waiting], AckMode.ACK)
        for message in waiting:
            message.acknowledged = True

    def ack_blocking(self) -> None:
        """`ack` for handlers that are plain functions and run in a worker thread."""
        asyncio.run_coroutine_threadsafe(self.ack(), self._loop).result()
