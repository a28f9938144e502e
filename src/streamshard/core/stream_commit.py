"""What every commit of a stream's record has in common: version, layout version, idempotency keys."""

import json
from typing import TypeAlias

import attrs

from streamshard.core import history
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
from streamshard.core.facts import GroupFacts, StreamFacts, group_of_text, group_text
from streamshard.core.ids import LayoutVersion, ReshardingId, StreamPrefix, Version, extend_ring, next_version
from streamshard.core.stream import IdempotentAnswer, Resharding, StreamRecord, StreamTombstone
from streamshard.core.stream_events import AdminCommand, StreamContext, StreamOutcome, refused
from streamshard.core.stream_shape import registered, taking_back
from streamshard.errors import IdempotencyKeyReused, MigrationNotFound, StreamNotFound

KEPT_ANSWERS = 128
KEPT_CHARACTERS = 65_536
"""Of all kept answers together; the delete of a group with very many members says much."""
KEPT_MS = 24 * 3_600_000

ACTIONS: dict[type[AdminCommand], str] = {
    CreateStream: "CREATE_STREAM",
    CreateGroup: "CREATE_GROUP",
    Scale: "SCALE_STREAM",
    Rollback: "ROLLBACK_MIGRATION",
    Amend: "AMEND_MIGRATION",
    AmendStream: "AMEND_STREAM",
    DeleteGroup: "DELETE_GROUP",
    DeleteStream: "DELETE_STREAM",
}

Found: TypeAlias = StreamRecord | StreamTombstone | None


def stamp(
    before: StreamRecord | StreamTombstone | None, outcome: StreamOutcome, context: StreamContext
) -> StreamOutcome:
    """Give a changed record its next version, and its next layout version where the layout changed."""
    after = outcome.record
    if after is None or after == before:
        return attrs.evolve(outcome, record=before, changed=False)
    if isinstance(after, StreamTombstone):
        stamped: StreamRecord | StreamTombstone = attrs.evolve(
            after, version=next_version(after.version, context.nonce)
        )
    elif isinstance(before, StreamRecord):
        stamped = _stamp_record(before, after, context, fresh=outcome.discontinuity is not None)
    else:
        stamped = after
    if isinstance(stamped, StreamRecord):
        earlier = before if isinstance(before, StreamRecord) else None
        stamped = history.told_stream(earlier, stamped, context.wall, outcome.discontinuity)
    return attrs.evolve(outcome, record=stamped, changed=True)


def _stamp_record(before: StreamRecord, after: StreamRecord, context: StreamContext, *, fresh: bool) -> StreamRecord:
    moved = fresh or _shape(before) != _shape(after)
    layout = max(before.layout_version, after.layout_version) + int(moved)
    if fresh:
        begun = Version(context.lineage, before.version.revision + 1, context.nonce)
        return attrs.evolve(after, version=begun, ring=(context.nonce,), layout_version=LayoutVersion(layout))
    version, ring = next_version(before.version, context.nonce), extend_ring(before.ring, context.nonce)
    return attrs.evolve(after, version=version, ring=ring, layout_version=LayoutVersion(layout))


def _shape(record: StreamRecord) -> tuple[object, ...]:
    """What a layout version stands for. A rollback is part of it: older seals must not outlive it."""
    return record.routed_count, dict(record.shards), registered(record), record.state, taking_back(record)


def replay(record: StreamRecord | StreamTombstone, command: AdminCommand) -> StreamOutcome | None:
    """The outcome of a command whose idempotency key was seen before; None if it was not."""
    asked = command.author.idempotency
    known = next((answer for answer in record.idempotency if asked and answer.key == asked.key), None)
    if asked is None or known is None:
        return None
    if known.fingerprint != asked.fingerprint:
        text = "Idempotency-Key: it came before with another request: use a new key for a new request"
        return refused(record, IdempotencyKeyReused(text))
    if isinstance(record, StreamTombstone):
        return _replay_over_grave(record, command, known)
    about = json.loads(known.answer).get("reshardingId")
    found = find_resharding(record, about)
    if about is not None and found is None:
        return refused(
            record, MigrationNotFound(f"this request's resharding '{about}' is too long ago to be on record")
        )
    return StreamOutcome(record, resharding=found, replayed=True, answer=known.answer)


def _replay_over_grave(grave: StreamTombstone, command: AdminCommand, known: IdempotentAnswer) -> StreamOutcome:
    if isinstance(command, DeleteStream | DeleteGroup):
        return StreamOutcome(grave, replayed=True, answer=known.answer)
    return refused(grave, StreamNotFound(f"stream '{grave.prefix}' was deleted after this request was carried out"))


def find_resharding(record: StreamRecord, wanted: ReshardingId | None) -> Resharding | None:
    """The resharding of that id, active or ended; None if there is none on record."""
    active = () if record.resharding is None else (record.resharding,)
    return next((known for known in (*active, *record.history) if known.id == wanted), None)


def remember(before: Found, outcome: StreamOutcome, command: AdminCommand, context: StreamContext) -> StreamOutcome:
    """Keep what the command is answered, under its idempotency key if it has one."""
    record, asked = outcome.record, command.author.idempotency
    if outcome.refusal is not None or record is None:
        return outcome
    answer = _answer(before if isinstance(before, StreamRecord) else record, outcome, command, context)
    if asked is None:
        return attrs.evolve(outcome, answer=answer)
    said = IdempotentAnswer(asked.key, asked.fingerprint, answer, context.wall)
    young = [k for k in record.idempotency if context.wall - k.at < KEPT_MS and k.key != asked.key]
    return attrs.evolve(outcome, record=attrs.evolve(record, idempotency=_within_bounds((*young, said))), answer=answer)


def _within_bounds(answers: tuple[IdempotentAnswer, ...]) -> tuple[IdempotentAnswer, ...]:
    """The latest ones that fit, the very last in any case."""
    kept: list[IdempotentAnswer] = []
    size = 0
    for answer in reversed(answers[-KEPT_ANSWERS:]):
        size += len(answer.answer)
        if kept and size > KEPT_CHARACTERS:
            break
        kept.append(answer)
    return tuple(reversed(kept))


def _answer(
    told: StreamRecord | StreamTombstone, outcome: StreamOutcome, command: AdminCommand, context: StreamContext
) -> str:
    said: dict[str, object] = {"action": ACTIONS[type(command)]}
    if isinstance(told, StreamRecord):
        said["shardCount"] = told.routed_count
        if isinstance(command, DeleteStream):
            said["metadataVersion"] = told.version.revision
    if isinstance(command, DeleteGroup) and context.group is not None:
        said["group"] = group_text(context.group)
    if outcome.resharding is not None:
        said |= {
            "reshardingId": outcome.resharding.id,
            "fromShardCount": outcome.resharding.from_count,
            "toShardCount": outcome.resharding.to_count,
        }
    return json.dumps(said, sort_keys=True)


def stream_of_answer(prefix: StreamPrefix, answer: str) -> StreamFacts:
    """What a delete of a stream was answered."""
    said = json.loads(answer)
    return StreamFacts(prefix, said["shardCount"], said["metadataVersion"])


def group_of_answer(answer: str) -> GroupFacts | None:
    """What a delete of a group was answered; None if it was gone already."""
    kept = json.loads(answer).get("group")
    return None if kept is None else group_of_text(kept)
