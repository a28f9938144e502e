"""The coordinator's side of shards in memory: every method ends without ever suspending."""

from collections.abc import Sequence

from streamshard.adapters.streams import memory_trimming
from streamshard.adapters.streams.memory_world import ZERO_ID, Fence, Group, MemoryStreams, Stream, Tally
from streamshard.adapters.streams.record_ids import id_text
from streamshard.core.effects import (
    DropGroup,
    DropShard,
    GroupProbe,
    GuardResult,
    MendLag,
    Provision,
    ProvisionResult,
    RaiseFence,
    RaiseLayout,
    RaiseResult,
    RaiseVerdict,
    Seal,
    ShardProbe,
    Trim,
    Trimmed,
)
from streamshard.core.ids import GroupName, ShardIndex, StreamPrefix, Token, stream_key
from streamshard.core.stream import FenceMark


class MemoryStreamBackend:
    """`StreamBackend` over a `MemoryStreams`."""

    def __init__(self, world: MemoryStreams) -> None:
        self._world = world

    async def provision(self, orders: Sequence[Provision]) -> tuple[ProvisionResult, ...]:
        """Make shard keys, groups and marks."""
        self._world.check_up()
        return tuple([self._provision(order) for order in orders])

    async def raise_fences(self, orders: Sequence[RaiseFence]) -> tuple[RaiseResult, ...]:
        """Raise token marks."""
        self._world.check_up()
        return tuple([self._raise_fence(order) for order in orders])

    async def raise_layouts(self, orders: Sequence[RaiseLayout]) -> tuple[GuardResult, ...]:
        """Raise layout marks."""
        self._world.check_up()
        return tuple([self._raise_layout(order) for order in orders])

    async def read_fences(self, prefix: StreamPrefix, shards: Sequence[ShardIndex]) -> tuple[FenceMark, ...]:
        """Read the marks of shards."""
        self._world.check_up()
        return tuple([self._fence_mark(prefix, shard) for shard in shards])

    async def probe(self, prefix: StreamPrefix, shards: Sequence[ShardIndex]) -> tuple[ShardProbe, ...]:
        """Look at shards exactly."""
        self._world.check_up()
        return tuple([self._probe(prefix, shard) for shard in shards])

    async def seal(self, order: Seal) -> GuardResult:
        """Retire a shard if nothing is left on it."""
        self._world.check_up()
        key = stream_key(order.prefix, order.shard)
        fence, stream = self._fence(key), self._world.streams.get(key)
        if fence.sealed_in(order.generation) and stream is None:
            return GuardResult.DONE
        if fence.later_than(order.generation, order.layout):
            return GuardResult.SUPERSEDED
        if stream is not None and not _drained(stream, order):
            return GuardResult.NOT_EMPTY
        self._world.lose_shard(key)
        fence.generation, fence.sealed, fence.layout = order.generation, True, order.layout
        self._world.fences[key] = fence
        return GuardResult.DONE

    async def tidy(self, orders: Sequence[DropGroup | MendLag | DropShard]) -> tuple[GuardResult, ...]:
        """Drop what was deleted, mend counters."""
        self._world.check_up()
        return tuple([self._tidy(order) for order in orders])

    async def trim(self, orders: Sequence[Trim]) -> tuple[Trimmed, ...]:
        """Remove what everybody has acknowledged, and count what went unread."""
        self._world.check_up()
        return tuple([self._trim(order) for order in orders])

    def _trim(self, order: Trim) -> Trimmed:
        key = stream_key(order.prefix, order.shard)
        return memory_trimming.trim(self._fence(key), self._world.streams.get(key), order)

    def _tidy(self, order: DropGroup | MendLag | DropShard) -> GuardResult:
        match order:
            case DropGroup():
                return self._drop(order)
            case MendLag():
                return self._mend(order)
            case DropShard():
                return self._drop_shard(order)

    async def close(self) -> None:
        """Nothing to let go of."""

    def _fence(self, key: str) -> Fence:
        return self._world.fences.get(key) or Fence()

    def _provision(self, order: Provision) -> ProvisionResult:
        key = stream_key(order.prefix, order.shard)
        fence, stream = self._fence(key), self._world.streams.get(key)
        if fence.sealed_in(order.generation) or fence.later_than(order.generation, order.layout):
            return ProvisionResult.SUPERSEDED
        marked = key in self._world.fences
        if stream is not None and not marked and not order.adopt and _is_foreign(stream, order):
            return ProvisionResult.FOREIGN
        stream = self._world.streams.setdefault(key, Stream())
        taken_over = marked and fence.generation != order.generation and bool(stream.entries)
        for group in order.groups:
            if group.name not in stream.groups:
                stream.create_group(group.name, "0" if taken_over else group.start_id)
                gone = stream.groups[group.name].entries_read
                _begin_count(fence, group.name, stream.added - len(stream.entries) if gone is None else gone)
        fence.generation, fence.sealed, fence.layout = order.generation, False, order.layout
        self._world.fences[key] = fence
        return ProvisionResult.DONE

    def _raise_fence(self, order: RaiseFence) -> RaiseResult:
        key = stream_key(order.prefix, order.shard)
        fence, stream = self._fence(key), self._world.streams.get(key)
        mark = fence.tokens.get(order.group, Token(0))
        if fence.sealed_in(order.generation) or fence.later_than(order.generation, order.layout):
            return RaiseResult(RaiseVerdict.SUPERSEDED, mark)
        earlier_life = fence.generation is not None and fence.generation < order.generation
        if earlier_life or stream is None or order.group not in stream.groups:
            return RaiseResult(RaiseVerdict.MISSING, mark)
        if mark != order.token and mark > min(order.floor, order.token):
            return RaiseResult(RaiseVerdict.ABOVE, mark)
        fence.generation, fence.layout = order.generation, order.layout
        fence.tokens[order.group] = order.token
        self._world.fences[key] = fence
        return RaiseResult(RaiseVerdict.RAISED, order.token)

    def _raise_layout(self, order: RaiseLayout) -> GuardResult:
        key = stream_key(order.prefix, order.shard)
        fence = self._fence(key)
        if fence.later_than(order.generation, order.layout):
            return GuardResult.SUPERSEDED
        fence.layout = order.layout
        if fence.generation is None:
            fence.generation = order.generation
        self._world.fences[key] = fence
        return GuardResult.SEALED if fence.sealed_in(order.generation) else GuardResult.DONE

    def _fence_mark(self, prefix: StreamPrefix, shard: ShardIndex) -> FenceMark:
        key = stream_key(prefix, shard)
        fence = self._fence(key)
        tokens = dict(sorted(fence.tokens.items()))
        exists = key in self._world.streams
        return FenceMark(shard, exists, fence.generation, fence.sealed, fence.layout, tokens)

    def _probe(self, prefix: StreamPrefix, shard: ShardIndex) -> ShardProbe:
        key = stream_key(prefix, shard)
        fence, stream = self._fence(key), self._world.streams.get(key)
        found = Stream() if stream is None else stream
        return ShardProbe(
            shard=shard,
            exists=stream is not None,
            generation=fence.generation,
            sealed=fence.sealed,
            length=len(found.entries),
            groups=tuple(_group_probe(found, name) for name in sorted(found.groups)),
        )

    def _drop(self, order: DropGroup) -> GuardResult:
        key = stream_key(order.prefix, order.shard)
        fence = self._fence(key)
        if fence.later_than(order.generation, order.layout):
            return GuardResult.SUPERSEDED
        self._world.lose_group(key, order.group)
        fence.tallies.pop(order.group, None)
        if fence.generation is not None:
            fence.layout = order.layout
        return GuardResult.DONE

    def _drop_shard(self, order: DropShard) -> GuardResult:
        key = stream_key(order.prefix, order.shard)
        fence = self._fence(key)
        if fence.sealed_in(order.generation) and key not in self._world.streams:
            return GuardResult.DONE
        if fence.later_than(order.generation, order.layout):
            return GuardResult.SUPERSEDED
        self._world.lose_shard(key)
        fence.generation, fence.sealed, fence.layout = order.generation, True, order.layout
        self._world.fences[key] = fence
        return GuardResult.DONE

    def _mend(self, order: MendLag) -> GuardResult:
        key = stream_key(order.prefix, order.shard)
        fence, stream = self._fence(key), self._world.streams.get(key)
        if fence.sealed_in(order.generation) or fence.later_than(order.generation, order.layout):
            return GuardResult.SUPERSEDED
        group = stream.groups.get(order.group) if stream is not None else None
        if stream is None or group is None or not _nothing_left(stream, group):
            return GuardResult.NOT_EMPTY
        if stream.lag(group) != 0:
            group.last_delivered, group.entries_read = stream.last_id, stream.added
        return GuardResult.DONE


def _begin_count(fence: Fence, name: GroupName, gone: int) -> None:
    """What went before the group was made was never meant for it."""
    fence.tallies.setdefault(name, Tally()).base = gone


def _is_foreign(stream: Stream, order: Provision) -> bool:
    return bool(stream.entries) or not set(stream.groups) <= {group.name for group in order.groups}


def _nothing_left(stream: Stream, group: Group) -> bool:
    return not group.pending and not stream.after(group.last_delivered)


def _drained(stream: Stream, order: Seal) -> bool:
    ignored = set(order.ignored) - set(order.registered)
    counted = {name: group for name, group in stream.groups.items() if name not in ignored}
    if not counted.keys() >= set(order.registered):
        return False
    if not all(_nothing_left(stream, group) for group in counted.values()):
        return False
    if any(stream.lag(counted[name]) != 0 for name in order.registered):
        return False
    return bool(counted) or not stream.entries


def _group_probe(stream: Stream, name: GroupName) -> GroupProbe:
    group = stream.groups[name]
    undelivered = stream.after(group.last_delivered)
    return GroupProbe(
        name=name,
        pending=len(group.pending),
        lag=stream.lag(group),
        last_delivered=id_text(group.last_delivered),
        first_undelivered=id_text(undelivered[0]) if undelivered else None,
        oldest_pending=id_text(min(group.pending, default=ZERO_ID)) if group.pending else None,
    )
