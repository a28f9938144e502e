"""Records to try a store with, and short ways to write them."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from streamshard.core.group import GroupRecord, GroupTombstone, Row
from streamshard.core.ids import (
    Epoch,
    Generation,
    GroupKey,
    GroupName,
    InstanceId,
    LayoutVersion,
    Lineage,
    Millis,
    Nonce,
    Seq,
    ShardIndex,
    StreamPrefix,
    Version,
    WallMillis,
    next_version,
)
from streamshard.core.ports import (
    GroupChange,
    MetadataStore,
    RowWrite,
    StoreSource,
    StreamChange,
    Transaction,
)
from streamshard.core.stream import StreamRecord, StreamState, StreamTombstone

Connect: TypeAlias = Callable[[], Awaitable[MetadataStore]]
"""Opens one more connection to the same, initially empty, store."""

ORDERS = StreamPrefix("orders")
BILLING = GroupName("billing")
KEY = GroupKey(ORDERS, BILLING)
ONE = InstanceId("1" * 32)
TWO = InstanceId("2" * 32)
FIRST = Version(Lineage("lineage"), 1, Nonce("nonce-1"))
SECOND = next_version(FIRST, Nonce("nonce-2"))
THIRD = next_version(SECOND, Nonce("nonce-3"))


def a_stream(version: Version = FIRST, prefix: str = ORDERS, count: int = 4) -> StreamRecord:
    """An active stream without shards."""
    return StreamRecord(
        StreamPrefix(prefix), version, (version.nonce,), "store", "key", StreamState.ACTIVE, count, LayoutVersion(1),
        {}, {}, "murmur3-v1", WallMillis(1),
    )  # fmt: skip


def a_group(version: Version = FIRST, key: GroupKey = KEY, epoch: int = 1) -> GroupRecord:
    """A group of one shard that nobody holds."""
    layout = {ShardIndex(0): Generation(1)}
    return GroupRecord(key, version, (version.nonce,), "store", LayoutVersion(1), layout, Epoch(epoch))


def a_stream_tombstone(version: Version = SECOND, prefix: str = ORDERS) -> StreamTombstone:
    """What is left of `a_stream`."""
    return StreamTombstone(
        StreamPrefix(prefix), version, LayoutVersion(1), {ShardIndex(0): Generation(1)}, WallMillis(2)
    )


def a_group_tombstone(version: Version = SECOND, key: GroupKey = KEY) -> GroupTombstone:
    """What is left of `a_group`."""
    return GroupTombstone(key, version, Epoch(1), 1, {}, {}, {}, (), WallMillis(2))


def a_row(seq: int = 1, instance: InstanceId = ONE, mark: str | None = None) -> Row:
    """A renewal; its mark follows from the seq unless given."""
    return Row(instance, Seq(seq), Nonce(mark or f"mark-{seq}"), Millis(15_000))


@contextlib.asynccontextmanager
async def opened(connect: Connect) -> AsyncIterator[MetadataStore]:
    """A connection that is closed at the end."""
    store = await connect()
    try:
        yield store
    finally:
        await store.close()


async def source_of(store: MetadataStore) -> StoreSource:
    """What a commit has to name now."""
    return (await store.load_stream(ORDERS)).source


async def put(
    store: MetadataStore,
    *changes: StreamChange | GroupChange,
    row: Row | None = None,
    prefix: StreamPrefix = ORDERS,
) -> None:
    """Commit changes of one stream, and perhaps a row of `BILLING`."""
    streams = [change for change in changes if isinstance(change, StreamChange)]
    await store.commit(
        Transaction(
            prefix,
            await source_of(store),
            stream=streams[0] if streams else None,
            groups=tuple(change for change in changes if isinstance(change, GroupChange)),
            row=None if row is None else RowWrite(BILLING, row),
        )
    )


async def state(store: MetadataStore) -> tuple[object, object, dict[InstanceId, Row]]:
    """Everything there is about `ORDERS` and `BILLING`."""
    group = await store.load_group(KEY)
    return (await store.load_stream(ORDERS)).record, group.record, dict(group.rows)


CREATE_STREAM = StreamChange(None, a_stream())
CREATE = GroupChange(KEY, None, a_group())
COMPARE = GroupChange(KEY, FIRST)
