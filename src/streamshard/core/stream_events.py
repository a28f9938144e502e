"""What can happen to a stream's record, what a decision about it needs to know, and what comes of it."""

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from streamshard.core.admin import (
    Amend,
    AmendStream,
    CreateGroup,
    CreateStream,
    DeleteGroup,
    DeleteStream,
    Rollback,
    Scale,
)
from streamshard.core.effects import (
    DropGroup,
    DropShard,
    GuardResult,
    MendLag,
    Provision,
    ProvisionResult,
    RaiseLayout,
    Seal,
    ShardProbe,
)
from streamshard.core.facts import GroupFacts
from streamshard.core.ids import (
    Generation,
    GroupName,
    LayoutVersion,
    Lineage,
    Nonce,
    ShardIndex,
    StreamPrefix,
    WallMillis,
)
from streamshard.core.settings import MAX_SHARDS
from streamshard.core.stream import FenceMark, Resharding, ShardPhase, StreamRecord, StreamTombstone
from streamshard.errors import StreamshardError


@attrs.frozen
class ProbeShard:
    """Look at a shard exactly; says under which life and phase the look was asked for."""

    prefix: StreamPrefix
    shard: ShardIndex
    generation: Generation
    layout: LayoutVersion
    phase: ShardPhase


@attrs.frozen
class ReadFences:
    """Read the marks of shards whose fence refused an order, to answer as `FencesSeen`."""

    prefix: StreamPrefix
    shards: tuple[ShardIndex, ...]


@attrs.frozen
class Provisioned:
    """Each shard that had to be made, and what became of it."""

    answers: tuple[tuple[Provision, ProvisionResult], ...]


@attrs.frozen
class Sealed:
    """Each shard that had to be retired, and what became of it."""

    answers: tuple[tuple[Seal, GuardResult], ...]


@attrs.frozen
class LayoutRaised:
    """Each shard whose layout mark had to be raised, and what became of it."""

    answers: tuple[tuple[RaiseLayout, GuardResult], ...]


@attrs.frozen
class Tidied:
    """Each group that had to be dropped or mended on a shard, each shard to be dropped, and what became of it."""

    answers: tuple[tuple[DropGroup | MendLag | DropShard, GuardResult], ...]


@attrs.frozen
class Probed:
    """Each shard that had to be looked at, and what the look saw."""

    answers: tuple[tuple[ProbeShard, ShardProbe], ...]


@attrs.frozen
class FencesSeen:
    """Marks that were read after the record was: one above the record proves that the store lost writes."""

    marks: tuple[FenceMark, ...]


@attrs.frozen
class GroupSummary:
    """What a resharding has to know of a group before it may end."""

    name: GroupName
    layout_version: LayoutVersion
    """The layout that the group has adopted."""
    live_members: int
    handover: bool
    """Some shard's holder is not its target."""
    held_by_live: tuple[ShardIndex, ...] = ()
    """The shards that instances of live members hold."""


@attrs.frozen
class GroupsSeen:
    """The groups of the stream; one that is missing here is waited for."""

    summaries: tuple[GroupSummary, ...]


@attrs.frozen
class Undo:
    """Take back a create that was not finished: seal what was made, then remove the record."""

    prefix: StreamPrefix


AdminCommand: TypeAlias = (
    CreateStream | CreateGroup | AmendStream | Scale | Rollback | Amend | DeleteGroup | DeleteStream
)
Observation: TypeAlias = Provisioned | Sealed | LayoutRaised | Tidied | Probed | FencesSeen | GroupsSeen
StreamCommand: TypeAlias = AdminCommand | Undo | Observation


@attrs.frozen
class StreamContext:
    """Everything a decision needs that is neither in the record nor in the command."""

    wall: WallMillis
    nonce: Nonce
    lineage: Lineage
    """Fresh; used only where a new lineage starts."""
    mac_key: str
    """Fresh; used only by a stream's first record."""
    store: str
    """Identity of the store that the record was read from."""
    max_shard_count: int = MAX_SHARDS
    default_shard_count: int = 12
    marks: tuple[FenceMark, ...] = ()
    """For a create or a scale: the fences that `fences_wanted` names, read after the record was."""
    probes: tuple[ShardProbe, ...] = ()
    """For a create: a look at the same shards; what is left on a key decides whether it may be taken."""
    live_members: Mapping[GroupName, int] = attrs.field(factory=dict)
    """For a delete: how many live members each group has."""
    group: GroupFacts | None = None
    """For the delete of a group: what it is, to be answered and remembered."""
    quarantined: tuple[GroupName, ...] = ()
    """Groups in quarantine: no operator changes the stream until that is over."""


@attrs.frozen
class StreamOutcome:
    """What to commit, and what to answer once it is committed.

    With ``changed``, commit ``record`` against the version that was read, in one transaction with the
    records of ``created_groups`` and the tombstones of ``removed_groups``, and only then answer, also
    where there is a ``refusal``. Without it nothing has to be stored.
    """

    record: StreamRecord | StreamTombstone | None
    changed: bool = False
    refusal: StreamshardError | None = None
    created_groups: tuple[GroupName, ...] = ()
    removed_groups: tuple[GroupName, ...] = ()
    resharding: Resharding | None = None
    """The resharding that an operator's command was about."""
    revived: tuple[ShardIndex, ...] = ()
    """Retired shards whose key came back: raise an alert."""
    discontinuity: str | None = None
    """Why a new lineage was started."""
    replayed: bool = False
    """The command came before under this idempotency key; the record is as it is now."""
    answer: str | None = None
    """What was (or is now) remembered under the idempotency key, as JSON."""


def unchanged(record: StreamRecord | StreamTombstone | None) -> StreamOutcome:
    """The outcome of what does not concern the record."""
    return StreamOutcome(record)


def refused(record: StreamRecord | StreamTombstone | None, refusal: StreamshardError) -> StreamOutcome:
    """The outcome of what must not be done."""
    return StreamOutcome(record, refusal=refusal)
