"""Changing the number of shards, and taking that back: a table of states and what leads on from each.

Out: new shards are made, then routed to, and it is over when nobody hands shards over any more. In: the
removed shards leave the routing at once, stay read until they are proven empty, and are sealed one by
one. Until the first seal either way leads back.
"""

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import attrs

from streamshard.core.admin import Amend, Rollback, Scale
from streamshard.core.ids import GroupName, ShardIndex, WallMillis
from streamshard.core.routing import unroutable
from streamshard.core.stream import (
    ENDED,
    HISTORY_SIZE,
    EntryState,
    FenceMark,
    Resharding,
    ReshardingState,
    Shard,
    ShardPhase,
    StreamRecord,
    StreamState,
)
from streamshard.core.stream_commit import find_resharding
from streamshard.core.stream_events import (
    GroupsSeen,
    GroupSummary,
    StreamContext,
    StreamOutcome,
    refused,
    unchanged,
)
from streamshard.core.stream_fences import by_shard, next_generation
from streamshard.core.stream_shape import grows, key_names, restoring, scope, with_shards
from streamshard.errors import (
    ActiveMigration,
    InvalidRequest,
    MigrationNotFound,
    RollbackNotAllowed,
    ShardCountUnchanged,
    StateConflict,
    StreamExists,
    StreamshardError,
)


class Event(enum.Enum):
    """What moves a resharding on."""

    MADE = "every added shard was made"
    SETTLED = "no live group hands shards over any more"
    RETIRED = "every removed shard is sealed, and no live member holds one"
    TAKEN_BACK = "an operator asked for a rollback"
    RESTORED = "every removed shard is open again"


OUT_STARTS = ReshardingState.PREPARING
IN_STARTS = ReshardingState.DRAINING

ARROWS: Mapping[tuple[ReshardingState, Event], ReshardingState] = MappingProxyType(
    {
        (ReshardingState.PREPARING, Event.MADE): ReshardingState.ACTIVE,
        (ReshardingState.ACTIVE, Event.SETTLED): ReshardingState.DEPRECATED,
        (ReshardingState.DRAINING, Event.RETIRED): ReshardingState.DEPRECATED,
        (ReshardingState.PREPARING, Event.TAKEN_BACK): ReshardingState.ROLLING_BACK,
        (ReshardingState.ACTIVE, Event.TAKEN_BACK): ReshardingState.ROLLING_BACK,
        (ReshardingState.DRAINING, Event.TAKEN_BACK): ReshardingState.ROLLING_BACK,
        (ReshardingState.ROLLING_BACK, Event.RETIRED): ReshardingState.ROLLED_BACK,
        (ReshardingState.ROLLING_BACK, Event.RESTORED): ReshardingState.ROLLED_BACK,
    }
)
"""Every arrow there is; what is not in here does not happen."""


def advance(record: StreamRecord, event: Event, wall: WallMillis) -> StreamRecord:
    """``record`` with its resharding moved along the event's arrow; as it was if there is none."""
    resharding = record.resharding
    state = ARROWS.get((resharding.state, event)) if resharding is not None else None
    if resharding is None or state is None:
        return record
    moved = attrs.evolve(resharding, state=state, updated_at=wall)
    if state not in ENDED:
        return attrs.evolve(record, resharding=moved)
    return attrs.evolve(record, resharding=None, history=(*record.history, moved)[-HISTORY_SIZE:])


def scale(record: StreamRecord, command: Scale, context: StreamContext) -> StreamOutcome:
    """Start a resharding; one that still prepares the same count is gone on with instead."""
    active = record.resharding
    if active is not None and active.state is ReshardingState.PREPARING and active.to_count == command.target:
        return StreamOutcome(record, resharding=active)
    refusal = _scale_refusal(record, command, context)
    if refusal is not None:
        return refused(record, refusal)
    begun = _begun(record, command, context.wall)
    after = attrs.evolve(record, resharding=begun)
    after = _grow(after, begun, context.marks) if grows(begun) else _shrink(after, begun)
    return StreamOutcome(after, resharding=begun)


def _scale_refusal(record: StreamRecord, command: Scale, context: StreamContext) -> StreamshardError | None:
    problem = _target_problem(record, command.target, context.max_shard_count)
    if problem is not None:
        return problem
    if record.resharding is not None:
        return under_way(record.resharding)
    if command.target == record.routed_count:
        text = f"stream '{record.prefix}' has {record.routed_count} shards already: choose another count"
        return ShardCountUnchanged(text)
    busy = [entry.name for entry in record.groups.values() if entry.state is not EntryState.ACTIVE]
    if busy:
        return StateConflict(f"group '{busy[0]}' is being {_doing(record, busy[0])}: retry when that is done")
    taken = _taken(record, context.marks)
    if taken and not record.adopt:
        return StreamExists(f"{key_names(record, taken)}: not made by this stream: rename or delete, then scale again")
    return None


def _target_problem(record: StreamRecord, target: int, limit: int) -> InvalidRequest | None:
    if not 0 <= target <= limit:
        return InvalidRequest(f"targetShardCount: must be between 0 and {limit}, not {target}")
    return unroutable(record.routing_protocol, target) if target else None


def _doing(record: StreamRecord, name: str) -> str:
    creating = any(e.state is EntryState.CREATING for e in record.groups.values() if e.name == name)
    return "created" if creating else "deleted"


def under_way(resharding: Resharding) -> ActiveMigration:
    """Why something has to wait for a resharding."""
    return ActiveMigration(
        f"resharding {resharding.id} from {resharding.from_count} to {resharding.to_count} shards is "
        f"{resharding.state.value}: wait for it, or roll it back",
        {"reshardingId": resharding.id},
    )


def _taken(record: StreamRecord, marks: Iterable[FenceMark]) -> list[ShardIndex]:
    """Where a key stands that no life of this stream's shard left behind."""
    return [mark.shard for mark in marks if mark.key_exists and not _ours(record.shards.get(mark.shard), mark)]


def _ours(shard: Shard | None, mark: FenceMark) -> bool:
    return shard is not None and (shard.phase is not ShardPhase.SEALED or mark.generation == shard.generation)


def _begun(record: StreamRecord, command: Scale, wall: WallMillis) -> Resharding:
    return Resharding(
        id=command.resharding_id,
        from_count=record.routed_count,
        to_count=command.target,
        state=OUT_STARTS if command.target > record.routed_count else IN_STARTS,
        created_at=wall,
        updated_at=wall,
        requested_by=command.author.requested_by,
        reason=command.author.reason,
        ignore_foreign_groups=_names(command.ignore_foreign_groups),
        stop_producers=command.stop_producers,
        deprecated_after=command.deprecated_after,
    )


def _names(names: Iterable[str]) -> tuple[GroupName, ...]:
    return tuple(GroupName(name) for name in sorted(set(names)))


def _grow(record: StreamRecord, resharding: Resharding, marks: Iterable[FenceMark]) -> StreamRecord:
    """New lives for every added index, also where one is left over and still read."""
    seen = by_shard(marks)
    return with_shards(record, [_next_life(record, ShardIndex(index), seen) for index in scope(resharding)])


def _next_life(record: StreamRecord, index: ShardIndex, marks: Mapping[ShardIndex, FenceMark]) -> Shard:
    known = record.shards.get(index)
    generation = next_generation(known.generation if known else None, marks.get(index))
    return Shard(index, generation, ShardPhase.PREPARING)


def _shrink(record: StreamRecord, resharding: Resharding) -> StreamRecord:
    """The removed shards go on being read; at a full drain producers keep them until all are sealed."""
    removed = _drain_open(record, resharding)
    keeps_producers = resharding.to_count == 0 and not resharding.stop_producers
    return removed if keeps_producers else attrs.evolve(removed, routed_count=resharding.to_count)


def _drain_open(record: StreamRecord, resharding: Resharding) -> StreamRecord:
    inside = _inside(record, resharding)
    return with_shards(
        record, [attrs.evolve(s, phase=ShardPhase.DRAINING) for s in inside if s.phase is ShardPhase.OPEN]
    )


def _inside(record: StreamRecord, resharding: Resharding) -> list[Shard]:
    return [shard for shard in record.shards.values() if shard.index in scope(resharding)]


def rollback(record: StreamRecord, command: Rollback, context: StreamContext) -> StreamOutcome:
    """Take a resharding back; asking again while that goes on changes nothing."""
    active = record.resharding
    if active is None or active.id != command.resharding_id:
        return refused(record, _not_active(record, command))
    if active.state is ReshardingState.ROLLING_BACK:
        return StreamOutcome(record, resharding=active)
    if active.any_sealed:
        text = f"resharding {active.id} has sealed a shard: let it end, then scale to {active.from_count}"
        return refused(record, RollbackNotAllowed(text))
    after = record
    if grows(active):
        after = attrs.evolve(_drain_open(record, active), routed_count=active.from_count)
    after = advance(after, Event.TAKEN_BACK, context.wall)
    return StreamOutcome(after, resharding=after.resharding)


def _not_active(record: StreamRecord, command: Rollback | Amend) -> StreamshardError:
    known = find_resharding(record, command.resharding_id)
    if known is None:
        text = f"no resharding {command.resharding_id} of stream '{record.prefix}': list its migrations for the ids"
        return MigrationNotFound(text)
    return RollbackNotAllowed(f"resharding {known.id} has ended as {known.state.value}: start another one instead")


def amend(record: StreamRecord, command: Amend, context: StreamContext) -> StreamOutcome:
    """Replace the list of foreign groups that a running resharding ignores."""
    active = record.resharding
    if active is None or active.id != command.resharding_id:
        return refused(record, _not_active(record, command))
    names = _names(command.ignore_foreign_groups)
    if names == active.ignore_foreign_groups:
        return StreamOutcome(record, resharding=active)
    amended = attrs.evolve(active, ignore_foreign_groups=names, updated_at=context.wall)
    return StreamOutcome(attrs.evolve(record, resharding=amended), resharding=amended)


def shards_moved(record: StreamRecord, wall: WallMillis) -> StreamRecord:
    """Follow the arrows, and move the routing, as far as the phases of the shards allow."""
    resharding = record.resharding
    if resharding is None or record.state is not StreamState.ACTIVE:
        return record
    phases = {shard.phase for shard in _inside(record, resharding)}
    if phases == {ShardPhase.OPEN} and resharding.state is ReshardingState.PREPARING:
        return advance(attrs.evolve(record, routed_count=resharding.to_count), Event.MADE, wall)
    if phases == {ShardPhase.OPEN} and restoring(record):
        return advance(attrs.evolve(record, routed_count=resharding.from_count), Event.RESTORED, wall)
    if phases == {ShardPhase.SEALED} and resharding.state is ReshardingState.DRAINING:
        return attrs.evolve(record, routed_count=resharding.to_count)
    return record


def groups_seen(record: StreamRecord, command: GroupsSeen, context: StreamContext) -> StreamOutcome:
    """End what only groups hold up. A group without live members holds up nothing."""
    resharding = record.resharding
    summaries = {summary.name: summary for summary in command.summaries}
    active = [entry.name for entry in record.groups.values() if entry.state is EntryState.ACTIVE]
    if resharding is None or not all(name in summaries for name in active):
        return unchanged(record)
    live = [summaries[name] for name in active if summaries[name].live_members]
    if not all(summary.layout_version == record.layout_version for summary in live):
        return unchanged(record)
    if resharding.state is ReshardingState.ACTIVE and not any(summary.handover for summary in live):
        return StreamOutcome(advance(record, Event.SETTLED, context.wall))
    if _all_sealed(record, resharding) and not _still_held(resharding, live):
        return StreamOutcome(advance(record, Event.RETIRED, context.wall))
    return unchanged(record)


def _all_sealed(record: StreamRecord, resharding: Resharding) -> bool:
    return all(shard.phase is ShardPhase.SEALED for shard in _inside(record, resharding))


def _still_held(resharding: Resharding, live: Iterable[GroupSummary]) -> bool:
    return any(shard in scope(resharding) for summary in live for shard in summary.held_by_live)
