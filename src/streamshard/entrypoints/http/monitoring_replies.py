"""What monitoring answers: the core's values as wire types. Unknown is null."""

from collections.abc import Mapping

from streamshard.core.commands import PROTOCOL_VERSION
from streamshard.core.compatibility import NEWEST, OLDEST, VERSIONS, ProtocolVersion, Release, iso_duration
from streamshard.core.group import GroupRecord, Holding, Member, Row, ShardProgress
from streamshard.core.ids import GroupKey, InstanceId, MemberId, Millis, ShardIndex, WallMillis, stream_key
from streamshard.core.offsets import Advice, Offsets, ShardOffset
from streamshard.core.presence import Presence
from streamshard.core.queries import FrozenGroup, GroupView, Health, MigrationView
from streamshard.core.slots import hash_slot
from streamshard.core.stream import StreamRecord
from streamshard.core.timeline import Happening
from streamshard.core.timing import Timing
from streamshard.core.unread import Unread, longest_handling, unread_shards
from streamshard.entrypoints.http import monitoring_answers as answers
from streamshard.entrypoints.http.answers import ShardRef
from streamshard.entrypoints.http.replies import instant, migration_answer, shard_refs

Presences = Mapping[InstanceId, Presence]


def health_answer(health: Health) -> answers.Health:
    """What was measured just now."""
    return answers.Health(
        status=health.status,
        coordinator_id=health.coordinator_id,
        redis=health.redis,
        loop=health.loop,
        store=health.store,
        invariant_violations=list(health.invariant_violations),
        exclusivity=health.exclusivity,
        cooperative_groups=list(health.cooperative_groups),
        unread_shards=list(health.unread_shards),
    )


def frozen_answer(group: FrozenGroup) -> answers.FrozenGroup:
    """A group that nothing is done to."""
    return answers.FrozenGroup(
        stream_prefix=group.key.prefix, consumer_group=group.key.group, state="FROZEN", reason=group.reason
    )


def compatibility_answer() -> answers.Compatibility:
    """Facts of this software."""
    return answers.Compatibility(
        current_coordination_version=PROTOCOL_VERSION,
        supported_coordination_versions=answers.VersionRange(min=OLDEST, max=NEWEST),
        coordination_versions=[_version(version) for version in VERSIONS],
    )


def _version(known: ProtocolVersion) -> answers.CoordinationVersion:
    timing = known.timing
    return answers.CoordinationVersion(
        version=known.version,
        status=known.status,
        introduced_in=_release(known.introduced_in),
        minimum_supported_until=_release(known.minimum_supported_until),
        deprecated_in=None if known.deprecated_in is None else _release(known.deprecated_in),
        removed_in=None if known.removed_in is None else _release(known.removed_in),
        timing_defaults=answers.TimingDefaults(
            heartbeat_interval=iso_duration(timing.heartbeat_ms),
            member_lease_ttl=iso_duration(timing.lease_ms),
            rebalance_timeout=iso_duration(timing.rebalance_timeout_ms),
            producer_routing_lease=iso_duration(timing.routing_lease_ms),
        ),
    )


def _release(release: Release) -> answers.ReleaseAnswer:
    return answers.ReleaseAnswer(
        major=release.major,
        minor=release.minor,
        patch=release.patch,
        qualifier=release.qualifier,
        version=release.version,
    )


def _moment(at: WallMillis | None) -> str | None:
    return None if at is None else instant(at)


def member_answer(view: GroupView, member: Member, presences: Presences, timing: Timing) -> answers.Member:
    """A member, with its signs of life as this coordinator has seen them."""
    record, row = view.record, view.rows.get(member.instance)
    own = {} if row is None else {member.instance: row}
    held, seen = record.held_by(member.instance), presences.get(member.instance)
    heard = None if seen is None else seen.heard_at
    meant = record.meant_for(member.id)
    return answers.Member(
        member_id=member.id,
        member_name=member.name,
        state=member.state,
        member_epoch=member.epoch,
        metadata_version=record.metadata_version,
        runtime_max_concurrency=member.max_concurrency,
        active_consumer_workers=None if row is None else max(0, member.max_concurrency - row.available),
        current_assignment=shard_refs(shard for shard, holding in held.items() if holding.listed),
        granted_assignment=shard_refs(meant),
        revoking=shard_refs(shard for shard, h in held.items() if is_leaving(record, shard, h)),
        last_heartbeat_at=_moment(heard),
        member_lease_expires_at=_moment(None if seen is None else seen.expires_at),
        rebalance_timeout_ms=timing.rebalance_timeout_ms,
        rebalance_deadline_at=_moment(None if seen is None else seen.drain_by),
        shard_progress=[_progress(record.key, p, heard) for p in (row.progress if row else ())],
        instance_id=member.instance,
        lease_ms=None if row is None else row.lease_ms,
        advertised_url=member.advertised_url,
        client_version=member.client_version,
        standby=member.live and not meant and not held,
        handling_ms=None if row is None else longest_handling(row),
        heartbeat_lateness_ms=None if row is None else row.late,
        unread=shard_refs(unread_shards(record, own, timing.heartbeat_ms)),
    )


def _progress(key: GroupKey, progress: ShardProgress, heard: WallMillis | None) -> answers.Progress:
    return answers.Progress(
        shard=ShardRef(shard_index=progress.shard),
        stream_key=stream_key(key.prefix, progress.shard),
        last_delivered_id=progress.last_delivered,
        last_acked_id=progress.last_acked,
        pending_count=progress.pending,
        in_flight=progress.in_flight,
        read_state=progress.read_state,
        last_read_age_ms=progress.read_ago,
        handling_ms=progress.handling_for,
        updated_at=_moment(heard),
    )


def consumption_answer(view: GroupView, presences: Presences) -> answers.ConsumptionProgress:
    """Every member's last report on every shard."""
    return answers.ConsumptionProgress(
        progress=[
            _consumption(view.record.key, member, progress, presences.get(member.instance))
            for member in view.record.members.values()
            for progress in (view.rows[member.instance].progress if member.instance in view.rows else ())
        ]
    )


def _consumption(key: GroupKey, member: Member, progress: ShardProgress, seen: Presence | None) -> answers.Consumption:
    return answers.Consumption(
        stream_prefix=key.prefix,
        consumer_group=key.group,
        member_id=member.id,
        member_name=member.name,
        member_state=member.state,
        shard=ShardRef(shard_index=progress.shard),
        stream_key=stream_key(key.prefix, progress.shard),
        last_delivered_id=progress.last_delivered,
        last_acked_id=progress.last_acked,
        pending_count=progress.pending,
        updated_at=_moment(None if seen is None else seen.heard_at),
    )


def is_leaving(record: GroupRecord, shard: ShardIndex, holding: Holding) -> bool:
    """The holder is to give the shard up."""
    return holding.draining or holding.lapsed or record.targets.get(shard) != holding.member


def by_member(owners: Mapping[ShardIndex, MemberId]) -> dict[str, list[ShardRef]]:
    """Shards by whom they belong to, both sorted."""
    found: dict[str, list[ShardRef]] = {}
    for shard, member in sorted(owners.items(), key=lambda owner: (owner[1], owner[0])):
        found.setdefault(member, []).append(ShardRef(shard_index=shard))
    return found


def assignments_answer(view: GroupView, violations: tuple[str, ...], heartbeat: Millis) -> answers.Assignments:
    """Who is to read what, who may be reading it now, and under which token."""
    record = view.record
    unread = unread_shards(record, view.rows, heartbeat)
    leaving = {shard: h.member for shard, h in record.holdings.items() if is_leaving(record, shard, h)}
    return answers.Assignments(
        target_assignment=by_member(record.targets),
        current_assignments=by_member({shard: h.member for shard, h in record.holdings.items()}),
        revoke_progress=by_member(leaving),
        invariant_violations=list(violations),
        shards=[_ownership(view, shard, unread.get(shard)) for shard in sorted({*record.layout, *record.holdings})],
    )


def _ownership(view: GroupView, shard: ShardIndex, unread: Unread | None) -> answers.ShardOwnership:
    record, holding = view.record, view.record.holdings.get(shard)
    life, key = view.stream.shards.get(shard), stream_key(view.record.key.prefix, shard)
    progress = _progress_of(None if holding is None else view.rows.get(holding.instance), shard)
    return answers.ShardOwnership(
        shard_index=shard,
        stream_key=key,
        redis_slot=hash_slot(key),
        owner=None if holding is None else holding.member,
        target=record.targets.get(shard),
        state=ownership_state(record, shard),
        phase=None if life is None else life.phase.value,
        generation=None if life is None else life.generation,
        token=None if holding is None else holding.token,
        last_token=record.last_tokens.get(shard),
        pending_count=None if progress is None else progress.pending,
        last_delivered_id=None if progress is None else progress.last_delivered,
        unread_ms=None if unread is None else unread.for_ms,
    )


def _progress_of(row: Row | None, shard: ShardIndex) -> ShardProgress | None:
    return next((p for p in row.progress if p.shard == shard), None) if row is not None else None


def ownership_state(record: GroupRecord, shard: ShardIndex) -> str:
    """UNOWNED, GRANTED (not reported yet), OWNED, REVOKING or LAPSED."""
    holding = record.holdings.get(shard)
    if holding is None:
        return "UNOWNED"
    if holding.lapsed:
        return "LAPSED"
    if is_leaving(record, shard, holding):
        return "REVOKING"
    return "OWNED" if holding.listed else "GRANTED"


def migrations_answer(stream: StreamRecord, known: tuple[MigrationView, ...]) -> answers.Migrations:
    """A stream's reshardings, oldest first."""
    return answers.Migrations(
        migrations=[migration_answer(migration) for migration in known],
        active_resharding_id=None if stream.resharding is None else stream.resharding.id,
    )


def offsets_answer(found: Offsets) -> answers.ShardOffsets:
    """How far a group is behind."""
    key = found.view.record.key
    return answers.ShardOffsets(
        stream_prefix=key.prefix,
        consumer_group=key.group,
        shards=[offset_answer(key, shard) for shard in found.shards],
        total_stream_length=found.length,
        total_pending_count=found.pending,
        total_lag=found.lag,
        total_trimmed_unread_count=found.missed,
        trimmed_unread_estimated=not found.missed_exact,
        total_memory_usage_bytes=found.memory_bytes,
        memory_usage_known=found.memory_bytes is not None,
        oldest_unacked_age_seconds=_seconds(found.oldest_unacked_ms),
    )


def offset_answer(key: GroupKey, shard: ShardOffset) -> answers.ShardOffset:
    """How far a group is behind on one shard."""
    look, progress, name = shard.look, shard.progress, stream_key(key.prefix, shard.look.shard)
    return answers.ShardOffset(
        stream_prefix=key.prefix,
        consumer_group=key.group,
        shard=ShardRef(shard_index=look.shard),
        stream_key=name,
        redis_slot=hash_slot(name),
        redis_node_endpoint=look.node,
        stream_length=look.length if look.exists else None,
        first_record_id=look.first_id,
        last_record_id=look.last_id,
        last_generated_id=look.last_generated,
        group_last_delivered_id=None if look.group is None else look.group.last_delivered,
        consumer_last_delivered_id=None if progress is None else progress.last_delivered,
        consumer_last_acked_id=None if progress is None else progress.last_acked,
        pending_count=look.pending,
        lag=look.lag,
        memory_usage_bytes=look.memory_bytes,
        trimmed_unread_count=look.missed,
        trimmed_unread_estimated=not look.missed_exact,
        owner_member_ids=[] if shard.owner is None else [shard.owner],
        oldest_unacked_age_seconds=_seconds(look.oldest_unacked_ms),
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def autoscale_answer(advice: Advice, warning: str | None) -> answers.Autoscale:
    """How many members would do."""
    return answers.Autoscale(
        backlog=advice.backlog,
        lag=advice.lag,
        pending=advice.pending,
        shards=advice.shards,
        max_replicas=advice.shards,
        suggested_replicas=advice.suggested,
        warning=warning,
    )


def events_answer(view: GroupView, limit: int) -> answers.Events:
    """The last changes of a group and its stream, and who held each shard."""
    told = [_event(e, "STREAM") for e in view.stream.events] + [_event(e, "GROUP") for e in view.record.events]
    return answers.Events(
        events=sorted(told, key=lambda event: event.at)[-limit:],
        ownership=_timelines(view.record),
    )


def _event(event: Happening, scope: str) -> answers.EventAnswer:
    return answers.EventAnswer(
        at=instant(event.at),
        scope=scope,
        kind=event.kind,
        member_id=event.member,
        shards=shard_refs(event.shards),
        text=event.text,
    )


def _timelines(record: GroupRecord) -> list[answers.Ownership]:
    found: dict[ShardIndex, list[answers.Held]] = {}
    for span in record.spans:
        found.setdefault(span.shard, []).append(_held(span.member, span.token, span.since, span.until))
    for shard, holding in record.holdings.items():
        found.setdefault(shard, []).append(_held(holding.member, holding.token, holding.since, None))
    return [
        answers.Ownership(shard_index=shard, stream_key=stream_key(record.key.prefix, shard), held=held)
        for shard, held in sorted(found.items())
    ]


def _held(member: MemberId, token: int, since: WallMillis, until: WallMillis | None) -> answers.Held:
    # An adopted holding was granted at a time that was lost.
    return answers.Held(member_id=member, token=token, since=_moment(since or None), until=_moment(until))
