"""The dispatch: what a heartbeat, or time passing, does to a group. First match decides."""

from typing import assert_never

import attrs

from streamshard.core import correction, handover, history, membership
from streamshard.core.commands import PROTOCOL_VERSION, Heartbeat, Hold, Intent
from streamshard.core.correction import Claim
from streamshard.core.group import TERMINAL, GroupRecord, Member, MemberState, Row
from streamshard.core.ids import InstanceId, Seq, ShardIndex, extend_ring, next_version
from streamshard.core.outcome import (
    Accepted,
    Context,
    Decision,
    Fence,
    LostWrites,
    Refusal,
    Replay,
    Rows,
    Standing,
    TickOutcome,
)
from streamshard.core.replies import Status
from streamshard.core.sight import GroupSight


def decide(record: GroupRecord, rows: Rows, beat: Heartbeat, context: Context, sight: GroupSight) -> Decision:
    """Decide one heartbeat (see `identified`) against a group's record; never raises for what a member may send."""
    unspeakable = _unspeakable(record, beat)
    if unspeakable is not None:
        return unspeakable
    if membership.is_impostor(record.members.get(beat.member), beat):
        return _fenced(Fence.STALE, f"'{beat.member}' speaks through another account: join as a new instance")
    claim, version = correction.judge(record, beat, context.mac_key)
    if claim is Claim.LOST:
        lineage = version.lineage if version is not None else None
        return LostWrites(f"member '{beat.member}' holds a view that was issued and is not on record", lineage)
    decision: Decision
    match beat.intent:
        case Intent.JOIN:
            decision = _join(record, rows, beat, context, sight)
        case Intent.LEAVE:
            decision = _leave(record, rows, beat, context)
        case Intent.STAY:
            decision = _stay(record, rows, beat, context, claim)
        case _:
            assert_never(beat.intent)
    if isinstance(decision, Accepted):
        stamped = stamp(record, decision.record, context)
        return attrs.evolve(decision, record=stamped, row=_numbered(decision.row, beat, stamped))
    return decision


def _numbered(row: Row | None, beat: Heartbeat, answered: GroupRecord) -> Row | None:
    """An older client's next report has to come after this answer, so its row keeps the answer's version."""
    return attrs.evolve(row, seq=Seq(answered.metadata_version)) if row is not None and beat.legacy else row


def _unspeakable(record: GroupRecord, beat: Heartbeat) -> Refusal | None:
    if beat.protocol_version != PROTOCOL_VERSION:
        text = f"coordination version {beat.protocol_version} is not spoken here: use version {PROTOCOL_VERSION}"
        return Refusal(Status.UNSUPPORTED_PROTOCOL, text)
    if beat.legacy and not record.allow_legacy:
        text = (
            "this client sends no instanceId, so it has no lease and no fenced reads: upgrade it, "
            "or create the group with allowLegacyMembers"
        )
        return Refusal(Status.UNSUPPORTED_PROTOCOL, text)
    return None


def identified(record: GroupRecord, beat: Heartbeat) -> Heartbeat:
    """Give a client of the older contract its epoch's instance, its version as seq, its shards as holds."""
    if beat.instance is not None:
        return beat
    member = record.members.get(beat.member)
    instance = member.instance if member and _speaks_for(beat, member) else None
    holds = tuple(
        Hold(shard, record.holdings[shard].token, draining=shard not in beat.owned)
        for shard in sorted(_still_read(beat))
        if shard in record.holdings and record.holdings[shard].instance == instance
    )
    return attrs.evolve(beat, instance=instance, seq=Seq(beat.metadata_version), holds=holds, legacy=True)


def _still_read(beat: Heartbeat) -> set[ShardIndex]:
    """What an older client has not finished with; its goodbye names everything it owned, finished or not."""
    kept = set() if beat.intent is Intent.LEAVE else set(beat.owned)
    return {*beat.owned, *beat.revoking} - (set(beat.revoked) - kept)


def _speaks_for(beat: Heartbeat, member: Member) -> bool:
    if beat.intent is Intent.LEAVE:  # carries no epoch: its version must be of this life
        return member.legacy and beat.metadata_version >= member.joined_version
    return member.legacy and member.epoch == beat.epoch


def _join(record: GroupRecord, rows: Rows, beat: Heartbeat, context: Context, sight: GroupSight) -> Decision:
    member = record.members.get(beat.member)
    if member is not None and member.instance == beat.instance:
        if not member.live:
            return _fenced(
                Fence.ENDED, f"instance {beat.instance} of '{beat.member}' has ended: join as a new instance"
            )
        return _renew(record, rows, beat, context, Standing.PRESENT)
    if beat.instance is not None and (beat.instance in record.longest_leases or beat.instance in record.departed):
        return _fenced(
            Fence.ENDED, f"instance {beat.instance} had its life under '{beat.member}': join as a new instance"
        )
    held = membership.name_holder(record, beat, context.timing.heartbeat_ms, sight)
    if held is not None:
        return held
    instance = beat.instance or InstanceId(f"legacy-{context.nonce}")
    admitted = membership.admit(record, beat, instance, context)
    decision = _renew(admitted, rows, attrs.evolve(beat, instance=instance), context, Standing.PRESENT)
    if isinstance(decision, Accepted) and member is not None and member.live:
        unheard = {member.instance: sight.rows[member.instance].mark}  # the name is taken over only if it still is
        return attrs.evolve(decision, same_rows=unheard)
    return decision


def _leave(record: GroupRecord, rows: Rows, beat: Heartbeat, context: Context) -> Decision:
    """A goodbye counts from its own instance only: it frees what it no longer lists, the rest drains on."""
    instance = beat.instance
    if instance is None or instance not in record.longest_leases:
        return Refusal(Status.UNKNOWN_MEMBER_ID, f"this instance of '{beat.member}' has left, or was never here")
    member = record.members.get(beat.member)
    own = member if member and member.instance == instance and member.state not in TERMINAL else None
    if _seen(rows, instance, beat):
        return Replay()
    left = handover.take_report(record, beat, instance, context.raised)
    if own is not None:
        left = membership.depart(left, own)
    left = membership.forget_gone(membership.remember_lease(left, instance, context.timing.lease_ms))
    return Accepted(handover.retarget(left), instance, _row(beat, instance, context), force_row=beat.legacy)


def _stay(record: GroupRecord, rows: Rows, beat: Heartbeat, context: Context, claim: Claim) -> Decision:
    member = record.members.get(beat.member)
    if member is None:
        return Refusal(Status.UNKNOWN_MEMBER_ID, f"no member '{beat.member}' in {record.key}: join again")
    if not member.live or member.epoch != beat.epoch or member.instance != beat.instance:
        why = f"'{beat.member}' is now in epoch {member.epoch}, {member.state.value}: join as a new instance"
        return _fenced(Fence.STALE if member.live else Fence.ENDED, why)
    if _seen(rows, member.instance, beat):
        return Replay()
    if claim is Claim.WILD:
        record = membership.claim_ignored(record, beat.member, context.wall)
        if record.members[beat.member].state is MemberState.FENCED:
            refusal = _fenced(
                Fence.CLAIMS, "versions were claimed again and again that nobody issued: join as a new instance"
            )
            return Accepted(handover.retarget(record), member.instance, None, refusal=refusal)
    return _renew(record, rows, beat, context, _standing(record, claim))


def _standing(record: GroupRecord, claim: Claim) -> Standing:
    if claim in (Claim.WILD, Claim.PAST) or (claim is Claim.NONE and record.quarantine is not None):
        return Standing.CATCHING_UP
    return Standing.PRESENT


def _renew(record: GroupRecord, rows: Rows, beat: Heartbeat, context: Context, standing: Standing) -> Decision:
    """Accept a live member's report: release, adopt, reconcile, grant; then renew."""
    member = record.members[beat.member]
    if _seen(rows, member.instance, beat):
        return Replay()
    shard = handover.usurped(record, beat)
    if shard is not None:
        why = f"shard {shard} is held by another instance: stop reading it and join as a new instance"
        return _fenced(Fence.USURPED, why)
    shard = correction.implausible(record, beat, context.wall)
    if shard is not None:
        return _fenced(Fence.UNISSUED, f"the token listed for shard {shard} was never issued: join as a new instance")
    reported = record
    if _in_order(record, rows, beat):
        reported = handover.take_report(record, beat, member.instance, context.raised)
    after = _reconcile(reported, beat, member, context, standing)
    row = _row(beat, member.instance, context)
    return Accepted(after, member.instance, row, standing, force_row=beat.legacy)


def _in_order(record: GroupRecord, rows: Rows, beat: Heartbeat) -> bool:
    """Whether a report is known to be later than the one before.

    An older client has its metadata version for that alone: a report that it sent without the last answer,
    or under a version that nobody issued, may have been overtaken. It renews, and frees nothing.
    """
    row = rows.get(beat.instance) if beat.instance is not None else None
    return not beat.legacy or (row.seq if row is not None else 0) <= beat.seq <= record.metadata_version


def _reconcile(
    record: GroupRecord, beat: Heartbeat, member: Member, context: Context, standing: Standing
) -> GroupRecord:
    after = correction.adopt(record, beat, member.instance)
    after = membership.remember_lease(after, member.instance, context.timing.lease_ms)
    if beat.intent is Intent.STAY:
        after = membership.refresh(after, beat)
    if standing is Standing.PRESENT:
        after = membership.claim_settled(after, member.id)
    after = handover.retarget(handover.adopt_layout(after, context.layout))
    if after.quarantine is None and standing is Standing.PRESENT:
        seq = Seq(record.metadata_version) if member.legacy else beat.seq
        after = handover.grant(after, after.members[member.id], seq, context.wall)
    return after


def _row(beat: Heartbeat, instance: InstanceId, context: Context) -> Row:
    return Row(instance, beat.seq, context.nonce, context.timing.lease_ms, beat.available, beat.progress, beat.late)


def _seen(rows: Rows, instance: InstanceId, beat: Heartbeat) -> bool:
    row = rows.get(instance)
    return row is not None and beat.seq <= row.seq and not beat.legacy


def _fenced(why: Fence, message: str) -> Refusal:
    return Refusal(Status.FENCED_MEMBER_EPOCH, message, fence=why)


def stamp(before: GroupRecord, after: GroupRecord, context: Context) -> GroupRecord:
    """Give a changed record its next version; an unchanged one stays the very object it was."""
    if after is before or after.version != before.version:  # a new lineage has stamped itself
        return after
    stamped = attrs.evolve(
        after,
        version=next_version(before.version, context.nonce),
        ring=extend_ring(before.ring, context.nonce),
        metadata_version=before.metadata_version + 1,
    )
    return history.told(before, stamped, context.wall)


def decide_tick(record: GroupRecord, rows: Rows, context: Context, sight: GroupSight) -> TickOutcome:
    """Decide what time alone has done to a group, as this coordinator has itself seen it pass."""
    silent = membership.silent_instances(record, sight)
    after = record
    for instance in silent:
        after = membership.expire(after, instance, context.wall)
    after = _lapse(after, context, sight)
    after = handover.free_lapsed(after, sight, context.now, context.timing.lease_ms)
    if correction.quarantine_over(after, sight, context.now, context.timing.lease_ms):
        after = attrs.evolve(after, quarantine=None)
    after = membership.forget_old(after, context.wall, context.timing.terminal_ms)
    after = handover.retarget(handover.adopt_layout(after, context.layout))
    same_rows = {instance: sight.rows[instance].mark for instance in silent}
    return TickOutcome(stamp(record, after, context), same_rows, membership.stale_rows(rows.values(), after))


def _lapse(record: GroupRecord, context: Context, sight: GroupSight) -> GroupRecord:
    """One stuck handler costs one shard; a client of the older contract, which has no leases, is fenced whole."""
    late = handover.overdue(record, sight, context.now, context.timing.rebalance_timeout_ms)
    for shard in late:
        holding = record.holdings[shard]
        member = record.members.get(holding.member)
        if member is not None and member.legacy and member.live and member.instance == holding.instance:
            late = (*late, *record.held_by(member.instance))
            record = membership.end(record, member, MemberState.FENCED, context.wall)
    return handover.lapse(record, late)
