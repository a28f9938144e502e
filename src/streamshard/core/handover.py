"""Revoke before assign: what a report releases, what lapses, what may be granted.

A holding ends in two ways only: its own instance reports, in a later heartbeat than the one that
granted it, that it no longer has it; or a coordinator has itself seen L_s of silence (of the instance,
or since a committed lapse). Timeouts, fences, false reports and other people's goodbyes free nothing.
"""

from collections.abc import Mapping, Set

import attrs

from streamshard.core.assignment import assign
from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.group import GroupRecord, Holding, Member
from streamshard.core.ids import Epoch, InstanceId, Instant, Millis, Seq, ShardIndex, Token, WallMillis
from streamshard.core.sight import GrantKey, GroupSight
from streamshard.core.stream import Layout
from streamshard.core.timing import expiry_wait_ms


def listed(beat: Heartbeat) -> Mapping[GrantKey, Hold]:
    """The beat's holds by shard and token: one under another token than the record's counts as not listed."""
    return {(h.shard, h.token): h for h in beat.holds}


def usurped(record: GroupRecord, beat: Heartbeat) -> ShardIndex | None:
    """A shard the beat lists, under a token not below the record's, that another instance holds."""
    for hold in beat.holds:
        holding = record.holdings.get(hold.shard)
        if holding and holding.instance != beat.instance and hold.token >= holding.token:
            return hold.shard
    return None


def take_report(record: GroupRecord, beat: Heartbeat, instance: InstanceId, raised: Set[GrantKey]) -> GroupRecord:
    """Release what the holder no longer lists, and note what it lists and drains. A join releases nothing.

    A grant that was never listed and whose fence is not known to be ``raised`` is not released: its raise
    is what tells whether an earlier grant was lost, whose holder may be reading. On a shard that is gone,
    where nothing can be raised any more, it lapses.
    """
    changed: dict[ShardIndex, Holding | None] = {}
    told = listed(beat)
    for shard, holding in record.held_by(instance).items():
        hold = told.get((shard, holding.token))
        if hold is not None:
            draining = holding.draining or hold.draining or beat.intent is Intent.LEAVE
            if not holding.listed or draining != holding.draining:
                changed[shard] = attrs.evolve(holding, listed=True, draining=draining)
        elif _omitted(shard, holding, beat):
            changed[shard] = _let_go(record, shard, holding, confirmed=beat.legacy or (shard, holding.token) in raised)
    return _changed(record, changed)


def _changed(record: GroupRecord, changes: Mapping[ShardIndex, Holding | None]) -> GroupRecord:
    changes = {s: h for s, h in changes.items() if record.holdings[s] is not h}
    if not changes:
        return record
    holdings = {**record.holdings, **changes}
    return attrs.evolve(record, holdings={s: h for s, h in holdings.items() if h is not None})


def _omitted(shard: ShardIndex, holding: Holding, beat: Heartbeat) -> bool:
    if beat.intent is Intent.JOIN or beat.seq <= holding.seq:
        return False
    return holding.listed or not beat.legacy or shard in beat.revoked


def _let_go(record: GroupRecord, shard: ShardIndex, holding: Holding, *, confirmed: bool) -> Holding | None:
    if holding.listed or confirmed:
        return None
    return holding if shard in record.layout else attrs.evolve(holding, lapsed=True)


def unconfirmed(record: GroupRecord, beat: Heartbeat, sight: GroupSight) -> dict[ShardIndex, Holding]:
    """Grants that the beat leaves out before anybody is known to have had their fences raised."""
    if beat.intent is Intent.JOIN or beat.instance is None or beat.legacy:
        return {}
    told = listed(beat)
    return {
        shard: h
        for shard, h in record.held_by(beat.instance).items()
        if not h.listed and not h.lapsed and (shard, h.token) not in sight.raised and (shard, h.token) not in told
    }


def adopt_layout(record: GroupRecord, layout: Layout) -> GroupRecord:
    """Assign over a newer layout; an older one (a paused coordinator's) is passed over."""
    if layout.version <= record.layout_version:
        return record
    moved = set(layout.shards) != set(record.layout)
    epoch = Epoch(record.group_epoch + 1) if moved else record.group_epoch
    return attrs.evolve(record, layout_version=layout.version, layout=layout.shards, group_epoch=epoch)


def retarget(record: GroupRecord) -> GroupRecord:
    """Install targets if members or shards changed since the last time, moving the fewest shards."""
    if record.assignment_epoch == record.group_epoch:
        return record
    live = [m.id for m in record.members.values() if m.live]
    targets = assign(record.targets, live, record.layout)
    return attrs.evolve(record, targets=targets, assignment_epoch=record.group_epoch)


def grant(record: GroupRecord, member: Member, seq: Seq, wall: WallMillis) -> GroupRecord:
    """Give a live member every shard that is meant for it and that nobody holds, each under a new token."""
    free = [s for s in record.meant_for(member.id) if s not in record.holdings]
    if not free:
        return record
    tokens, holdings = dict(record.last_tokens), dict(record.holdings)
    for shard in free:
        floor = tokens.get(shard, Token(0))
        tokens[shard] = Token(max(floor, wall) + 1)
        generation = record.layout[shard]
        holdings[shard] = Holding(member.id, member.instance, generation, tokens[shard], floor, seq, since=wall)
    return attrs.evolve(record, last_tokens=tokens, holdings=holdings)


def overdue(record: GroupRecord, sight: GroupSight, now: Instant, timeout: Millis) -> tuple[ShardIndex, ...]:
    """Holdings that should have been given up a rebalance timeout ago, as this coordinator saw it."""
    return tuple(
        shard
        for shard, h in record.holdings.items()
        if not h.lapsed and _waited(sight.to_drain, (shard, h.token), now, timeout)
    )


def lapse(record: GroupRecord, shards: tuple[ShardIndex, ...]) -> GroupRecord:
    """Mark holdings as never to be extended again; it is these holdings alone that lapse."""
    if not shards:
        return record
    lapsed = {s: attrs.evolve(record.holdings[s], lapsed=True) for s in shards}
    return attrs.evolve(record, holdings={**record.holdings, **lapsed})


def free_lapsed(record: GroupRecord, sight: GroupSight, now: Instant, lease: Millis) -> GroupRecord:
    """Free holdings whose committed lapse this coordinator has itself seen for L_s."""
    free = {
        shard: None
        for shard, h in record.holdings.items()
        if _waited(sight.lapsed, (shard, h.token), now, _wait_of(record, h, lease))
    }
    return _changed(record, free)


def _wait_of(record: GroupRecord, holding: Holding, lease: Millis) -> Millis:
    return expiry_wait_ms(record.longest_leases.get(holding.instance, lease))


def _waited(since: Mapping[GrantKey, Instant], key: GrantKey, now: Instant, wait: Millis) -> bool:
    return key in since and now - since[key] >= wait


def assigned(record: GroupRecord, member: Member) -> dict[ShardIndex, Holding]:
    """What the member's present instance holds and is meant to go on holding."""
    return {
        shard: h
        for shard, h in record.held_by(member.instance).items()
        if member.live and record.targets.get(shard) == member.id and not h.draining and not h.lapsed
    }


def unraised(record: GroupRecord, beat: Heartbeat, member: Member, sight: GroupSight) -> dict[ShardIndex, Holding]:
    """Grants to answer whose fence is not known to be raised; one the holder lists was published before."""
    told = listed(beat)
    return {
        shard: h
        for shard, h in assigned(record, member).items()
        if (shard, h.token) not in sight.raised and (shard, h.token) not in told
    }
