"""What operators ask for: create, scale, roll back, delete."""

import attrs

from streamshard.core.ids import GroupKey, GroupName, ReshardingId, StreamPrefix
from streamshard.core.stream import Retention


@attrs.frozen
class Idempotency:
    """The caller's key for one mutation, and a digest of what it asked for."""

    key: str
    fingerprint: str


@attrs.frozen
class Author:
    """Who asks, and why; recorded."""

    requested_by: str
    reason: str = ""
    idempotency: Idempotency | None = None


@attrs.frozen
class GroupSpec:
    """A consumer group to be created."""

    name: GroupName
    start_from: str = "0"
    """``0`` (earliest), ``$`` (latest) or a record id."""
    allow_legacy: bool = False


@attrs.frozen
class CreateStream:
    """Create a stream with its first groups."""

    prefix: StreamPrefix
    author: Author
    shard_count: int
    groups: tuple[GroupSpec, ...] = ()
    routing_protocol: str = "murmur3-v1"
    adopt: bool = False
    retention: Retention = Retention.NONE


@attrs.frozen
class AmendStream:
    """Change what can be chosen anew of a stream that is in use."""

    prefix: StreamPrefix
    author: Author
    retention: Retention


@attrs.frozen
class CreateGroup:
    """Create a group, and its stream if there is none. ``shard_count`` None: whatever the stream has."""

    key: GroupKey
    author: Author
    spec: GroupSpec
    shard_count: int | None = None
    routing_protocol: str = "murmur3-v1"
    adopt: bool = False


@attrs.frozen
class Scale:
    """Change the stream's shard count, up or down; 0 drains it."""

    prefix: StreamPrefix
    author: Author
    target: int
    resharding_id: ReshardingId
    ignore_foreign_groups: tuple[GroupName, ...] = ()
    stop_producers: bool = False
    deprecated_after: str | None = None


@attrs.frozen
class Rollback:
    """Take a resharding back."""

    prefix: StreamPrefix
    author: Author
    resharding_id: ReshardingId


@attrs.frozen
class Amend:
    """Change which foreign groups a running resharding ignores."""

    prefix: StreamPrefix
    author: Author
    resharding_id: ReshardingId
    ignore_foreign_groups: tuple[GroupName, ...]


@attrs.frozen
class DeleteGroup:
    """Delete a group; its Redis groups too, unless kept."""

    key: GroupKey
    author: Author
    force: bool = False
    keep_redis_group: bool = False


@attrs.frozen
class DeleteStream:
    """Delete a stream and its groups; the shard keys stay unless ``drop_data``."""

    prefix: StreamPrefix
    author: Author
    force: bool = False
    drop_data: bool = False
