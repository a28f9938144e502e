"""What the coordinator answers operators and producers: the core's values as wire types."""

import functools
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from streamshard.adapters.hashing import route
from streamshard.core.facts import GroupFacts, StreamFacts, group_facts, stream_facts
from streamshard.core.ids import GroupName, Millis, ShardIndex, StreamPrefix, WallMillis, stream_key
from streamshard.core.queries import GroupView, MigrationView, exclusivity
from streamshard.core.replies import Routing
from streamshard.core.slots import hash_slot
from streamshard.core.stream import DrainLook, GroupEntry, StreamRecord
from streamshard.core.unread import unread_shards
from streamshard.entrypoints.http import answers

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MOMENT_MS = 253_402_300_799_999
"""The end of the year 9999: no calendar goes on."""


def instant(at: WallMillis) -> str:
    """ISO-8601 in UTC with milliseconds and ``Z``."""
    moment = _EPOCH + timedelta(milliseconds=min(at, _LAST_MOMENT_MS))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shard_refs(shards: Iterable[ShardIndex]) -> list[answers.ShardRef]:
    """A set of shards, sorted by index."""
    return [answers.ShardRef(shard_index=shard) for shard in sorted(shards)]


def shard_place(prefix: StreamPrefix, shard: ShardIndex) -> answers.ShardPlace:
    """A shard with its key and the cluster slot of the key."""
    key = stream_key(prefix, shard)
    return answers.ShardPlace(shard_index=shard, stream_key=key, redis_slot=hash_slot(key))


def group_answer(view: GroupView, active: MigrationView | None, heartbeat: Millis) -> answers.Group:
    """A group as operators see it."""
    return group_facts_answer(group_facts(view), active, unread_shards(view.record, view.rows, heartbeat))


def group_facts_answer(
    facts: GroupFacts, active: MigrationView | None, unread: Iterable[ShardIndex] = ()
) -> answers.Group:
    """The same of a group that may be gone by now."""
    return answers.Group(
        stream_prefix=facts.key.prefix,
        consumer_group=facts.key.group,
        state=facts.state,
        group_epoch=facts.group_epoch,
        assignment_epoch=facts.assignment_epoch,
        metadata_version=facts.metadata_version,
        shard_count=facts.shard_count,
        active_migration=None if active is None else migration_answer(active),
        target_assignment_summary={member: shards for member, shards in facts.targets.items()},
        current_assignment_summary={member: shards for member, shards in facts.holdings.items()},
        quarantine=facts.quarantine,
        exclusivity=facts.exclusivity,
        unread_shards=shard_refs(unread),
    )


def migration_answer(view: MigrationView) -> answers.Migration:
    """A resharding, and why it waits if it does."""
    resharding = view.resharding
    return answers.Migration(
        resharding_id=resharding.id,
        from_shard_count=resharding.from_count,
        to_shard_count=resharding.to_count,
        state=resharding.state,
        created_at=instant(resharding.created_at),
        updated_at=instant(resharding.updated_at),
        rollback_eligible=view.rollback_eligible,
        provisioning=answers.Provisioning(done=view.provisioned, total=view.to_provision),
        draining=[_drain(look) for look in view.draining],
        ignore_foreign_groups=sorted(resharding.ignore_foreign_groups),
        requested_by=resharding.requested_by,
        reason=resharding.reason,
    )


def _drain(look: DrainLook) -> answers.Draining:
    return answers.Draining(
        shard_index=look.shard,
        consumer_group=look.group,
        pending=look.pending,
        lag=look.lag,
        first_record_id=look.first_id,
        reason=look.reason,
    )


def _stream_group(entry: GroupEntry) -> answers.StreamGroup:
    return answers.StreamGroup(
        consumer_group=entry.name, state=entry.state, start_from=entry.start_from, exclusivity=exclusivity(entry)
    )


def stream_summary(record: StreamRecord) -> answers.StreamSummary:
    """What a create answers."""
    return stream_facts_answer(stream_facts(record))


def stream_facts_answer(facts: StreamFacts) -> answers.StreamSummary:
    """The same of a stream that is gone."""
    return answers.StreamSummary(
        stream_prefix=facts.prefix, shard_count=facts.shard_count, metadata_version=facts.metadata_version
    )


def stream_answer(
    record: StreamRecord, migrations: Iterable[MigrationView], holders: Mapping[ShardIndex, GroupName]
) -> answers.Stream:
    """A stream with its layout, its groups and its reshardings, oldest first."""
    known = [migration_answer(view) for view in migrations]
    active = None if record.resharding is None else record.resharding.id
    return answers.Stream(
        stream_prefix=record.prefix,
        shard_count=record.routed_count,
        metadata_version=record.version.revision,
        state=record.state,
        layout_version=record.layout_version,
        routing_protocol=record.routing_protocol,
        retention=record.retention,
        created_at=instant(record.created_at),
        shards=_shards(record, holders),
        consumer_groups=[_stream_group(entry) for entry in record.groups.values()],
        active_migration=next((migration for migration in known if migration.resharding_id == active), None),
        migrations=known,
    )


def _shards(record: StreamRecord, holders: Mapping[ShardIndex, GroupName]) -> list[answers.StreamShard]:
    places = [(shard, stream_key(record.prefix, shard.index)) for shard in record.shards.values()]
    return [
        answers.StreamShard(
            shard_index=shard.index,
            stream_key=key,
            redis_slot=hash_slot(key),
            generation=shard.generation,
            phase=shard.phase,
            held_back_by=holders.get(shard.index),
        )
        for shard, key in places
    ]


def stream_row(record: StreamRecord, active: MigrationView | None) -> answers.StreamRow:
    """A stream in a list."""
    return answers.StreamRow(
        stream_prefix=record.prefix,
        shard_count=record.routed_count,
        metadata_version=record.version.revision,
        layout_version=record.layout_version,
        routing_protocol=record.routing_protocol,
        retention=record.retention,
        consumer_groups=sorted(record.groups),
        active_migration=None if active is None else migration_answer(active),
    )


def routing_tag(routing: Routing) -> str:
    """The entity tag: the layout's version within its lineage."""
    return f'"{routing.lineage}-{routing.layout_version}"'


@functools.lru_cache(maxsize=32)  # one of 16,384 shards is a megabyte
def routing_body(routing: Routing) -> bytes:
    """The routing's JSON; kept, because every producer asks for the same one."""
    prefix = routing.key.prefix
    return msgspec.json.encode(
        answers.RoutingAnswer(
            stream_prefix=prefix,
            consumer_group=routing.key.group,
            metadata_version=routing.metadata_version,
            shard_count=routing.shard_count,
            stream_key_pattern=f"{prefix}:{{shardIndex}}",
            layout_version=routing.layout_version,
            lineage=routing.lineage,
            routing_protocol=routing.protocol,
            lease_ms=routing.lease_ms,
            resharding_active=routing.resharding_active,
            shards=[shard_place(prefix, ShardIndex(index)) for index in range(routing.shard_count)],
        )
    )


def route_answer(record: StreamRecord, key: bytes, views: Iterable[GroupView]) -> answers.Route:
    """Where a key belongs, and who reads it there."""
    shard = route(record.routing_protocol, key, record.routed_count) if record.routed_count else None
    place = None if shard is None else shard_place(record.prefix, shard)
    return answers.Route(
        shard_index=shard,
        stream_key=None if place is None else place.stream_key,
        redis_slot=None if place is None else place.redis_slot,
        routing_protocol=record.routing_protocol,
        metadata_version=record.version.revision,
        owners=[
            answers.RouteOwner(consumer_group=view.record.key.group, member_id=view.record.holdings[shard].member)
            for view in views
            if shard is not None and shard in view.record.holdings
        ],
    )
