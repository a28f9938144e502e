"""What every commit of a stream's record has in common: version, layout version, idempotency keys."""

import json

import attrs

from streamshard.core import history
from streamshard.core.ids import LayoutVersion, ReshardingId, Version, WallMillis, extend_ring, next_version
from streamshard.core.stream import IdempotentAnswer, Resharding, StreamRecord, StreamTombstone
from streamshard.core.stream_events import AdminCommand, StreamContext, StreamOutcome, refused
from streamshard.core.stream_shape import registered, taking_back
from streamshard.errors import IdempotencyKeyReused

KEPT_ANSWERS = 128
KEPT_MS = 24 * 3_600_000


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


def replay(record: StreamRecord, command: AdminCommand) -> StreamOutcome | None:
    """The outcome of a command whose idempotency key was seen before; None if it was not."""
    asked = command.author.idempotency
    known = next((answer for answer in record.idempotency if asked and answer.key == asked.key), None)
    if asked is None or known is None:
        return None
    if known.fingerprint != asked.fingerprint:
        text = "Idempotency-Key: it came before with another request: use a new key for a new request"
        return refused(record, IdempotencyKeyReused(text))
    about = json.loads(known.answer).get("reshardingId")
    return StreamOutcome(record, resharding=find_resharding(record, about), replayed=True, answer=known.answer)


def find_resharding(record: StreamRecord, wanted: ReshardingId | None) -> Resharding | None:
    """The resharding of that id, active or ended; None if there is none on record."""
    active = () if record.resharding is None else (record.resharding,)
    return next((known for known in (*active, *record.history) if known.id == wanted), None)


def remember(outcome: StreamOutcome, command: AdminCommand, action: str, wall: WallMillis) -> StreamOutcome:
    """Keep what the command is answered, under its idempotency key if it has one."""
    record, asked = outcome.record, command.author.idempotency
    if outcome.refusal is not None or not isinstance(record, StreamRecord):
        return outcome
    answer = _answer(action, record, outcome.resharding)
    if asked is None:
        return attrs.evolve(outcome, answer=answer)
    young = tuple(known for known in record.idempotency if wall - known.at < KEPT_MS)
    kept = (*young, IdempotentAnswer(asked.key, asked.fingerprint, answer, wall))[-KEPT_ANSWERS:]
    return attrs.evolve(outcome, record=attrs.evolve(record, idempotency=kept), answer=answer)


def _answer(action: str, record: StreamRecord, resharding: Resharding | None) -> str:
    said: dict[str, object] = {"action": action, "shardCount": record.routed_count}
    if resharding is not None:
        said |= {
            "reshardingId": resharding.id,
            "fromShardCount": resharding.from_count,
            "toShardCount": resharding.to_count,
        }
    return json.dumps(said, sort_keys=True)
