"""What can be asked about streams and groups without changing them."""

import enum
from collections.abc import Mapping

import attrs

from streamshard.core.group import GroupRecord, Holding, Row
from streamshard.core.ids import GroupKey, InstanceId
from streamshard.core.stream import DrainLook, GroupEntry, Resharding, StreamRecord


class GroupState(enum.Enum):
    """How far a group's holdings are from its targets."""

    EMPTY = "EMPTY"
    ASSIGNING = "ASSIGNING"
    RECONCILING = "RECONCILING"
    STABLE = "STABLE"


class Exclusivity(enum.Enum):
    """What keeps two members from reading one shard at once."""

    FENCED = "fenced"  # leases, and fences in Redis
    COOPERATIVE = "cooperative"  # clients of the older contract may join, which have neither and are trusted to stop


def exclusivity(group: GroupRecord | GroupEntry) -> Exclusivity:
    """Of a group, as created."""
    return Exclusivity.COOPERATIVE if group.allow_legacy else Exclusivity.FENCED


def is_present(record: GroupRecord, holding: Holding) -> bool:
    """The holder is the instance that lives under its name now, not an earlier one that may be dead."""
    member = record.members.get(holding.member)
    return member is not None and member.instance == holding.instance


def group_state(record: GroupRecord) -> GroupState:
    """EMPTY, ASSIGNING, RECONCILING or STABLE."""
    if not any(member.live for member in record.members.values()):
        return GroupState.EMPTY
    if record.assignment_epoch != record.group_epoch or set(record.targets) != set(record.layout):
        return GroupState.ASSIGNING
    settled = {s: h for s, h in record.holdings.items() if h.listed and not h.lapsed and is_present(record, h)}
    held = {shard: holding.member for shard, holding in settled.items()}
    return GroupState.STABLE if held == dict(record.targets) else GroupState.RECONCILING


@attrs.frozen
class GroupView:
    """A group with its stream and renewal rows, as one look saw them."""

    stream: StreamRecord
    record: GroupRecord
    rows: Mapping[InstanceId, Row]

    @property
    def state(self) -> GroupState:
        """EMPTY, ASSIGNING, RECONCILING or STABLE."""
        return group_state(self.record)


@attrs.frozen
class FrozenGroup:
    """A group that nothing is done to, because its record can't be trusted."""

    key: GroupKey
    reason: str


@attrs.frozen
class MigrationView:
    """A resharding and why it waits, if it does."""

    resharding: Resharding
    rollback_eligible: bool
    provisioned: int
    to_provision: int
    draining: tuple[DrainLook, ...]


@attrs.frozen
class Health:
    """What was measured just now."""

    coordinator_id: str
    store: str
    redis: str
    loop: str
    invariant_violations: tuple[str, ...] = ()
    cooperative_groups: tuple[str, ...] = ()
    """Groups whose exclusivity rests on clients that are trusted to stop; by choice, so no ailment."""
    unread_shards: tuple[str, ...] = ()
    """Shards that somebody holds and does not read, each with who and for how long: the member's ailment, not ours."""

    @property
    def exclusivity(self) -> Exclusivity:
        """Of the weakest group."""
        return Exclusivity.COOPERATIVE if self.cooperative_groups else Exclusivity.FENCED

    @property
    def status(self) -> str:
        """UP, DEGRADED or DOWN."""
        if self.store == "DOWN" or self.loop == "STALLED":
            return "DOWN"
        well = self.redis not in ("DOWN", "PARTLY_DOWN") and self.store == "UP" and not self.invariant_violations
        return "UP" if well else "DEGRADED"
