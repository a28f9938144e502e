"""The dispatch: what an operator's command, or an answer of Redis, does to a stream's record."""

import attrs

from streamshard.core.admin import (
    Amend,
    AmendStream,
    CreateGroup,
    CreateStream,
    DeleteGroup,
    DeleteStream,
    Rollback,
    Scale,
)
from streamshard.core.draining import layout_raised, probed, sealed
from streamshard.core.ids import StreamPrefix
from streamshard.core.provisioning import create_group, create_stream, provisioned, undo
from streamshard.core.removal import bury, delete_group, delete_stream, tidied
from streamshard.core.resharding import amend, groups_seen, rollback, scale, shards_moved
from streamshard.core.stream import ShardPhase, StreamRecord, StreamState, StreamTombstone
from streamshard.core.stream_commit import Found, remember, replay, stamp
from streamshard.core.stream_events import (
    AdminCommand,
    FencesSeen,
    GroupsSeen,
    LayoutRaised,
    Probed,
    Provisioned,
    Sealed,
    StreamCommand,
    StreamContext,
    StreamOutcome,
    Tidied,
    Undo,
    refused,
    unchanged,
)
from streamshard.core.stream_fences import fences_seen
from streamshard.errors import InvalidRequest, MetadataSyncInProgress, StateConflict, StreamNotFound, StreamshardError

NEEDS_A_REASON = (AmendStream, Scale, Rollback, DeleteGroup, DeleteStream)


def decide_stream(record: Found, command: StreamCommand, context: StreamContext) -> StreamOutcome:
    """Apply ``command`` to a stream's record, its tombstone, or nothing. Never raises; it refuses."""
    match command:
        case Undo() | FencesSeen() | GroupsSeen():
            outcome = _look_up(record, command, context) if isinstance(record, StreamRecord) else unchanged(record)
        case Provisioned() | Sealed() | LayoutRaised() | Tidied() | Probed():
            outcome = _hear(record, command) if isinstance(record, StreamRecord) else unchanged(record)
        case _:
            outcome = _operate(record, command, context)
    return stamp(record, _settled(outcome, context), context)


def _look_up(record: StreamRecord, command: Undo | FencesSeen | GroupsSeen, context: StreamContext) -> StreamOutcome:
    match command:
        case Undo():
            return undo(record)
        case FencesSeen():
            return fences_seen(record, command, context)
        case GroupsSeen():
            return groups_seen(record, command, context)


def _hear(record: StreamRecord, answers: Provisioned | Sealed | LayoutRaised | Tidied | Probed) -> StreamOutcome:
    match answers:
        case Provisioned():
            return provisioned(record, answers)
        case Sealed():
            return sealed(record, answers)
        case LayoutRaised():
            return layout_raised(record, answers)
        case Tidied():
            return tidied(record, answers)
        case Probed():
            return probed(record, answers)


def _settled(outcome: StreamOutcome, context: StreamContext) -> StreamOutcome:
    """Draw the conclusions that follow from the shards' phases alone."""
    record = outcome.record
    if not isinstance(record, StreamRecord):
        return outcome
    sealed_all = all(shard.phase is ShardPhase.SEALED for shard in record.shards.values())
    if record.state is StreamState.REMOVING and sealed_all:
        return attrs.evolve(outcome, record=bury(record, context))
    return attrs.evolve(outcome, record=shards_moved(record, context.wall))


def _operate(record: Found, command: AdminCommand, context: StreamContext) -> StreamOutcome:
    unsound = _unsound(command)
    if unsound is not None:
        return refused(record, unsound)
    before = None if record is None or _is_unfinished(record) else replay(record, command)
    if before is not None:
        return before
    quarantined = _quarantined(context)
    if quarantined is not None:
        return refused(record, quarantined)
    return remember(record, _run(record, command, context), command, context)


def _is_unfinished(record: StreamRecord | StreamTombstone) -> bool:
    """What was asked for is not done yet: a repeated request goes on with it."""
    return isinstance(record, StreamRecord) and record.state is not StreamState.ACTIVE and not record.drop_data


def _unsound(command: AdminCommand) -> InvalidRequest | None:
    if not command.author.requested_by.strip():
        return InvalidRequest("requestedBy: must not be blank: say who asks")
    if isinstance(command, NEEDS_A_REASON) and not command.author.reason.strip():
        return InvalidRequest("reason: must not be blank: say why, it is recorded")
    return None


def _quarantined(context: StreamContext) -> MetadataSyncInProgress | None:
    if not context.quarantined:
        return None
    text = f"group '{context.quarantined[0]}' is in quarantine after the store lost writes: retry in a lease's time"
    return MetadataSyncInProgress(text)


def _run(record: Found, command: AdminCommand, context: StreamContext) -> StreamOutcome:
    if isinstance(command, CreateStream):
        return create_stream(record, command, context)
    if isinstance(command, CreateGroup):
        return create_group(record, command, context)
    if not isinstance(record, StreamRecord):
        return refused(record, _no_stream(_prefix(command)))
    if isinstance(command, DeleteGroup):
        return delete_group(record, command, context)
    if isinstance(command, DeleteStream):
        return delete_stream(record, command, context)
    unready = _unready(record)
    return refused(record, unready) if unready is not None else _change(record, command, context)


def _change(
    record: StreamRecord, command: AmendStream | Scale | Rollback | Amend, context: StreamContext
) -> StreamOutcome:
    match command:
        case AmendStream():
            return StreamOutcome(attrs.evolve(record, retention=command.retention))
        case Scale():
            return scale(record, command, context)
        case Rollback():
            return rollback(record, command, context)
        case Amend():
            return amend(record, command, context)


def _prefix(command: AmendStream | Scale | Rollback | Amend | DeleteGroup | DeleteStream) -> StreamPrefix:
    return command.key.prefix if isinstance(command, DeleteGroup) else command.prefix


def _no_stream(prefix: StreamPrefix) -> StreamNotFound:
    return StreamNotFound(f"no stream '{prefix}': create it first, or mend the name")


def _unready(record: StreamRecord) -> StreamshardError | None:
    if record.state is StreamState.ACTIVE:
        return None
    doing = "created" if record.state is StreamState.CREATING else "removed"
    return StateConflict(f"stream '{record.prefix}' is being {doing}: retry when that is done")
