"""What members and producers are answered."""

import enum

import attrs

from streamshard.core.ids import (
    Epoch,
    Generation,
    GroupKey,
    LayoutVersion,
    Lineage,
    MemberId,
    Millis,
    Seq,
    ShardIndex,
    Token,
    View,
)


class Status(enum.Enum):
    """What a heartbeat's answer makes its sender do; the table is in the consumer's docs."""

    OK = "OK"
    SYNC_METADATA = "SYNC_METADATA"
    REVOKE_PENDING = "REVOKE_PENDING"
    RETRY = "RETRY"
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
    INVALID_REQUEST = "INVALID_REQUEST"
    UNSUPPORTED_PROTOCOL = "UNSUPPORTED_PROTOCOL"


class RetryReason(enum.Enum):
    """Why nothing could be decided now."""

    NAME_HELD = "NAME_HELD"
    CONFLICT = "CONFLICT"
    UNAVAILABLE = "UNAVAILABLE"


@attrs.frozen
class Grant:
    """The right to read a shard under a token, until the lease of this answer ends."""

    shard: ShardIndex
    token: Token
    generation: Generation


@attrs.frozen
class Extension:
    """A listed hold whose deadline moves with this answer."""

    shard: ShardIndex
    token: Token


@attrs.define(eq=False)
class Likeness:
    """Shared by answers that differ in ``seq`` and ``response_to`` alone, for whoever writes them down."""

    written: tuple[bytes, ...] | None = None
    """What they have in common, as it was written last."""


@attrs.frozen(slots=False)  # made for every heartbeat: faster without
class HeartbeatReply:
    """The answer to one attempt; durations, never timestamps."""

    status: Status
    member: MemberId
    epoch: Epoch
    seq: Seq
    heartbeat_ms: Millis
    rebalance_timeout_ms: Millis
    lease_ms: Millis
    response_to: str = ""
    group_epoch: Epoch = Epoch(0)
    assignment_epoch: Epoch = Epoch(0)
    metadata_version: int = 0
    assigned: tuple[ShardIndex, ...] = ()
    """Held, meant for the sender, and fenced off for it: to be read."""
    pending: tuple[ShardIndex, ...] = ()
    """Meant for the sender, not its own yet."""
    grants: tuple[Grant, ...] = ()
    """Token and generation of each assigned shard."""
    extended: tuple[Extension, ...] = ()
    """A client prolongs these and new grants, nothing else."""
    view: View | None = None
    retry_after_ms: Millis | None = None
    retry_reason: RetryReason | None = None
    message: str | None = None
    likeness: Likeness | None = attrs.field(default=None, eq=False, repr=False)

    def again(self, seq: Seq, response_to: str) -> "HeartbeatReply":
        """The same answer to another attempt."""
        other = object.__new__(HeartbeatReply)  # `attrs.evolve` names all fields one by one: ten times as long
        other.__dict__.update(self.__dict__, seq=seq, response_to=response_to)
        return other


@attrs.frozen
class Routing:
    """What a producer needs to turn a key into a shard, and for how long it may be used."""

    key: GroupKey
    shard_count: int
    layout_version: LayoutVersion
    lineage: Lineage
    metadata_version: int
    protocol: str
    lease_ms: Millis
    resharding_active: bool = False


@attrs.frozen
class News:
    """The answer to a watch. A hint: whoever is told of a change asks again in the ordinary way."""

    changed: bool
    lineage: Lineage
    """Of the layout."""
    layout_version: LayoutVersion
    metadata_version: int
    view: View | None = None
    """What a group's watcher holds from now on."""
    members: tuple[MemberId, ...] | None = None
    """Those asked about for whom a heartbeat would do something now; None: they were not told apart."""
