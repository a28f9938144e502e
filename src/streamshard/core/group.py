"""The group record: members, targets, and who holds which shard. Safety is judged on this alone."""

import enum
import functools
from collections.abc import Mapping
from types import MappingProxyType

import attrs

from streamshard.core.ids import (
    Epoch,
    Generation,
    GroupKey,
    InstanceId,
    LayoutVersion,
    Lineage,
    MemberId,
    Millis,
    Nonce,
    RecordId,
    Seq,
    ShardIndex,
    Token,
    Version,
    WallMillis,
)
from streamshard.core.timeline import Happening, Span


class MemberState(enum.Enum):
    """Where a member is in its life; the last two are terminal."""

    STARTING = "STARTING"
    ACTIVE = "ACTIVE"
    LEAVING = "LEAVING"
    EXPIRED = "EXPIRED"
    FENCED = "FENCED"


LIVE = frozenset({MemberState.STARTING, MemberState.ACTIVE})
TERMINAL = frozenset({MemberState.EXPIRED, MemberState.FENCED})


@attrs.frozen
class Member:
    """A name in the group, and the instance that lives under it."""

    id: MemberId
    name: str
    instance: InstanceId
    epoch: Epoch
    state: MemberState
    joined_at: WallMillis
    joined_version: int = 0
    """Metadata version of the join; an older goodbye of a client without an instance is not this life's."""
    max_concurrency: int = 1
    legacy: bool = False
    advertised_url: str | None = None
    client_version: str | None = None
    ignored_claims: int = 0
    """Claims of unknown versions in a row; the third fences the sender."""
    ended_at: WallMillis | None = None
    """When it became terminal; only for tidying up."""
    principal: str | None = None
    """The account that this life speaks through; no other one may speak for it."""

    @property
    def live(self) -> bool:
        """Takes part in the assignment."""
        return self.state in LIVE


@attrs.frozen
class Holding:
    """An instance's right to read a shard, committed before anybody is told."""

    member: MemberId
    instance: InstanceId
    generation: Generation
    token: Token
    floor: Token
    """The shard's last token before this grant; a fence above it means lost writes."""
    seq: Seq
    """The heartbeat it was granted in; only a later one can release it."""
    draining: bool = False
    lapsed: bool = False
    """Never extended again; free once an L_s has passed since a coordinator saw this."""
    listed: bool = False
    """The holder has reported it; before that a legacy member's omission releases nothing."""
    since: WallMillis = attrs.field(default=WallMillis(0), eq=False)
    """When it was granted; only for the time line, and no part of what a holding is."""


@attrs.frozen
class Quarantine:
    """No new grants until a coordinator has itself seen this lineage for L_s."""

    reason: str
    since: WallMillis


@attrs.frozen(slots=False)  # made for every heartbeat: faster without
class ShardProgress:
    """How far a member says it has got with a shard; for display and for the ack floor."""

    shard: ShardIndex
    last_delivered: RecordId | None = None
    last_acked: RecordId | None = None
    ack_floor: RecordId | None = None
    pending: int = 0
    in_flight: int = 0
    read_state: str = "IDLE"
    read_ago: Millis | None = None
    """How long before it was told the shard was last read; None: the member does not tell."""
    handling_for: Millis | None = None
    """How long before it was told the handler began that runs; None: none runs, or it only just began."""


@attrs.frozen(slots=False)  # made for every heartbeat: faster without
class Row:
    """An instance's last accepted renewal; beside the record, and allowed to be lost."""

    instance: InstanceId
    seq: Seq
    mark: Nonce
    """Random for each accepted renewal: what coordinators watch for change."""
    lease_ms: Millis
    available: int = 0
    progress: tuple[ShardProgress, ...] = ()
    late: Millis | None = None
    """By how much the renewal left its sender after its time; only for display, None: it does not say."""


def _members(members: Mapping[MemberId, Member]) -> Mapping[MemberId, Member]:
    return MappingProxyType(dict(sorted(members.items())))


def _targets(targets: Mapping[ShardIndex, MemberId]) -> Mapping[ShardIndex, MemberId]:
    return MappingProxyType(dict(sorted(targets.items())))


def _holdings(holdings: Mapping[ShardIndex, Holding]) -> Mapping[ShardIndex, Holding]:
    return MappingProxyType(dict(sorted(holdings.items())))


def _tokens(tokens: Mapping[ShardIndex, Token]) -> Mapping[ShardIndex, Token]:
    return MappingProxyType(dict(sorted(tokens.items())))


def _leases(leases: Mapping[InstanceId, Millis]) -> Mapping[InstanceId, Millis]:
    return MappingProxyType(dict(sorted(leases.items())))


def _layout(layout: Mapping[ShardIndex, Generation]) -> Mapping[ShardIndex, Generation]:
    return MappingProxyType(dict(sorted(layout.items())))


@attrs.frozen
class GroupRecord:
    """Everything durable about a group."""

    key: GroupKey
    version: Version
    ring: tuple[Nonce, ...]
    store: str
    """Identity of the store this lineage was last proven against."""
    layout_version: LayoutVersion
    layout: Mapping[ShardIndex, Generation] = attrs.field(converter=_layout)
    """The adopted layout: the shards to assign, each with its generation."""
    group_epoch: Epoch = Epoch(1)
    assignment_epoch: Epoch = Epoch(1)
    metadata_version: int = 1
    """Grows with every commit that changes members, targets or holdings."""
    members: Mapping[MemberId, Member] = attrs.field(converter=_members, factory=dict)
    targets: Mapping[ShardIndex, MemberId] = attrs.field(converter=_targets, factory=dict)
    holdings: Mapping[ShardIndex, Holding] = attrs.field(converter=_holdings, factory=dict)
    last_tokens: Mapping[ShardIndex, Token] = attrs.field(converter=_tokens, factory=dict)
    """Also of shards that are gone: tokens only grow."""
    longest_leases: Mapping[InstanceId, Millis] = attrs.field(converter=_leases, factory=dict)
    """The longest lease ever answered to each instance that may still hold something."""
    past_lineages: tuple[Lineage, ...] = ()
    """The last ones, oldest first; an older one is taken for one that nobody knows."""
    departed: tuple[InstanceId, ...] = ()
    """The last instances that are gone: a late duplicate of their join admits nobody."""
    quarantine: Quarantine | None = None
    allow_legacy: bool = False
    # What was is told, and is no part of what is: two records that differ in it alone are the same state.
    events: tuple[Happening, ...] = attrs.field(default=(), eq=False)
    """The last changes, oldest first."""
    spans: tuple[Span, ...] = attrs.field(default=(), eq=False)
    """Who held a shard and does no more, oldest first."""

    @property
    def lineage(self) -> Lineage:
        """The lineage of the present version."""
        return self.version.lineage

    def held_by(self, instance: InstanceId) -> Mapping[ShardIndex, Holding]:
        """The shards that ``instance`` may be reading, by index."""
        return self._by_instance.get(instance, {})

    def meant_for(self, member: MemberId) -> tuple[ShardIndex, ...]:
        """The shards whose target is ``member``."""
        return self._by_target.get(member, ())

    # Worked out once per record, so that a heartbeat costs the same in a large group as in a small one.
    @functools.cached_property
    def _by_instance(self) -> Mapping[InstanceId, Mapping[ShardIndex, Holding]]:
        index: dict[InstanceId, dict[ShardIndex, Holding]] = {}
        for shard, holding in self.holdings.items():
            index.setdefault(holding.instance, {})[shard] = holding
        return index

    @functools.cached_property
    def _by_target(self) -> Mapping[MemberId, tuple[ShardIndex, ...]]:
        index: dict[MemberId, list[ShardIndex]] = {}
        for shard, member in self.targets.items():
            index.setdefault(member, []).append(shard)
        return {member: tuple(shards) for member, shards in index.items()}


@attrs.frozen
class GroupTombstone:
    """What a deleted group leaves behind: old readers may still be reading."""

    key: GroupKey
    version: Version
    group_epoch: Epoch
    metadata_version: int
    holdings: Mapping[ShardIndex, Holding] = attrs.field(converter=_holdings)
    last_tokens: Mapping[ShardIndex, Token] = attrs.field(converter=_tokens)
    longest_leases: Mapping[InstanceId, Millis] = attrs.field(converter=_leases)
    past_lineages: tuple[Lineage, ...]
    deleted_at: WallMillis
