"""Flat rows out of the core's values."""

from streamshard.core.ids import GroupKey, MemberId, ShardIndex, stream_key
from streamshard.core.inspection import Entry, Wanted
from streamshard.core.offsets import Offsets, ShardOffset
from streamshard.core.queries import GroupView
from streamshard.core.timing import Timing
from streamshard.entrypoints.http.grafana_answers import AssignmentRow, GroupRow, MemberRow, MessageRow, ShardRow
from streamshard.entrypoints.http.messages import fields_text, record_answer
from streamshard.entrypoints.http.monitoring_replies import (
    Presences,
    is_leaving,
    member_answer,
    offset_answer,
    ownership_state,
)


def group_row(found: Offsets) -> GroupRow:
    """A group in one line."""
    record, shards = found.view.record, found.view.stream.routed_count
    leaving = [shard for shard, h in record.holdings.items() if is_leaving(record, shard, h)]
    return GroupRow(
        stream_prefix=record.key.prefix,
        consumer_group=record.key.group,
        state=found.view.state,
        group_epoch=record.group_epoch,
        assignment_epoch=record.assignment_epoch,
        metadata_version=record.metadata_version,
        shard_count=shards,
        active_members=sum(member.live for member in record.members.values()),
        total_members=len(record.members),
        current_shards=len(record.holdings),
        target_shards=len(record.targets),
        assigned_shard_ratio=f"{len(record.holdings)} / {shards}",
        revoking_shards=len(leaving),
        total_stream_length=found.length,
        total_pending_count=found.pending,
        total_lag=found.lag,
        produced_per_second=None,
        consumed_per_second=None,
        total_memory_usage_bytes=found.memory_bytes,
        memory_usage_known=found.memory_bytes is not None,
    )


def member_rows(view: GroupView, presences: Presences, timing: Timing) -> list[MemberRow]:
    """The members, each in one line."""
    members = [member_answer(view, member, presences, timing) for member in view.record.members.values()]
    return [
        MemberRow(
            stream_prefix=view.record.key.prefix,
            consumer_group=view.record.key.group,
            member_id=member.member_id,
            member_name=member.member_name,
            state=member.state,
            member_epoch=member.member_epoch,
            metadata_version=member.metadata_version,
            current_shard_count=len(member.current_assignment),
            revoking_shard_count=len(member.revoking),
            runtime_max_concurrency=member.runtime_max_concurrency,
            active_consumer_workers=member.active_consumer_workers,
            last_heartbeat_at=member.last_heartbeat_at,
            member_lease_expires_at=member.member_lease_expires_at,
            handling_ms=member.handling_ms,
            heartbeat_lateness_ms=member.heartbeat_lateness_ms,
            unread_shard_count=len(member.unread),
        )
        for member in members
    ]


def shard_rows(found: Offsets) -> list[ShardRow]:
    """The shards, each in one line."""
    return [_shard_row(found, shard) for shard in found.shards]


def _shard_row(found: Offsets, shard: ShardOffset) -> ShardRow:
    record, index = found.view.record, shard.look.shard
    offset, owner = offset_answer(record.key, shard), _name(shard.owner)
    return ShardRow(
        stream_prefix=record.key.prefix,
        consumer_group=record.key.group,
        shard_count=found.view.stream.routed_count,
        shard_index=index,
        shard_label=_label(index),
        stream_key=offset.stream_key,
        redis_slot=offset.redis_slot,
        redis_node_endpoint=offset.redis_node_endpoint,
        stream_length=offset.stream_length,
        first_record_id=offset.first_record_id,
        last_record_id=offset.last_record_id,
        last_generated_id=offset.last_generated_id,
        group_last_delivered_id=offset.group_last_delivered_id,
        consumer_last_delivered_id=offset.consumer_last_delivered_id,
        consumer_last_acked_id=offset.consumer_last_acked_id,
        pending_count=offset.pending_count,
        lag=offset.lag,
        lag_known=offset.lag is not None,
        produced_per_second=None,
        consumed_per_second=None,
        memory_usage_bytes=offset.memory_usage_bytes,
        memory_usage_known=offset.memory_usage_bytes is not None,
        oldest_unacked_age_seconds=offset.oldest_unacked_age_seconds,
        target_owner_member_ids=_name(record.targets.get(index)),
        current_owner_member_ids=owner,
        owner_state=ownership_state(record, index),
        owner_member_ids=owner,
    )


def assignment_rows(view: GroupView) -> list[AssignmentRow]:
    """Who reads what, shard by shard."""
    record = view.record
    return [
        AssignmentRow(
            stream_prefix=record.key.prefix,
            consumer_group=record.key.group,
            shard_index=shard,
            target_owners=_name(record.targets.get(shard)),
            current_owners=_name(_holder(view, shard)),
            revoking_owners=_name(_holder(view, shard)) if _leaves(view, shard) else "",
        )
        for shard in sorted({*record.layout, *record.holdings})
    ]


def _holder(view: GroupView, shard: ShardIndex) -> MemberId | None:
    holding = view.record.holdings.get(shard)
    return None if holding is None else holding.member


def _leaves(view: GroupView, shard: ShardIndex) -> bool:
    holding = view.record.holdings.get(shard)
    return holding is not None and is_leaving(view.record, shard, holding)


def _name(member: MemberId | None) -> str:
    return "" if member is None else member


def _label(shard: ShardIndex) -> str:
    return f"shard {shard}"


def message_row(key: GroupKey, shard: ShardIndex, entry: Entry, selector: str, wanted: Wanted) -> MessageRow:
    """A record in one line; what is known of the page is put in afterwards."""
    record = record_answer(entry)
    return MessageRow(
        stream_prefix=key.prefix,
        consumer_group=key.group,
        shard_index=shard,
        shard_selector=selector,
        shard_label=_label(shard),
        stream_key=stream_key(key.prefix, shard),
        record_id=record.record_id,
        payload=record.payload,
        fields_json=fields_text(record),
        page_direction=wanted.direction,
        page_limit=wanted.limit,
        page_next_cursor=None,
        page_total_messages=None,
        record_timestamp_ms=record.record_timestamp_ms,
        record_time=record.record_time,
    )
