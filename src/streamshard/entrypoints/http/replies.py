"""What the coordinator answers operators and producers, field by field."""

import functools
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from streamshard.core.facts import GroupFacts, StreamFacts, group_facts, stream_facts
from streamshard.core.group import GroupRecord, Holding, Member, Row, ShardProgress
from streamshard.core.ids import GroupKey, MemberId, ShardIndex, StreamPrefix, WallMillis, stream_key
from streamshard.core.queries import GroupView, Health, MigrationView, is_present
from streamshard.core.replies import Routing
from streamshard.core.slots import hash_slot
from streamshard.core.stream import DrainLook, StreamRecord

Json = dict[str, object]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(at: WallMillis) -> str:
    """ISO-8601 in UTC with milliseconds and ``Z``."""
    return (_EPOCH + timedelta(milliseconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shard_ref(shard: ShardIndex) -> Json:
    """How a shard is always spelt."""
    return {"shardIndex": shard}


def shard_refs(shards: Iterable[ShardIndex]) -> list[Json]:
    """A set of shards, sorted by index."""
    return [shard_ref(shard) for shard in sorted(shards)]


def shard_place(prefix: StreamPrefix, shard: ShardIndex) -> Json:
    """A shard with its key and the cluster slot of the key."""
    key = stream_key(prefix, shard)
    return {"shardIndex": shard, "streamKey": key, "redisSlot": hash_slot(key)}


def group_json(view: GroupView, active: MigrationView | None) -> Json:
    """A group as operators see it."""
    return group_facts_json(group_facts(view), active)


def group_facts_json(facts: GroupFacts, active: MigrationView | None) -> Json:
    """The same of a group that may be gone by now."""
    return {
        "streamPrefix": facts.key.prefix,
        "consumerGroup": facts.key.group,
        "state": facts.state.value,
        "groupEpoch": facts.group_epoch,
        "assignmentEpoch": facts.assignment_epoch,
        "metadataVersion": facts.metadata_version,
        "shardCount": facts.shard_count,
        "activeMigration": None if active is None else migration_json(active),
        "targetAssignmentSummary": dict(facts.targets),
        "currentAssignmentSummary": dict(facts.holdings),
        "quarantine": facts.quarantine,
    }


def migration_json(view: MigrationView) -> Json:
    """A resharding, and why it waits if it does."""
    resharding = view.resharding
    return {
        "reshardingId": resharding.id,
        "fromShardCount": resharding.from_count,
        "toShardCount": resharding.to_count,
        "state": resharding.state.value,
        "createdAt": instant(resharding.created_at),
        "updatedAt": instant(resharding.updated_at),
        "rollbackEligible": view.rollback_eligible,
        "provisioning": {"done": view.provisioned, "total": view.to_provision},
        "draining": [_drain(look) for look in view.draining],
        "ignoreForeignGroups": sorted(resharding.ignore_foreign_groups),
        "requestedBy": resharding.requested_by,
        "reason": resharding.reason,
    }


def _drain(look: DrainLook) -> Json:
    return {
        "shardIndex": look.shard,
        "consumerGroup": look.group,
        "pending": look.pending,
        "lag": look.lag,
        "firstRecordId": look.first_id,
        "reason": look.reason,
    }


def stream_summary(record: StreamRecord) -> Json:
    """What a create answers."""
    return stream_facts_json(stream_facts(record))


def stream_facts_json(facts: StreamFacts) -> Json:
    """The same of a stream that is gone."""
    return {
        "streamPrefix": facts.prefix,
        "shardCount": facts.shard_count,
        "metadataVersion": facts.metadata_version,
    }


def stream_json(record: StreamRecord, migrations: Iterable[MigrationView]) -> Json:
    """A stream with its layout, its groups and its reshardings, oldest first."""
    known = [migration_json(view) for view in migrations]
    active = None if record.resharding is None else record.resharding.id
    shards = [
        {**shard_place(record.prefix, shard.index), "generation": shard.generation, "phase": shard.phase.value}
        for shard in record.shards.values()
    ]
    groups = [
        {"consumerGroup": entry.name, "state": entry.state.value, "startFrom": entry.start_from}
        for entry in record.groups.values()
    ]
    return {
        **stream_summary(record),
        "state": record.state.value,
        "layoutVersion": record.layout_version,
        "routingProtocol": record.routing_protocol,
        "createdAt": instant(record.created_at),
        "shards": shards,
        "consumerGroups": groups,
        "activeMigration": next((migration for migration in known if migration["reshardingId"] == active), None),
        "migrations": known,
    }


def routing_tag(routing: Routing) -> str:
    """The entity tag: the layout's version within its lineage."""
    return f'"{routing.lineage}-{routing.layout_version}"'


@functools.lru_cache(maxsize=32)  # one of 16,384 shards is a megabyte
def routing_body(routing: Routing) -> bytes:
    """The routing's JSON; kept, because every producer asks for the same one."""
    prefix = routing.key.prefix
    return msgspec.json.encode(
        {
            "streamPrefix": prefix,
            "consumerGroup": routing.key.group,
            "metadataVersion": routing.metadata_version,
            "shardCount": routing.shard_count,
            "streamKeyPattern": f"{prefix}:{{shardIndex}}",
            "layoutVersion": routing.layout_version,
            "lineage": routing.lineage,
            "routingProtocol": routing.protocol,
            "leaseMs": routing.lease_ms,
            "reshardingActive": routing.resharding_active,
            "shards": [shard_place(prefix, ShardIndex(index)) for index in range(routing.shard_count)],
        }
    )


def health_json(health: Health) -> Json:
    """What was measured just now."""
    return {
        "status": health.status,
        "coordinatorId": health.coordinator_id,
        "redis": health.redis,
        "loop": health.loop,
        "store": health.store,
        "invariantViolations": list(health.invariant_violations),
    }


def member_json(view: GroupView, member: Member) -> Json:
    """A member; lease ends are kept on no clock that could be shown, so they are null."""
    record, row = view.record, view.rows.get(member.instance)
    held = record.held_by(member.instance)
    return {
        "memberId": member.id,
        "memberName": member.name,
        "state": member.state.value,
        "memberEpoch": member.epoch,
        "metadataVersion": record.metadata_version,
        "runtimeMaxConcurrency": member.max_concurrency,
        "activeConsumerWorkers": None if row is None else max(0, member.max_concurrency - row.available),
        "currentAssignment": shard_refs(shard for shard, holding in held.items() if holding.listed),
        "grantedAssignment": shard_refs(shard for shard, target in record.targets.items() if target == member.id),
        "revoking": shard_refs(shard for shard, h in held.items() if _leaving(record, shard, h)),
        "lastHeartbeatAt": None,
        "memberLeaseExpiresAt": None,
        "rebalanceTimeoutMs": None,
        "rebalanceDeadlineAt": None,
        "shardProgress": [_progress(record.key, p) for p in (row.progress if row else ())],
        "instanceId": member.instance,
        "leaseMs": None if row is None else row.lease_ms,
        "advertisedUrl": member.advertised_url,
        "clientVersion": member.client_version,
    }


def _progress(key: GroupKey, progress: ShardProgress) -> Json:
    return {
        "shard": shard_ref(progress.shard),
        "streamKey": stream_key(key.prefix, progress.shard),
        "lastDeliveredId": progress.last_delivered,
        "lastAckedId": progress.last_acked,
        "pendingCount": progress.pending,
        "inFlight": progress.in_flight,
        "readState": progress.read_state,
    }


def _leaving(record: GroupRecord, shard: ShardIndex, holding: Holding) -> bool:
    moving = record.targets.get(shard) != holding.member or not is_present(record, holding)
    return moving or holding.draining or holding.lapsed


def assignments_json(view: GroupView, violations: tuple[str, ...]) -> Json:
    """Who is to read what, who may be reading it now, and under which token."""
    record = view.record
    held = _by_member({shard: h.member for shard, h in record.holdings.items()})
    return {
        "targetAssignment": _by_member(record.targets),
        "currentAssignments": held,
        "revokeProgress": [
            {"shardIndex": shard, "memberId": h.member, "token": h.token, "lapsed": h.lapsed}
            for shard, h in record.holdings.items()
            if _leaving(record, shard, h)
        ],
        "invariantViolations": list(violations),
        "shards": [_shard_row(view, shard) for shard in sorted({*record.layout, *record.holdings})],
    }


def _by_member(owners: Mapping[ShardIndex, MemberId]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for shard, member in sorted(owners.items(), key=lambda owner: (owner[1], owner[0])):
        found.setdefault(member, []).append(shard_ref(shard))
    return found


def _shard_row(view: GroupView, shard: ShardIndex) -> Json:
    record, holding = view.record, view.record.holdings.get(shard)
    life = view.stream.shards.get(shard)
    row = None if holding is None else view.rows.get(holding.instance)
    progress = _progress_of(row, shard)
    return {
        **shard_place(record.key.prefix, shard),
        "owner": None if holding is None else holding.member,
        "target": record.targets.get(shard),
        "state": _ownership(record, shard, holding),
        "phase": None if life is None else life.phase.value,
        "generation": None if life is None else life.generation,
        "token": None if holding is None else holding.token,
        "lastToken": record.last_tokens.get(shard),
        "pendingCount": None if progress is None else progress.pending,
        "lastDeliveredId": None if progress is None else progress.last_delivered,
    }


def _progress_of(row: Row | None, shard: ShardIndex) -> ShardProgress | None:
    return next((p for p in row.progress if p.shard == shard), None) if row is not None else None


def _ownership(record: GroupRecord, shard: ShardIndex, holding: Holding | None) -> str:
    if holding is None:
        return "UNOWNED"
    if holding.lapsed:
        return "LAPSED"
    if _leaving(record, shard, holding):
        return "REVOKING"
    return "OWNED" if holding.listed else "GRANTED"
