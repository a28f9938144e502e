"""What comes of a command to a group."""

import enum
from collections.abc import Mapping, Set
from typing import TypeAlias

import attrs

from streamshard.core.group import GroupRecord, Row
from streamshard.core.ids import InstanceId, Instant, Lineage, Nonce, WallMillis
from streamshard.core.ports import StoreSource
from streamshard.core.replies import RetryReason, Status
from streamshard.core.sight import GrantKey
from streamshard.core.stream import Layout
from streamshard.core.timing import Timing

Rows: TypeAlias = Mapping[InstanceId, Row]
"""The renewal rows of a group, as last read."""


@attrs.frozen
class Context:
    """Everything a decision needs that is not in the record: time, randomness, the stream's layout."""

    now: Instant
    wall: WallMillis
    timing: Timing
    layout: Layout
    mac_key: str
    nonce: Nonce
    """Names this commit, and marks the renewal row it writes."""
    lineage: Lineage
    """Fresh; used only where a new lineage starts."""
    source: StoreSource
    raised: Set[GrantKey] = frozenset()
    """Grants whose fence this coordinator has had acknowledged."""


class Fence(enum.Enum):
    """Why a member was told that it is fenced: it stops, and joins as a new instance."""

    ENDED = "ended"  # its instance has had its life: it left, expired or was fenced before
    STALE = "stale"  # another epoch or another instance has the name
    USURPED = "usurped"  # it reads what another instance holds
    UNISSUED = "unissued"  # it names a token that was never given out
    CLAIMS = "claims"  # it went on naming versions that nobody issued
    OVERDUE = "overdue"  # a client without leases did not give a shard up in time


@attrs.frozen
class Refusal:
    """Nothing changes and nothing is renewed; the answer says why."""

    status: Status
    message: str
    retry_reason: RetryReason | None = None
    fence: Fence | None = None
    """Of a refusal that fences."""


@attrs.frozen
class Replay:
    """The attempt was taken before: answer with the present view, change and renew nothing."""


@attrs.frozen
class LostWrites:
    """Proof that the store forgot a commit: a new lineage has to start before anything else is decided."""

    reason: str
    lineage: Lineage | None = None
    """The lineage it is known from; remembered as a past one, so that its views prove nothing new."""


class Standing(enum.Enum):
    """How far a member has caught up with the lineage; decides what its answer lets it do."""

    PRESENT = "PRESENT"  # start, drain, go on; start nothing while the group is in quarantine
    CATCHING_UP = "CATCHING_UP"  # keep what is both held and assigned, until it holds the present view


@attrs.frozen
class Accepted:
    """Commit this record if it is another object, and the row if there is one; then answer.

    With ``same_rows``, only if these rows have not changed since. With a ``refusal``, that is the answer,
    once the record is committed.
    """

    record: GroupRecord
    instance: InstanceId
    row: Row | None
    standing: Standing = Standing.PRESENT
    force_row: bool = False
    refusal: Refusal | None = None
    same_rows: Mapping[InstanceId, Nonce | None] = attrs.field(factory=dict)


@attrs.frozen
class TickOutcome:
    """Commit this record if it is another object; these rows must not have changed since."""

    record: GroupRecord
    same_rows: Mapping[InstanceId, Nonce | None] = attrs.field(factory=dict)
    drop_rows: tuple[InstanceId, ...] = ()


Decision: TypeAlias = Refusal | Replay | LostWrites | Accepted
