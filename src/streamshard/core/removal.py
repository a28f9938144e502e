"""Deleting groups and streams. What is deleted leaves numbers behind that its successor continues above."""

import json

import attrs

from streamshard.core.admin import DeleteGroup, DeleteStream
from streamshard.core.effects import DropGroup, DropShard, GuardResult
from streamshard.core.ids import GroupName, LayoutVersion, ShardIndex
from streamshard.core.provisioning import undo
from streamshard.core.resharding import under_way
from streamshard.core.stream import (
    EntryState,
    GroupEntry,
    IdempotentAnswer,
    ShardPhase,
    StreamRecord,
    StreamState,
    StreamTombstone,
)
from streamshard.core.stream_events import StreamContext, StreamOutcome, Tidied, refused
from streamshard.core.stream_shape import readable, with_shards
from streamshard.errors import Conflict, GroupHasMembers, GroupNotFound, StateConflict, StreamshardError


def delete_group(record: StreamRecord, command: DeleteGroup, context: StreamContext) -> StreamOutcome:
    """Bury the group at once; its Redis groups follow, unless they are to be kept."""
    entry = record.groups.get(command.key.group)
    refusal = _group_refusal(record, entry, command, context)
    if refusal is not None or entry is None:
        return refused(record, refusal or _no_group(command))
    if entry.state is EntryState.REMOVING:
        return StreamOutcome(record)
    going = attrs.evolve(entry, state=EntryState.REMOVING, keep_redis_group=command.keep_redis_group)
    after = attrs.evolve(record, groups={**record.groups, entry.name: going})
    gone = (entry.name,) if entry.state is EntryState.ACTIVE else ()
    return StreamOutcome(_without_dropped(after, set()), removed_groups=gone)


def _no_group(command: DeleteGroup) -> GroupNotFound:
    text = f"no group '{command.key.group}' on stream '{command.key.prefix}': list the stream's groups for its names"
    return GroupNotFound(text)


def _group_refusal(
    record: StreamRecord, entry: GroupEntry | None, command: DeleteGroup, context: StreamContext
) -> StreamshardError | None:
    if entry is None:
        return _no_group(command)
    if record.state is not StreamState.ACTIVE:
        return StateConflict(f"stream '{record.prefix}' is being {_doing(record)}: retry when that is done")
    if record.resharding is not None:
        return under_way(record.resharding)
    return None if command.force else _members_in_the_way((entry.name,), context)


def _doing(record: StreamRecord) -> str:
    return "created" if record.state is StreamState.CREATING else "removed"


def _members_in_the_way(names: tuple[GroupName, ...], context: StreamContext) -> Conflict | None:
    for name in names:
        live = context.live_members.get(name, 0)
        if live:
            return GroupHasMembers(f"group '{name}' has {live} live members: stop them, or force the delete")
    return None


def tidied(record: StreamRecord, command: Tidied) -> StreamOutcome:
    """Forget a deleted group once one round has dropped it from every shard that is read; retire dropped shards."""
    done = [order for order, result in command.answers if result is GuardResult.DONE]
    dropped = {(o.group, o.shard) for o in done if isinstance(o, DropGroup) and o.layout == record.layout_version}
    over = [o for o in done if isinstance(o, DropShard) and _is_present(record, o)]
    sealed = [attrs.evolve(record.shards[o.shard], phase=ShardPhase.SEALED) for o in over]
    return StreamOutcome(_without_dropped(with_shards(record, sealed), dropped))


def _is_present(record: StreamRecord, order: DropShard) -> bool:
    return order.shard in record.shards and record.shards[order.shard].generation == order.generation


def _without_dropped(record: StreamRecord, dropped: set[tuple[GroupName, ShardIndex]]) -> StreamRecord:
    shards = readable(record)

    def is_gone(entry: GroupEntry) -> bool:
        if entry.state is not EntryState.REMOVING:
            return False
        return entry.keep_redis_group or all((entry.name, shard.index) in dropped for shard in shards)

    groups = {name: entry for name, entry in record.groups.items() if not is_gone(entry)}
    return record if len(groups) == len(record.groups) else attrs.evolve(record, groups=groups)


def delete_stream(record: StreamRecord, command: DeleteStream, context: StreamContext) -> StreamOutcome:
    """Bury the stream and its groups; keys that still exist stay as they are, unless the data is to go too.

    Then the record stays, out of everybody's sight, until each key is known to be gone: nobody could go on
    with the work otherwise.
    """
    if record.state is not StreamState.ACTIVE:
        return undo(record)
    refusal = _stream_refusal(record, command, context)
    if refusal is not None:
        return refused(record, refusal)
    gone = tuple(name for name, entry in record.groups.items() if entry.state is EntryState.ACTIVE)
    if command.drop_data and any(shard.phase is not ShardPhase.SEALED for shard in record.shards.values()):
        going = attrs.evolve(record, state=StreamState.REMOVING, groups={}, drop_data=True)
        return StreamOutcome(going, removed_groups=gone)
    return StreamOutcome(bury(record, context), removed_groups=gone)


def _stream_refusal(record: StreamRecord, command: DeleteStream, context: StreamContext) -> StreamshardError | None:
    if record.resharding is not None:
        return under_way(record.resharding)
    return None if command.force else _members_in_the_way(tuple(record.groups), context)


def bury(record: StreamRecord, context: StreamContext) -> StreamTombstone:
    """What stays of a deleted stream: the numbers that a stream of that name must continue above."""
    undone = record.state is not StreamState.ACTIVE and not record.drop_data
    return StreamTombstone(
        prefix=record.prefix,
        version=record.version,
        layout_version=LayoutVersion(record.layout_version + 1),
        generations={index: shard.generation for index, shard in record.shards.items()},
        deleted_at=context.wall,
        idempotency=tuple(a for a in record.idempotency if not undone or is_of_delete(a)),
    )


def is_of_delete(answer: IdempotentAnswer) -> bool:
    """The answer to a delete; a create that was given up has no answer, and may be tried again."""
    return str(json.loads(answer.answer)["action"]).startswith("DELETE_")
