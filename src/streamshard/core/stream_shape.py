"""Questions about a stream's record that several rules ask."""

from collections.abc import Iterable

import attrs

from streamshard.core.ids import GroupName, ShardIndex, stream_key
from streamshard.core.stream import (
    READABLE,
    EntryState,
    Resharding,
    ReshardingState,
    Shard,
    ShardPhase,
    StreamRecord,
    StreamState,
)


def registered(record: StreamRecord) -> tuple[GroupName, ...]:
    """The groups that records of the stream are kept for, sorted."""
    return tuple(name for name, entry in record.groups.items() if entry.state is not EntryState.REMOVING)


def readable(record: StreamRecord) -> tuple[Shard, ...]:
    """The shards that are read, by index."""
    return tuple(shard for shard in record.shards.values() if shard.phase in READABLE)


def in_phase(record: StreamRecord, phase: ShardPhase) -> tuple[Shard, ...]:
    """The shards in ``phase``, by index."""
    return tuple(shard for shard in record.shards.values() if shard.phase is phase)


def grows(resharding: Resharding) -> bool:
    """The resharding was asked to add shards."""
    return resharding.to_count > resharding.from_count


def scope(resharding: Resharding) -> range:
    """The indexes that the resharding adds or removes."""
    low, high = sorted((resharding.from_count, resharding.to_count))
    return range(low, high)


def taking_back(record: StreamRecord) -> bool:
    """A resharding of the stream is being rolled back."""
    return record.resharding is not None and record.resharding.state is ReshardingState.ROLLING_BACK


def restoring(record: StreamRecord) -> range:
    """The indexes that the rollback of a scale-in brings back; empty if there is none."""
    resharding = record.resharding
    if resharding is None or not taking_back(record) or grows(resharding):
        return range(0)
    return scope(resharding)


def goal_count(record: StreamRecord) -> int:
    """How many shards are meant to be open: a shard at or above this is drained once it can be read."""
    resharding = record.resharding
    if resharding is None:
        return record.routed_count
    return resharding.from_count if taking_back(record) else resharding.to_count


def is_undone(record: StreamRecord, shard: Shard) -> bool:
    """The shard was being made and is not wanted any more."""
    if shard.phase is not ShardPhase.PREPARING:
        return False
    if record.state is StreamState.REMOVING:
        return True
    resharding = record.resharding
    return resharding is not None and taking_back(record) and grows(resharding) and shard.index in scope(resharding)


def is_drained(record: StreamRecord, shard: Shard) -> bool:
    """The shard is read only until it is proven empty, and then to be sealed."""
    return shard.phase is ShardPhase.DRAINING and shard.index not in restoring(record)


def with_shards(record: StreamRecord, shards: Iterable[Shard]) -> StreamRecord:
    """``record`` with these shards put in the place of those of the same index."""
    changes = {shard.index: shard for shard in shards}
    return attrs.evolve(record, shards={**record.shards, **changes}) if changes else record


def key_names(record: StreamRecord, shards: Iterable[ShardIndex]) -> str:
    """The Redis keys of shards, for a message."""
    return ", ".join(stream_key(record.prefix, shard) for shard in shards)
