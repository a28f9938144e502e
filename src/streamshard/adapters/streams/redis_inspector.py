"""Looking into shards in Redis or Valkey: whatever is asked is one round trip, to each node of a cluster."""

from collections.abc import Callable, Sequence
from typing import Any

from streamshard.adapters.streams.connections import DEFAULT_TIMEOUT, Command, Connections, Exchanging, address, value
from streamshard.adapters.streams.scripts import load, run, shard_look
from streamshard.adapters.streams.understanding import understood
from streamshard.core.ids import GroupName, Millis, RecordId, ShardIndex, StreamPrefix, stream_key
from streamshard.core.inspection import Direction, Entry, GroupLook, Page, ShardLook, Wanted


class RedisStreamInspector:
    """`StreamInspector` over connections of its own, so that curiosity never holds up the coordinator's work."""

    def __init__(self, connections: Exchanging, where: Callable[[str], str | None]) -> None:
        self._connections = connections
        self._where = where

    @classmethod
    def from_url(
        cls, url: str, *, max_connections: int = 2, timeout: Millis = DEFAULT_TIMEOUT
    ) -> "RedisStreamInspector":
        """Connect on first use; raises `ConfigurationError` for a URL that is none."""
        node = address(url)
        return cls(Connections(url, limit=max_connections, timeout=timeout), lambda key: node)

    async def look(self, prefix: StreamPrefix, shards: Sequence[ShardIndex], group: GroupName) -> tuple[ShardLook, ...]:
        """Look at shards, all in one pipeline."""
        calls = [shard_look(load("inspect"), prefix, shard, group) for shard in shards]
        replies = [value(outcome) for outcome in await run(self._connections, calls)]
        nodes = [self._where(stream_key(prefix, shard)) for shard in shards]
        return tuple(_look(*seen) for seen in zip(shards, replies, nodes, strict=True))

    async def pages(self, prefix: StreamPrefix, shards: Sequence[ShardIndex], wanted: Wanted) -> tuple[Page, ...]:
        """Read one record more than asked for, to know whether there are more."""
        commands = [_range(stream_key(prefix, shard), wanted) for shard in shards]
        replies = [value(outcome) for outcome in await self._connections.exchange(commands)] if commands else []
        return tuple(_page(reply, wanted.limit) for reply in replies)

    async def close(self) -> None:
        """Let go of every connection; idempotent."""
        await self._connections.close()


def _range(key: str, wanted: Wanted) -> Command:
    count, cursor = wanted.limit + 1, wanted.cursor
    if wanted.direction is Direction.FORWARD:
        return ("XRANGE", key, "-" if cursor is None else f"({cursor}", "+", "COUNT", count)
    return ("XREVRANGE", key, "+" if cursor is None else f"({cursor}", "-", "COUNT", count)


@understood
def _page(reply: Any, limit: int) -> Page:
    entries = tuple(_entry(raw) for raw in reply)
    return Page(entries[:limit], entries[limit - 1].id if len(entries) > limit else None)


def _entry(raw: Any) -> Entry:
    record, flat = raw
    return Entry(RecordId(record.decode()), tuple(zip(flat[::2], flat[1::2], strict=True)))


@understood
def _look(shard: ShardIndex, reply: Any, node: str | None) -> ShardLook:
    exists, now, *more = reply
    if not exists:
        return ShardLook(shard, exists=False, node=node, now_ms=int(now))
    length, first, last, generated, memory, group = more
    return ShardLook(
        shard=shard,
        exists=True,
        length=length,
        first_id=_id(first),
        last_id=_id(last),
        last_generated=_id(generated),
        group=None if group is None else _group(group),
        node=node,
        memory_bytes=memory,
        now_ms=int(now),
    )


def _group(reply: Any) -> GroupLook:
    last_delivered, pending, lag, oldest_pending, first_undelivered, missed, at_least = reply
    return GroupLook(
        last_delivered=RecordId(last_delivered.decode()),
        pending=pending,
        lag=lag,
        oldest_pending=_id(oldest_pending),
        first_undelivered=_id(first_undelivered),
        missed=missed,
        missed_exact=not at_least,
    )


def _id(raw: bytes | None) -> RecordId | None:
    return None if raw is None else RecordId(raw.decode())
