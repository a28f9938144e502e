"""Flat rows for dashboards that can do no more than draw a table."""

import msgspec

from streamshard.core.group import MemberState
from streamshard.core.inspection import Direction
from streamshard.core.queries import GroupState
from streamshard.entrypoints.http.answers import Answer, Count, GroupId, Index, Moment, Prefix


class Option(msgspec.Struct, frozen=True):
    """One choice of a variable."""

    text: str = msgspec.field(name="__text")
    value: str = msgspec.field(name="__value")


class GroupRow(Answer, frozen=True):
    """A group in one line; rates are null, because nothing here remembers an earlier look."""

    stream_prefix: Prefix
    consumer_group: GroupId
    state: GroupState
    group_epoch: Count
    assignment_epoch: Count
    metadata_version: Count
    shard_count: Count
    active_members: Count
    total_members: Count
    current_shards: Count
    target_shards: Count
    assigned_shard_ratio: str
    revoking_shards: Count
    total_stream_length: Count | None
    total_pending_count: Count | None
    total_lag: Count | None
    produced_per_second: float | None
    consumed_per_second: float | None
    total_memory_usage_bytes: Count | None
    memory_usage_known: bool


class MemberRow(Answer, frozen=True):
    """A member in one line."""

    stream_prefix: Prefix
    consumer_group: GroupId
    member_id: str
    member_name: str
    state: MemberState
    member_epoch: Count
    metadata_version: Count
    current_shard_count: Count
    revoking_shard_count: Count
    runtime_max_concurrency: Count
    active_consumer_workers: Count | None
    last_heartbeat_at: Moment | None
    member_lease_expires_at: Moment | None
    handling_ms: Count | None
    heartbeat_lateness_ms: Count | None
    unread_shard_count: Count


class ShardRow(Answer, frozen=True):
    """A shard in one line."""

    stream_prefix: Prefix
    consumer_group: GroupId
    shard_count: Count
    shard_index: Index
    shard_label: str
    stream_key: str
    redis_slot: Index
    redis_node_endpoint: str | None
    stream_length: Count | None
    first_record_id: str | None
    last_record_id: str | None
    last_generated_id: str | None
    group_last_delivered_id: str | None
    consumer_last_delivered_id: str | None
    consumer_last_acked_id: str | None
    pending_count: Count | None
    lag: Count | None
    lag_known: bool
    produced_per_second: float | None
    consumed_per_second: float | None
    memory_usage_bytes: Count | None
    memory_usage_known: bool
    oldest_unacked_age_seconds: float | None
    target_owner_member_ids: str
    current_owner_member_ids: str
    owner_state: str
    owner_member_ids: str


class AssignmentRow(Answer, frozen=True):
    """Who reads a shard, who is to, and who is giving it up; empty text for nobody."""

    stream_prefix: Prefix
    consumer_group: GroupId
    shard_index: Index
    target_owners: str
    current_owners: str
    revoking_owners: str


class MessageRow(Answer, frozen=True):
    """A record in one line; ``fieldsJson`` holds base64 where text can't carry the fields."""

    stream_prefix: Prefix
    consumer_group: GroupId
    shard_index: Index
    shard_selector: str
    shard_label: str
    stream_key: str
    record_id: str
    payload: str | None
    fields_json: str
    page_direction: Direction
    page_limit: Count
    page_next_cursor: str | None
    page_total_messages: Count | None
    record_timestamp_ms: Count
    record_time: Moment | None
