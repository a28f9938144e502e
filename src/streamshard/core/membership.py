"""Who is in the group: join, take over a name, leave, expire, be fenced, be forgotten."""

from collections.abc import Iterable, Sequence

import attrs

from streamshard.core.commands import Heartbeat
from streamshard.core.group import TERMINAL, GroupRecord, Member, MemberState, Row
from streamshard.core.ids import Epoch, InstanceId, MemberId, Millis, WallMillis
from streamshard.core.outcome import Context, Refusal
from streamshard.core.replies import RetryReason, Status
from streamshard.core.sight import GroupSight
from streamshard.core.timing import expiry_wait_ms

MAX_IGNORED_CLAIMS = 3
"""A member that goes on claiming versions nobody issued is fenced at this many."""

REMEMBERED_DEPARTED = 256
"""How many gone instances are remembered, so that a late duplicate of a join admits nobody."""


def name_holder(record: GroupRecord, beat: Heartbeat, heartbeat: Millis, sight: GroupSight) -> Refusal | None:
    """Refuse a newcomer while another instance under the same live name was heard of within two heartbeats."""
    member = record.members.get(beat.member)
    if member is None or not member.live or member.instance == beat.instance:
        return None
    silent = sight.silent_ms(member.instance)
    if silent > 2 * heartbeat:
        return None
    message = (
        f"member '{member.id}' is held by instance {member.instance}, heard of {silent} ms ago: "
        "stop that instance, or give this one another member id"
    )
    return Refusal(Status.RETRY, message, RetryReason.NAME_HELD)


def admit(record: GroupRecord, beat: Heartbeat, instance: InstanceId, context: Context) -> GroupRecord:
    """Give the name to ``instance`` under a new epoch.

    What an earlier instance holds stays with the name and blocks until that instance lets go or is
    silent for its L_s, so nothing moves to third members.
    """
    epoch = Epoch(record.group_epoch + 1)
    member = Member(
        id=beat.member,
        name=beat.member_name,
        instance=instance,
        epoch=epoch,
        state=MemberState.STARTING,
        joined_at=context.wall,
        joined_version=record.metadata_version + 1,
        max_concurrency=beat.max_concurrency,
        legacy=beat.legacy,
        advertised_url=beat.advertised_url,
        client_version=beat.client_version,
        principal=beat.principal,
    )
    return attrs.evolve(record, group_epoch=epoch, members={**record.members, member.id: member})


def is_impostor(member: Member | None, beat: Heartbeat) -> bool:
    """Another account speaks for this very life; where one of the two is unknown, nobody can tell."""
    if member is None or member.instance != beat.instance:
        return False
    return None not in (member.principal, beat.principal) and member.principal != beat.principal


def refresh(record: GroupRecord, beat: Heartbeat) -> GroupRecord:
    """Take in what a member says of itself; the same record if that is nothing new."""
    member = record.members[beat.member]
    said = attrs.evolve(
        member,
        state=MemberState.ACTIVE if member.state is MemberState.STARTING else member.state,
        name=beat.member_name,
        max_concurrency=beat.max_concurrency,
        advertised_url=beat.advertised_url,
        client_version=beat.client_version,
        principal=beat.principal or member.principal,
    )
    return record if said == member else _put(record, said)


def _put(record: GroupRecord, member: Member) -> GroupRecord:
    return attrs.evolve(record, members={**record.members, member.id: member})


def remember_lease(record: GroupRecord, instance: InstanceId, lease: Millis) -> GroupRecord:
    """Record the longest lease an instance is ever answered, before the answer that carries it."""
    longest = max(record.longest_leases.get(instance, Millis(0)), lease)
    if record.longest_leases.get(instance) == longest:
        return record
    return attrs.evolve(record, longest_leases={**record.longest_leases, instance: longest})


def depart(record: GroupRecord, member: Member) -> GroupRecord:
    """Take a member that said goodbye out of the assignment; it stays LEAVING while something of it drains."""
    epoch = Epoch(record.group_epoch + 1) if member.live else record.group_epoch
    members = dict(record.members)
    if record.held_by(member.instance):
        if member.state is MemberState.LEAVING:
            return record
        members[member.id] = attrs.evolve(member, state=MemberState.LEAVING)
    else:
        del members[member.id]
    return attrs.evolve(record, group_epoch=epoch, members=members)


def end(record: GroupRecord, member: Member, state: MemberState, at: WallMillis) -> GroupRecord:
    """Make a member terminal (EXPIRED or FENCED); what it holds is not touched here."""
    epoch = Epoch(record.group_epoch + 1) if member.live else record.group_epoch
    ended = attrs.evolve(member, state=state, ended_at=at)
    return attrs.evolve(_put(record, ended), group_epoch=epoch)


def claim_ignored(record: GroupRecord, member: MemberId, at: WallMillis) -> GroupRecord:
    """Count a claim of a version that nobody issued; the third in a row fences its sender alone."""
    said = record.members[member]
    counted = attrs.evolve(said, ignored_claims=said.ignored_claims + 1)
    if counted.ignored_claims >= MAX_IGNORED_CLAIMS:
        return end(record, counted, MemberState.FENCED, at)
    return _put(record, counted)


def claim_settled(record: GroupRecord, member: MemberId) -> GroupRecord:
    """Forget earlier claims of a member that has caught up."""
    said = record.members[member]
    return record if not said.ignored_claims else _put(record, attrs.evolve(said, ignored_claims=0))


def silent_instances(record: GroupRecord, sight: GroupSight) -> tuple[InstanceId, ...]:
    """Instances whose row this coordinator has itself seen unchanged for their L_s."""
    return tuple(
        instance
        for instance, longest in record.longest_leases.items()
        if instance in sight.rows and sight.silent_ms(instance) >= expiry_wait_ms(longest)
    )


def expire(record: GroupRecord, instance: InstanceId, at: WallMillis) -> GroupRecord:
    """Free everything a silent instance held, and end its member if the name is still its own."""
    holdings = {shard: h for shard, h in record.holdings.items() if h.instance != instance}
    leases = {i: lease for i, lease in record.longest_leases.items() if i != instance}
    freed = attrs.evolve(_departed(record, [instance]), holdings=holdings, longest_leases=leases)
    for member in record.members.values():
        if member.instance == instance and member.state not in TERMINAL:
            return end(freed, member, MemberState.EXPIRED, at)
    return freed


def forget_old(record: GroupRecord, now: WallMillis, keep_ms: Millis) -> GroupRecord:
    """Drop members that have been terminal for long, and what is remembered of instances that are gone."""
    members = {m.id: m for m in record.members.values() if m.ended_at is None or now - m.ended_at < keep_ms}
    kept = record if len(members) == len(record.members) else attrs.evolve(record, members=members)
    return forget_gone(kept)


def forget_gone(record: GroupRecord) -> GroupRecord:
    """Drop the longest leases of instances that are no longer a member's and hold nothing."""
    needed = {m.instance for m in record.members.values() if m.state not in TERMINAL}
    needed |= {h.instance for h in record.holdings.values()}
    leases = {i: lease for i, lease in record.longest_leases.items() if i in needed}
    gone = [i for i in record.longest_leases if i not in needed]
    return attrs.evolve(_departed(record, gone), longest_leases=leases) if gone else record


def _departed(record: GroupRecord, gone: Sequence[InstanceId]) -> GroupRecord:
    return attrs.evolve(record, departed=(*record.departed, *gone)[-REMEMBERED_DEPARTED:])


def stale_rows(rows: Iterable[Row], record: GroupRecord) -> tuple[InstanceId, ...]:
    """Rows of instances that the record no longer watches."""
    return tuple(sorted(row.instance for row in rows if row.instance not in record.longest_leases))
