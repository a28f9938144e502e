"""The member's and the producer's side of shards in memory; only `wait` suspends."""

import asyncio
from collections.abc import Mapping, Sequence

from streamshard.adapters.streams.memory_world import Fence, MemoryStreams, Stream
from streamshard.adapters.streams.record_ids import id_order, id_text
from streamshard.adapters.streams.values import check_max_len
from streamshard.core.ids import Millis, RecordId, Token, stream_key
from streamshard.core.records import (
    Abilities,
    Access,
    AckMode,
    AckReply,
    Append,
    ClaimReply,
    DeliveryReply,
    ReadReply,
    ShardAccess,
)
from streamshard.core.values import encode_fields
from streamshard.errors import InvalidRequest, NotWritten, StreamUnavailable

FARTHEST_STEP = 10**13
TOO_HIGH = 2**53
NOBODY = ""


class MemoryShardLog:
    """`ShardLog` over a `MemoryStreams`."""

    def __init__(self, world: MemoryStreams) -> None:
        self._world = world

    async def read(self, wanted: Sequence[tuple[ShardAccess, int]]) -> tuple[ReadReply, ...]:
        """Take at most so many new records of each shard."""
        self._world.check_up()
        return tuple([self._read(access, count) for access, count in wanted])

    async def claim(self, access: ShardAccess, start: RecordId, count: int) -> ClaimReply:
        """Take over a page of what is pending, whoever's name it is under."""
        return self._claim(access, start, count, counting=1)

    async def survey(self, access: ShardAccess, start: RecordId, count: int) -> ClaimReply:
        """As `claim`, but nothing counts as delivered."""
        return self._claim(access, start, count, counting=0)

    async def deliver(self, access: ShardAccess, ids: Sequence[RecordId]) -> DeliveryReply:
        """Count one more delivery of each."""
        self._world.check_up()
        stream = self._enter(access)
        if isinstance(stream, Access):
            return DeliveryReply(stream)
        pending = stream.groups[access.group].pending
        wanted = [entry for entry in map(id_order, ids) if entry in pending]
        records = stream.take_over(access.group, access.consumer, wanted)
        counts = {record.id: record.deliveries for record in records if record.fields is not None}
        return DeliveryReply(Access.OK, counts)

    async def give_back(self, access: ShardAccess, ids: Sequence[RecordId]) -> AckReply:
        """Leave records pending under nobody's name."""
        self._world.check_up()
        stream = self._enter(access)
        if isinstance(stream, Access):
            return AckReply(stream)
        pending = stream.groups[access.group].pending
        given = [entry for entry in map(id_order, ids) if entry in pending]
        for entry in given:
            pending[entry].consumer = NOBODY
        return AckReply(Access.OK, len(given))

    async def bury(self, key: str, fields: Mapping[bytes, bytes]) -> RecordId:
        """Add a record to a stream, which is made if there is none."""
        self._world.check_up()
        self._world.create_foreign(key)
        added = self._world.add(key, fields)
        assert added is not None
        return added

    async def abilities(self) -> Abilities:
        """Everything."""
        return Abilities("streams in memory", deletes_acknowledged=True, gives_back=True)

    async def acknowledge(self, access: ShardAccess, ids: Sequence[RecordId], mode: AckMode) -> AckReply:
        """Acknowledge records."""
        self._world.check_up()
        stream = self._enter(access)
        if isinstance(stream, Access):
            return AckReply(stream)
        pending = stream.groups[access.group].pending
        acknowledged = [entry for entry in map(id_order, ids) if pending.pop(entry, None) is not None]
        if mode is AckMode.ACK_DEL:
            for entry in acknowledged:
                stream.delete_if_acknowledged(entry)
        return AckReply(Access.OK, len(acknowledged))

    async def wait(self, after: Mapping[str, RecordId], timeout: Millis) -> None:
        """Return when one of these keys has a record after its id, or on the timeout."""
        self._world.check_up()
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def look() -> None:
            if self._has_news(after):
                loop.call_soon_threadsafe(woken.set)

        self._world.listen(look)
        try:
            look()
            async with asyncio.timeout(max(timeout, 0) / 1000):
                await woken.wait()
        except TimeoutError:
            return
        finally:
            self._world.unlisten(look)

    async def append(
        self, key: str, fields: Mapping[str | bytes, str | bytes | int | float], max_len: int | None
    ) -> RecordId | None:
        """Add a record to an existing key."""
        check_max_len(max_len)
        (written,) = await self.append_many([Append(key, encode_fields(fields), max_len)])
        if isinstance(written, NotWritten):
            raise written
        return written

    async def append_many(self, records: Sequence[Append]) -> list[RecordId | None | NotWritten]:
        """Add each in turn."""
        return [self._append(record) for record in records]

    async def drop_consumer(self, access: ShardAccess) -> bool:
        """Delete the consumer's name if nothing is pending under it."""
        self._world.check_up()
        stream = self._world.streams.get(stream_key(access.prefix, access.shard))
        group = stream.groups.get(access.group) if stream is not None else None
        if group is None:
            return True
        if group.held_by(access.consumer):
            return False
        group.consumers.discard(access.consumer)
        return True

    async def close(self) -> None:
        """Nothing to let go of."""

    def _append(self, record: Append) -> RecordId | None | NotWritten:
        try:
            return self._world.add(record.key, record.fields, record.max_len)
        except StreamUnavailable as error:
            return NotWritten(error.message)

    def _claim(self, access: ShardAccess, start: RecordId, count: int, *, counting: int) -> ClaimReply:
        if count < 1:
            raise InvalidRequest(f"count: must be at least 1, not {count}")
        self._world.check_up()
        stream = self._enter(access)
        if isinstance(stream, Access):
            return ClaimReply(stream)
        group = stream.groups[access.group]
        waiting = sorted(entry for entry in group.pending if entry >= id_order(start))
        records = stream.take_over(access.group, access.consumer, waiting[:count], counting)
        cursor = id_text(waiting[count]) if len(waiting) > count else None
        return ClaimReply(Access.OK, records, cursor, id_text(group.last_delivered))

    def _read(self, access: ShardAccess, count: int) -> ReadReply:
        stream = self._enter(access)
        if isinstance(stream, Access):
            return ReadReply(stream)
        records = stream.deliver(access.group, access.consumer, max(count, 0))
        return ReadReply(Access.OK, records, id_text(stream.groups[access.group].last_delivered))

    def _enter(self, access: ShardAccess) -> Stream | Access:
        # Past the fence, with the mark raised; or why not.
        key = stream_key(access.prefix, access.shard)
        fence, stream = self._world.fences.get(key) or Fence(), self._world.streams.get(key)
        mark = fence.tokens.get(access.group, Token(0))
        if fence.sealed_in(access.generation) or (fence.generation or 0) > access.generation:
            return Access.SEALED
        if access.token < mark or _is_absurd(access.token, mark):
            return Access.FENCED
        earlier_life = (fence.generation or access.generation) < access.generation
        if earlier_life or stream is None or access.group not in stream.groups:
            return Access.MISSING
        fence.tokens[access.group] = access.token
        self._world.fences[key] = fence
        return stream

    def _has_news(self, after: Mapping[str, RecordId]) -> bool:
        streams = self._world.streams
        return any(key in streams and streams[key].after(id_order(last)) for key, last in after.items())


def _is_absurd(token: Token, mark: Token) -> bool:
    return token >= TOO_HIGH or 0 < mark < token - FARTHEST_STEP
