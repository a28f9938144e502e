"""The stream record: how many shards there are, which life of each, and what is changing."""

import enum
import functools
from collections.abc import Mapping
from types import MappingProxyType

import attrs

from streamshard.core.ids import (
    Generation,
    GroupName,
    LayoutVersion,
    Lineage,
    Nonce,
    RecordId,
    ReshardingId,
    ShardIndex,
    StreamPrefix,
    Token,
    Version,
    WallMillis,
)
from streamshard.core.timeline import Happening

HISTORY_SIZE = 50
"""How many ended reshardings a stream remembers."""


class StreamState(enum.Enum):
    """Where a stream is in its life; members and producers see ``ACTIVE`` ones only."""

    CREATING = "CREATING"
    ACTIVE = "ACTIVE"
    REMOVING = "REMOVING"


class Retention(enum.Enum):
    """What a coordinator removes from a stream's shards."""

    NONE = "none"  # nothing: records stay until producers or operators trim them
    ACKNOWLEDGED = "acknowledged"  # what every group on the shard has acknowledged


class ShardPhase(enum.Enum):
    """What may be done with a shard's key."""

    PREPARING = "PREPARING"  # being made; nobody reads or writes it yet
    OPEN = "OPEN"  # written and read
    DRAINING = "DRAINING"  # read only, until it is proven empty
    SEALED = "SEALED"  # retired: the key is deleted, its fence says so


READABLE = frozenset({ShardPhase.OPEN, ShardPhase.DRAINING})


@attrs.frozen
class Shard:
    """One shard key's present life."""

    index: ShardIndex
    generation: Generation
    phase: ShardPhase


class EntryState(enum.Enum):
    """Where a group is in its life, as its stream sees it."""

    CREATING = "CREATING"
    ACTIVE = "ACTIVE"
    REMOVING = "REMOVING"


@attrs.frozen
class GroupEntry:
    """A registered consumer group of the stream."""

    name: GroupName
    state: EntryState
    start_from: str
    allow_legacy: bool = False
    keep_redis_group: bool = False


class ReshardingState(enum.Enum):
    """The arrows of ``PREPARING -> ACTIVE -> DRAINING -> DEPRECATED`` and of its way back."""

    PREPARING = "PREPARING"
    ACTIVE = "ACTIVE"
    DRAINING = "DRAINING"
    DEPRECATED = "DEPRECATED"
    ROLLING_BACK = "ROLLING_BACK"
    ROLLED_BACK = "ROLLED_BACK"


ENDED = frozenset({ReshardingState.DEPRECATED, ReshardingState.ROLLED_BACK})


@attrs.frozen
class Resharding:
    """One change of the shard count, from the request to its end."""

    id: ReshardingId
    from_count: int
    to_count: int
    state: ReshardingState
    created_at: WallMillis
    updated_at: WallMillis
    requested_by: str
    reason: str
    ignore_foreign_groups: tuple[GroupName, ...] = ()
    stop_producers: bool = False
    deprecated_after: str | None = None
    any_sealed: bool = False
    """A shard was sealed: the point of return is passed."""


@attrs.frozen
class IdempotentAnswer:
    """What an admin mutation under an ``Idempotency-Key`` was answered."""

    key: str
    fingerprint: str
    answer: str
    at: WallMillis


def _by_index(shards: Mapping[ShardIndex, Shard]) -> Mapping[ShardIndex, Shard]:
    return MappingProxyType(dict(sorted(shards.items())))


def _by_name(groups: Mapping[GroupName, GroupEntry]) -> Mapping[GroupName, GroupEntry]:
    return MappingProxyType(dict(sorted(groups.items())))


@attrs.frozen
class StreamRecord:
    """Everything durable about a stream but its groups' own records."""

    prefix: StreamPrefix
    version: Version
    ring: tuple[Nonce, ...]
    store: str
    """Identity of the store this lineage was last proven against."""
    mac_key: str
    state: StreamState
    routed_count: int
    """Producers route over shards ``0 .. routed_count - 1``."""
    layout_version: LayoutVersion
    shards: Mapping[ShardIndex, Shard] = attrs.field(converter=_by_index)
    groups: Mapping[GroupName, GroupEntry] = attrs.field(converter=_by_name)
    routing_protocol: str
    created_at: WallMillis
    adopt: bool = False
    """Keys that exist without our mark may be taken over."""
    resharding: Resharding | None = None
    history: tuple[Resharding, ...] = ()
    idempotency: tuple[IdempotentAnswer, ...] = ()
    drop_data: bool = False
    """It is being removed with everything on its keys."""
    events: tuple[Happening, ...] = attrs.field(default=(), eq=False)
    """The last changes, oldest first; told, and no part of the state."""
    retention: Retention = Retention.NONE

    @property
    def lineage(self) -> Lineage:
        """The lineage of the present version."""
        return self.version.lineage

    def layout(self) -> "Layout":
        """What groups assign: the shards that are read, each with its generation."""
        return self._layout

    @functools.cached_property  # every heartbeat asks
    def _layout(self) -> "Layout":
        readable = {s.index: s.generation for s in self.shards.values() if s.phase in READABLE}
        return Layout(self.layout_version, readable)


def _generations(shards: Mapping[ShardIndex, Generation]) -> Mapping[ShardIndex, Generation]:
    return MappingProxyType(dict(sorted(shards.items())))


@attrs.frozen
class Layout:
    """The readable shards of a stream at one layout version."""

    version: LayoutVersion
    shards: Mapping[ShardIndex, Generation] = attrs.field(converter=_generations)


@attrs.frozen
class StreamTombstone:
    """What a deleted stream leaves behind, so that its successor continues above every old number."""

    prefix: StreamPrefix
    version: Version
    layout_version: LayoutVersion
    generations: Mapping[ShardIndex, Generation] = attrs.field(converter=_generations)
    deleted_at: WallMillis
    idempotency: tuple[IdempotentAnswer, ...] = ()
    """Kept here too: a delete whose answer was lost is repeated when the stream is gone."""


@attrs.frozen
class DrainLook:
    """What the last exact probe of a draining shard said; shown while the drain waits."""

    shard: ShardIndex
    group: GroupName | None
    pending: int
    lag: int | None
    first_id: RecordId | None
    reason: str


@attrs.frozen
class FenceMark:
    """What stands in the hash beside a shard."""

    shard: ShardIndex
    key_exists: bool
    generation: Generation | None
    sealed: bool
    layout: LayoutVersion | None
    tokens: Mapping[GroupName, Token]
