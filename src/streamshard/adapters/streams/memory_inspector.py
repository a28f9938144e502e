"""Looking into the shards in memory; no method ever suspends."""

from collections.abc import Callable, Sequence

from streamshard.adapters.streams.memory_world import Fence, MemoryStreams, Stream, Tally
from streamshard.adapters.streams.record_ids import id_order, id_text
from streamshard.core.ids import GroupName, ShardIndex, StreamPrefix, stream_key
from streamshard.core.inspection import Direction, Entry, GroupLook, Page, ShardLook, Wanted


class MemoryStreamInspector:
    """`StreamInspector` over a `MemoryStreams`; ages are told only if ``wall`` (Unix milliseconds) is given."""

    def __init__(self, world: MemoryStreams, wall: Callable[[], int] | None = None) -> None:
        self._world = world
        self._wall = wall

    async def look(self, prefix: StreamPrefix, shards: Sequence[ShardIndex], group: GroupName) -> tuple[ShardLook, ...]:
        """Look at shards."""
        self._world.check_up()
        return tuple([self._look(prefix, shard, group) for shard in shards])

    async def pages(self, prefix: StreamPrefix, shards: Sequence[ShardIndex], wanted: Wanted) -> tuple[Page, ...]:
        """Read a page of each shard."""
        self._world.check_up()
        return tuple([self._page(stream_key(prefix, shard), wanted) for shard in shards])

    async def close(self) -> None:
        """Nothing to let go of."""

    def _page(self, key: str, wanted: Wanted) -> Page:
        entries = self._world.streams.get(key, Stream()).entries
        ids, start = sorted(entries), None if wanted.cursor is None else id_order(wanted.cursor)
        if wanted.direction is Direction.FORWARD:
            ids = [entry for entry in ids if start is None or entry > start]
        else:
            ids = [entry for entry in reversed(ids) if start is None or entry < start]
        page = tuple(Entry(id_text(entry), tuple(entries[entry].items())) for entry in ids[: wanted.limit])
        return Page(page, page[-1].id if len(ids) > wanted.limit else None)

    def _look(self, prefix: StreamPrefix, shard: ShardIndex, group: GroupName) -> ShardLook:
        key, now = stream_key(prefix, shard), None if self._wall is None else self._wall()
        stream, fence = self._world.streams.get(key), self._world.fences.get(key, Fence())
        if stream is None:
            return ShardLook(shard, exists=False, now_ms=now)
        ids = sorted(stream.entries)
        return ShardLook(
            shard=shard,
            exists=True,
            length=len(ids),
            first_id=id_text(ids[0]) if ids else None,
            last_id=id_text(ids[-1]) if ids else None,
            last_generated=id_text(stream.last_id),
            group=_group(stream, fence, group),
            now_ms=now,
        )


def _group(stream: Stream, fence: Fence, name: GroupName) -> GroupLook | None:
    group = stream.groups.get(name)
    if group is None:
        return None
    undelivered, missing = stream.after(group.last_delivered), fence.tallies.get(name, Tally())
    return GroupLook(
        last_delivered=id_text(group.last_delivered),
        pending=len(group.pending),
        lag=stream.lag(group),
        oldest_pending=id_text(min(group.pending)) if group.pending else None,
        first_undelivered=id_text(undelivered[0]) if undelivered else None,
        missed=missing.total if missing.looked else None,
        missed_exact=missing.exact,
    )
