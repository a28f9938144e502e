"""Answers to heartbeats: a pure function of what is committed, and of the fences known to be raised."""

from collections.abc import Set

import attrs

from streamshard.core import handover, views
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.group import GroupRecord, Holding, Member
from streamshard.core.ids import Epoch, InstanceId, Millis, ShardIndex
from streamshard.core.outcome import Refusal, Standing
from streamshard.core.replies import Extension, Grant, HeartbeatReply, RetryReason, Status
from streamshard.core.sight import GrantKey
from streamshard.core.timing import Timing

_REJECTED = frozenset({Status.UNSUPPORTED_PROTOCOL, Status.INVALID_REQUEST, Status.UNKNOWN_MEMBER_ID})


def reject(beat: Heartbeat, timing: Timing, refusal: Refusal) -> HeartbeatReply:
    """An answer that renews nothing and knows no group: empty sets, the sender's own epoch."""
    return HeartbeatReply(
        status=refusal.status,
        member=beat.member,
        epoch=beat.epoch,
        seq=beat.seq,
        heartbeat_ms=timing.heartbeat_ms,
        rebalance_timeout_ms=timing.rebalance_timeout_ms,
        lease_ms=timing.lease_ms,
        response_to=beat.request_id,
        message=refusal.message,
        retry_reason=refusal.retry_reason,
        retry_after_ms=timing.heartbeat_ms if refusal.retry_reason else None,
    )


def refuse(record: GroupRecord, beat: Heartbeat, timing: Timing, refusal: Refusal) -> HeartbeatReply:
    """An answer that renews nothing, with the group's real numbers where the sender is known to it."""
    reply = reject(beat, timing, refusal)
    if refusal.status in _REJECTED:
        return reply
    return attrs.evolve(
        reply,
        group_epoch=record.group_epoch,
        assignment_epoch=record.assignment_epoch,
        metadata_version=record.metadata_version,
    )


def retry(beat: Heartbeat, timing: Timing, reason: RetryReason, message: str) -> HeartbeatReply:
    """Nothing could be decided: change nothing, and send the full state again soon."""
    return reject(beat, timing, Refusal(Status.RETRY, message, reason))


@attrs.frozen
class Served:
    """What an answer to an accepted (or repeated) attempt is made from."""

    record: GroupRecord
    beat: Heartbeat
    instance: InstanceId
    lease_ms: Millis
    """Of the row that was written, not the answering coordinator's own setting."""
    standing: Standing
    raised: Set[GrantKey]
    renewed: bool = True
    """False for an attempt older than the last one taken: nothing is prolonged."""


def serve(served: Served, timing: Timing, mac_key: str) -> HeartbeatReply:
    """The full answer: what to read, what is still pending, and which deadlines move."""
    record, beat = served.record, served.beat
    member = record.members.get(beat.member)
    mine = member is not None and member.instance == served.instance
    held = _published(served, member) if member is not None and mine and beat.intent is not Intent.LEAVE else {}
    meant = record.meant_for(beat.member) if mine else ()
    return HeartbeatReply(
        status=_status(served),
        member=beat.member,
        epoch=member.epoch if member is not None and mine else Epoch(beat.epoch),
        seq=beat.seq,
        heartbeat_ms=timing.heartbeat_ms,
        rebalance_timeout_ms=timing.rebalance_timeout_ms,
        lease_ms=served.lease_ms,
        response_to=beat.request_id,
        group_epoch=record.group_epoch,
        assignment_epoch=record.assignment_epoch,
        metadata_version=record.metadata_version,
        assigned=tuple(held),
        pending=tuple(shard for shard in meant if shard not in held),
        grants=tuple(Grant(shard, h.token, h.generation) for shard, h in held.items()),
        extended=_extended(served) if served.renewed else (),
        view=views.mint(mac_key, record.key, record.version),
    )


def _status(served: Served) -> Status:
    """Judged on the record that is answered: a quarantine may have begun since the decision."""
    if served.standing is Standing.CATCHING_UP:
        return Status.SYNC_METADATA
    return Status.OK if served.record.quarantine is None else Status.REVOKE_PENDING


def _published(served: Served, member: Member) -> dict[ShardIndex, Holding]:
    """Assigned shards whose grant may be told: its fence is raised, or the holder has it already."""
    told = handover.listed(served.beat)
    return {
        shard: h
        for shard, h in handover.assigned(served.record, member).items()
        if (shard, h.token) in served.raised or (shard, h.token) in told
    }


def _extended(served: Served) -> tuple[Extension, ...]:
    told = handover.listed(served.beat)
    return tuple(
        Extension(shard, h.token)
        for shard, h in served.record.held_by(served.instance).items()
        if not h.lapsed and (shard, h.token) in told
    )
