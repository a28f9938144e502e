"""What monitoring answers, as types. Null stands for unknown, and never 0."""

from typing import Annotated

from msgspec import Meta

from streamshard.core.compatibility import Support
from streamshard.core.group import MemberState
from streamshard.core.inspection import Direction
from streamshard.core.queries import Exclusivity
from streamshard.entrypoints.http.answers import (
    Answer,
    Count,
    Group,
    GroupId,
    Index,
    Migration,
    Moment,
    Prefix,
    ShardPlace,
    ShardRef,
    one_of,
)

Duration = Annotated[str, Meta(extra_json_schema={"format": "duration"}, examples=["PT3S"])]


class Health(Answer, frozen=True):
    """What was measured just now."""

    status: Annotated[str, one_of("UP", "DEGRADED", "DOWN")]
    coordinator_id: str
    redis: Annotated[str, one_of("UP", "PARTLY_DOWN", "DOWN", "NOT_CONFIGURED")]
    loop: Annotated[str, one_of("UP", "STALLED")]
    store: Annotated[str, one_of("UP", "READ_ONLY", "DOWN")]
    invariant_violations: list[str]
    exclusivity: Exclusivity
    cooperative_groups: list[str]
    unread_shards: list[str]


class Session(Answer, frozen=True):
    """Who asks, and what they may do."""

    authenticated: bool
    username: str | None
    roles: list[str]


class ReleaseAnswer(Answer, frozen=True):
    """A release of this software."""

    major: Count
    minor: Count
    patch: Count
    qualifier: str | None
    version: str


class VersionRange(Answer, frozen=True):
    """Both ends belong to it."""

    min: Count
    max: Count


class TimingDefaults(Answer, frozen=True):
    """What members are answered unless the coordinator is set otherwise."""

    heartbeat_interval: Duration
    member_lease_ttl: Duration
    rebalance_timeout: Duration
    producer_routing_lease: Duration


class CoordinationVersion(Answer, frozen=True):
    """One version of the coordination protocol."""

    version: Count
    status: Support
    introduced_in: ReleaseAnswer
    minimum_supported_until: ReleaseAnswer
    deprecated_in: ReleaseAnswer | None
    removed_in: ReleaseAnswer | None
    timing_defaults: TimingDefaults


class Compatibility(Answer, frozen=True):
    """Which versions of the coordination protocol are spoken here."""

    current_coordination_version: Count
    supported_coordination_versions: VersionRange
    coordination_versions: list[CoordinationVersion]


class FrozenGroup(Answer, frozen=True):
    """A group that nothing is done to, because its record can't be trusted, and why."""

    stream_prefix: Prefix
    consumer_group: GroupId
    state: Annotated[str, one_of("FROZEN")]
    reason: str


class Groups(Answer, frozen=True):
    """Every group, sorted by stream and name."""

    groups: list[Group]
    frozen: list[FrozenGroup]


class Progress(Answer, frozen=True):
    """How far a member says it has got with a shard."""

    shard: ShardRef
    stream_key: str
    last_delivered_id: str | None
    last_acked_id: str | None
    pending_count: Count
    in_flight: Count
    read_state: str
    last_read_age_ms: Count | None
    handling_ms: Count | None
    updated_at: Moment | None


class Member(Answer, frozen=True):
    """A member. The instants are this coordinator's own sight of it, put on its wall clock."""

    member_id: str
    member_name: str
    state: MemberState
    member_epoch: Count
    metadata_version: Count
    runtime_max_concurrency: Count
    active_consumer_workers: Count | None
    current_assignment: list[ShardRef]
    granted_assignment: list[ShardRef]
    revoking: list[ShardRef]
    last_heartbeat_at: Moment | None
    member_lease_expires_at: Moment | None
    rebalance_timeout_ms: Count
    rebalance_deadline_at: Moment | None
    shard_progress: list[Progress]
    instance_id: str
    lease_ms: Count | None
    advertised_url: str | None
    client_version: str | None
    standby: bool
    handling_ms: Count | None
    heartbeat_lateness_ms: Count | None
    unread: list[ShardRef]


class Members(Answer, frozen=True):
    """The members of a group, sorted by id."""

    members: list[Member]


class ShardOwnership(ShardPlace, frozen=True):
    """Who reads a shard, who is to, and under which token."""

    owner: str | None
    target: str | None
    state: Annotated[str, one_of("UNOWNED", "GRANTED", "OWNED", "REVOKING", "LAPSED")]
    phase: str | None
    generation: Count | None
    token: Count | None
    last_token: Count | None
    pending_count: Count | None
    last_delivered_id: str | None
    unread_ms: Count | None


class Assignments(Answer, frozen=True):
    """Who is to read what, who may be reading it now, and what is being given up."""

    target_assignment: dict[str, list[ShardRef]]
    current_assignments: dict[str, list[ShardRef]]
    revoke_progress: dict[str, list[ShardRef]]
    invariant_violations: list[str]
    shards: list[ShardOwnership]


class Consumption(Answer, frozen=True):
    """One member's last report on one shard."""

    stream_prefix: Prefix
    consumer_group: GroupId
    member_id: str
    member_name: str
    member_state: MemberState
    shard: ShardRef
    stream_key: str
    last_delivered_id: str | None
    last_acked_id: str | None
    pending_count: Count
    updated_at: Moment | None


class ConsumptionProgress(Answer, frozen=True):
    """Every report, by member and shard."""

    progress: list[Consumption]


class Migrations(Answer, frozen=True):
    """The reshardings of a group's stream, oldest first."""

    migrations: list[Migration]
    active_resharding_id: str | None


class ShardOffset(Answer, frozen=True):
    """How far a group is behind on one shard."""

    stream_prefix: Prefix
    consumer_group: GroupId
    shard: ShardRef
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
    memory_usage_bytes: Count | None
    trimmed_unread_count: Count | None
    trimmed_unread_estimated: bool
    owner_member_ids: list[str]
    oldest_unacked_age_seconds: Annotated[float, Meta(ge=0)] | None


class ShardOffsets(Answer, frozen=True):
    """How far a group is behind; a sum is null if any part of it is unknown."""

    stream_prefix: Prefix
    consumer_group: GroupId
    shards: list[ShardOffset]
    total_stream_length: Count | None
    total_pending_count: Count | None
    total_lag: Count | None
    total_trimmed_unread_count: Count | None
    trimmed_unread_estimated: bool
    total_memory_usage_bytes: Count | None
    memory_usage_known: bool
    oldest_unacked_age_seconds: Annotated[float, Meta(ge=0)] | None


class Octets(Answer, frozen=True):
    """One field of a record, both halves in base64."""

    name: str
    value: str


class MessageRecord(Answer, frozen=True):
    """A record. ``fieldsBase64`` is there where text can't carry it: no UTF-8, or a name that comes twice."""

    record_id: str
    fields: dict[str, str]
    fields_base64: list[Octets] | None
    payload: str | None
    record_time: Moment | None
    record_timestamp_ms: Count


class Messages(Answer, frozen=True):
    """A page of a shard's records."""

    stream_prefix: Prefix
    consumer_group: GroupId
    shard: ShardRef
    stream_key: str
    direction: Direction
    limit: Annotated[int, Meta(ge=1, le=1000)]
    records: list[MessageRecord]
    next_cursor: str | None


class Autoscale(Answer, frozen=True):
    """How many members would do. ``backlog`` is what is known to wait, read or not."""

    backlog: Count
    lag: Count | None
    pending: Count | None
    shards: Count
    max_replicas: Count
    suggested_replicas: Count
    warning: str | None


class EventAnswer(Answer, frozen=True):
    """One change of a group or of its stream, and why."""

    at: Moment
    scope: Annotated[str, one_of("GROUP", "STREAM")]
    kind: str
    member_id: str | None
    shards: list[ShardRef]
    text: str


class Held(Answer, frozen=True):
    """A member's time with a shard; it goes on where ``until`` is null."""

    member_id: str
    token: Count
    since: Moment | None
    until: Moment | None


class Ownership(Answer, frozen=True):
    """Who held a shard, one after the other."""

    shard_index: Index
    stream_key: str
    held: list[Held]


class Events(Answer, frozen=True):
    """The last changes, oldest first, and who held each shard from when to when."""

    events: list[EventAnswer]
    ownership: list[Ownership]
