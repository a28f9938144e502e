"""What the core wants from Redis, and what Redis answered: plain data, guarded and repeatable.

Every order carries the generation and the layout version it was decided under. The shard's fence
refuses orders below its marks and is raised by those it accepts, so an order that was decided long
ago by a paused coordinator does nothing.
"""

import enum

import attrs

from streamshard.core.ids import Generation, GroupName, LayoutVersion, RecordId, ShardIndex, StreamPrefix, Token


@attrs.frozen
class GroupStart:
    """A Redis consumer group that must exist on a shard, and where it begins if it has to be made."""

    name: GroupName
    start_id: str
    """``0``, ``$`` or a record id."""


@attrs.frozen
class Provision:
    """Make the shard's key, its groups and its mark, unless a later life of it is known."""

    prefix: StreamPrefix
    shard: ShardIndex
    generation: Generation
    layout: LayoutVersion
    groups: tuple[GroupStart, ...]
    adopt: bool = False


class ProvisionResult(enum.Enum):
    """``FOREIGN``: a key without our mark, with entries or groups we don't know, stands there."""

    DONE = "DONE"
    FOREIGN = "FOREIGN"
    SUPERSEDED = "SUPERSEDED"


@attrs.frozen
class RaiseFence:
    """Raise a group's mark on a shard from at most ``floor`` to ``token``, before the grant is published."""

    prefix: StreamPrefix
    shard: ShardIndex
    generation: Generation
    layout: LayoutVersion
    group: GroupName
    floor: Token
    token: Token


class RaiseVerdict(enum.Enum):
    """What became of a raise."""

    RAISED = "RAISED"  # the mark is exactly the token
    ABOVE = "ABOVE"  # the mark was above the floor and is not the token: the store lost writes
    SUPERSEDED = "SUPERSEDED"  # sealed, a later generation, or a later layout
    MISSING = "MISSING"  # no key, or no such group on it
    UNKNOWN = "UNKNOWN"  # the shard's server did not answer, those of other shards did: to be asked again


@attrs.frozen
class RaiseResult:
    """The verdict and the mark that stands now."""

    verdict: RaiseVerdict
    mark: Token


@attrs.frozen
class Seal:
    """Delete the key and mark it sealed, if in that instant every group on it has nothing left."""

    prefix: StreamPrefix
    shard: ShardIndex
    generation: Generation
    layout: LayoutVersion
    registered: tuple[GroupName, ...]
    ignored: tuple[GroupName, ...] = ()


@attrs.frozen
class RaiseLayout:
    """Raise the layout mark, so that orders of an earlier layout are refused from now on."""

    prefix: StreamPrefix
    shard: ShardIndex
    generation: Generation
    layout: LayoutVersion


class GuardResult(enum.Enum):
    """What became of a seal or a raised layout."""

    DONE = "DONE"  # for a seal: sealed now or before, in this generation
    NOT_EMPTY = "NOT_EMPTY"  # seal only: nothing happened
    SEALED = "SEALED"  # raised layout only: the mark is raised, but the shard is sealed
    SUPERSEDED = "SUPERSEDED"


@attrs.frozen
class DropGroup:
    """Destroy a deleted group's Redis group on a shard."""

    prefix: StreamPrefix
    shard: ShardIndex
    generation: Generation
    layout: LayoutVersion
    group: GroupName


@attrs.frozen
class GroupProbe:
    """One Redis group on a shard, looked at exactly."""

    name: GroupName
    pending: int
    lag: int | None
    last_delivered: RecordId
    first_undelivered: RecordId | None
    """From a range read just after ``last_delivered``: the proof, where counters may lie."""
    oldest_pending: RecordId | None


@attrs.frozen
class ShardProbe:
    """A shard key looked at exactly, in one atomic step."""

    shard: ShardIndex
    exists: bool
    generation: Generation | None
    sealed: bool
    length: int
    groups: tuple[GroupProbe, ...]
    lag_known: bool = True
    """The server has the lag counter at all (6.2 has not)."""


@attrs.frozen
class MendLag:
    """Set a registered group's counter right where the exact probe is empty and only the counter is off."""

    prefix: StreamPrefix
    shard: ShardIndex
    generation: Generation
    layout: LayoutVersion
    group: GroupName


@attrs.frozen
class DropShard:
    """Delete the key with whatever is on it and mark it sealed: its stream is deleted, data and all."""

    prefix: StreamPrefix
    shard: ShardIndex
    generation: Generation
    layout: LayoutVersion


@attrs.frozen
class Trim:
    """Count what groups missed, and remove what none of the shard's groups needs any more.

    A group needs what is pending in it and everything behind what it was given last; one that nobody
    registered needs it too. At most about ``limit`` records go; 0 only counts.
    """

    prefix: StreamPrefix
    shard: ShardIndex
    generation: Generation
    layout: LayoutVersion
    registered: tuple[GroupName, ...]
    limit: int = 0


class TrimVerdict(enum.Enum):
    """What became of a trim."""

    DONE = "DONE"
    SUPERSEDED = "SUPERSEDED"  # sealed, or a later generation or layout is known; nothing was done
    MISSING = "MISSING"  # no key in this life of it, or a registered group is not on it; nothing was done


@attrs.frozen
class Missed:
    """Records that were removed before a registered group had read them, by whomever; never by a `Trim`."""

    group: GroupName
    total: int
    """Ever since the group was made on this shard."""
    found: int
    """How many of them this very look found."""
    exact: bool
    """False: at least so many. What went while the group read on can't be told from what it read."""


@attrs.frozen
class Trimmed:
    """What a `Trim` did, and saw. ``missed`` is empty where the server has no counters to go by (6.2)."""

    verdict: TrimVerdict
    removed: int = 0
    floor: RecordId | None = None
    """Nothing from here on may go; None where no group is."""
    holder: GroupName | None = None
    """The group that the floor is of."""
    missed: tuple[Missed, ...] = ()
