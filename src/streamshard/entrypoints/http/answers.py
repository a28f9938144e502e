"""What the coordinator answers operators, producers and members, as types: the document is read off them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from streamshard.core.queries import Exclusivity, GroupState
from streamshard.core.replies import RetryReason, Status
from streamshard.core.stream import EntryState, ReshardingState, Retention, ShardPhase, StreamState

Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"}, examples=["2026-01-31T12:00:00.000Z"])]
Index = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
Slot = Annotated[int, Meta(ge=0, le=16383)]
Prefix = Annotated[str, Meta(examples=["orders"])]
GroupId = Annotated[str, Meta(examples=["billing"])]


def one_of(*words: str) -> Meta:
    """Says that a text is one of these."""
    return Meta(extra_json_schema={"enum": list(words)})


class Answer(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Every field is always there, as null where nothing is known."""


class Problem(Answer, frozen=True):
    """What went wrong: the code is for programs, the message for people."""

    status: Annotated[str, Meta(examples=["NOT_FOUND"])]
    error_code: Annotated[str, Meta(examples=["STREAM_NOT_FOUND"])]
    message: Annotated[str, Meta(examples=["no stream 'orders': create it first"])]
    retryable: bool
    details: dict[str, Any] | None


class TokenAnswer(Answer, frozen=True):
    """A token, and for how long it is one."""

    access_token: str
    token_type: str
    expires_at: Moment
    expires_in_seconds: Count
    roles: list[str]


class Revoked(Answer, frozen=True):
    """A token that is not accepted any more; lasting: also not by others who keep their list in the same file."""

    token_id: str
    lasting: bool


class ShardRef(Answer, frozen=True):
    """A shard, by its index."""

    shard_index: Index


class ShardPlace(ShardRef, frozen=True):
    """A shard, its key, and the key's slot in a cluster."""

    stream_key: Annotated[str, Meta(examples=["orders:0"])]
    redis_slot: Slot


class Draining(ShardRef, frozen=True):
    """A shard that a resharding waits for."""

    consumer_group: str | None
    pending: Count
    lag: Count | None
    first_record_id: str | None
    reason: str


class Provisioning(Answer, frozen=True):
    """How many of the shards to be added are made."""

    done: Count
    total: Count


class Migration(Answer, frozen=True):
    """A resharding, and why it waits if it does."""

    resharding_id: str
    from_shard_count: Count
    to_shard_count: Count
    state: ReshardingState
    created_at: Moment
    updated_at: Moment
    rollback_eligible: bool
    provisioning: Provisioning
    draining: list[Draining]
    ignore_foreign_groups: list[str]
    requested_by: str
    reason: str


class Group(Answer, frozen=True):
    """A group as operators see it."""

    stream_prefix: Prefix
    consumer_group: GroupId
    state: GroupState
    group_epoch: Count
    assignment_epoch: Count
    metadata_version: Count
    shard_count: Count
    active_migration: Migration | None
    target_assignment_summary: dict[str, Count]
    current_assignment_summary: dict[str, Count]
    quarantine: str | None
    exclusivity: Exclusivity
    unread_shards: list[ShardRef]


class StreamSummary(Answer, frozen=True):
    """What a create or a delete of a stream answers."""

    stream_prefix: Prefix
    shard_count: Count
    metadata_version: Count


class StreamShard(ShardPlace, frozen=True):
    """A shard: which life of its key this is, what may be done with it, which group holds its oldest records."""

    generation: Annotated[int, Meta(ge=1)]
    phase: ShardPhase
    held_back_by: str | None


class StreamGroup(Answer, frozen=True):
    """A group of a stream."""

    consumer_group: GroupId
    state: EntryState
    start_from: str
    exclusivity: Exclusivity


class Stream(StreamSummary, frozen=True):
    """A stream with its layout, its groups and its reshardings, oldest first."""

    state: StreamState
    layout_version: Count
    routing_protocol: str
    retention: Retention
    created_at: Moment
    shards: list[StreamShard]
    consumer_groups: list[StreamGroup]
    active_migration: Migration | None
    migrations: list[Migration]


class StreamRow(StreamSummary, frozen=True):
    """A stream in a list."""

    layout_version: Count
    routing_protocol: str
    retention: Retention
    consumer_groups: list[str]
    active_migration: Migration | None


class Streams(Answer, frozen=True):
    """Every stream in use, sorted by prefix."""

    streams: list[StreamRow]


class Scaled(Answer, frozen=True):
    """The answer to the scale of a stream."""

    stream_prefix: Prefix
    target_shard_count: Count
    affected_consumer_groups: list[str]
    migrations: list[Migration]


class RoutingAnswer(Answer, frozen=True):
    """What a producer needs to turn a key into a shard, and for how long it may be used."""

    stream_prefix: Prefix
    consumer_group: GroupId
    metadata_version: Count
    shard_count: Count
    stream_key_pattern: Annotated[str, Meta(examples=["orders:{shardIndex}"])]
    layout_version: Count
    lineage: str
    routing_protocol: str
    lease_ms: Count
    resharding_active: bool
    shards: list[ShardPlace]


class RouteOwner(Answer, frozen=True):
    """Who holds the shard in a group."""

    consumer_group: GroupId
    member_id: str


class Route(Answer, frozen=True):
    """Where a key belongs; nowhere while the stream has no shards."""

    shard_index: Index | None
    stream_key: str | None
    redis_slot: Slot | None
    routing_protocol: str
    metadata_version: Count
    owners: list[RouteOwner]


class Assignment(Answer, frozen=True):
    """The shards a member is to read, and those that are meant for it and not its own yet."""

    assigned_shards: list[ShardRef]
    pending_shards: list[ShardRef]
    metadata_version: Count


class Grant(ShardRef, frozen=True):
    """The right to read a shard under a token."""

    token: Count
    generation: Count


class Extension(ShardRef, frozen=True):
    """A hold whose deadline moves with this answer."""

    token: Count


class HeartbeatAnswer(Answer, frozen=True):
    """The answer to one heartbeat; durations, never timestamps."""

    response_to: str
    status: Status
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: Count
    rebalance_timeout_ms: Count
    group_epoch: Count
    assignment_epoch: Count
    metadata_version: Count
    assignment: Assignment
    lease_ms: Count
    seq: Count
    view: str | None
    grants: list[Grant]
    extended: list[Extension]
    retry_after_ms: Count | None
    retry_reason: RetryReason | None
    message: str | None


class HeartbeatAnswers(Answer, frozen=True):
    """One answer for each heartbeat, in their order."""

    replies: list[HeartbeatAnswer]


class News(Answer, frozen=True):
    """Whether there is news, and of what; ``members`` are those whom it concerns."""

    changed: bool
    layout_version: Count
    metadata_version: Count
    layout: str
    view: str | None
    members: list[str] | None


class Probe(Answer, frozen=True):
    """Up."""

    status: Annotated[str, one_of("UP")]
