"""Everything the core needs from outside, as protocols: implement them without importing us.

Each promise (order, atomicity, errors) stands in a docstring here and in a contract test that every
adapter passes.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import attrs

from streamshard.core.commands import Heartbeat
from streamshard.core.effects import (
    DropGroup,
    DropShard,
    GuardResult,
    MendLag,
    Provision,
    ProvisionResult,
    RaiseFence,
    RaiseLayout,
    RaiseResult,
    Seal,
    ShardProbe,
    Trim,
    Trimmed,
)
from streamshard.core.group import GroupRecord, GroupTombstone, Row
from streamshard.core.ids import (
    GroupKey,
    GroupName,
    InstanceId,
    Instant,
    Millis,
    Nonce,
    RecordId,
    ShardIndex,
    StreamPrefix,
    Version,
    WallMillis,
)
from streamshard.core.notices import GroupWatch, LayoutWatch
from streamshard.core.records import (
    Abilities,
    AckMode,
    AckReply,
    Append,
    ClaimReply,
    DeliveryReply,
    ReadReply,
    ShardAccess,
)
from streamshard.core.replies import HeartbeatReply, News, Routing
from streamshard.core.stream import FenceMark, StreamRecord, StreamTombstone
from streamshard.errors import MaybeWritten, NotWritten, StreamshardError


@attrs.frozen
class StoreSource:
    """Which store answered, and over which connection: a change of either is a first load of everything."""

    identity: str
    connection: int


@attrs.frozen
class StreamSnapshot:
    """A stream record (or its tombstone, or None if there never was one) as one read saw it."""

    source: StoreSource
    record: StreamRecord | StreamTombstone | None


@attrs.frozen
class GroupSnapshot:
    """A group record (or its tombstone, or None) with its renewal rows, as one atomic read saw them."""

    source: StoreSource
    record: GroupRecord | GroupTombstone | None
    rows: Mapping[InstanceId, Row]


@attrs.frozen
class StreamChange:
    """Replace the stream's record. ``expected`` None: nothing is there, not even a tombstone."""

    expected: Version | None
    value: StreamRecord | StreamTombstone


@attrs.frozen(slots=False)  # made for every heartbeat: faster without
class GroupChange:
    """Replace (``value`` set) or only compare (``value`` None) a group's record.

    ``expected`` None means that nothing is there, not even a tombstone. A tombstone is replaced by
    naming its version. Replacing a record by a tombstone drops its rows.
    """

    key: GroupKey
    expected: Version | None
    value: GroupRecord | GroupTombstone | None = None


@attrs.frozen(slots=False)  # made for every heartbeat: faster without
class RowWrite:
    """Write a renewal row; refused as `StaleSequence` unless its seq is above the stored one.

    ``force`` skips that comparison (clients of the older contract have no seq).
    """

    group: GroupName
    row: Row
    force: bool = False


@attrs.frozen(slots=False)  # made for every heartbeat: faster without
class Transaction:
    """One atomic commit within one stream: every comparison holds, then every write; or nothing at all."""

    prefix: StreamPrefix
    source: StoreSource
    stream: StreamChange | None = None
    groups: tuple[GroupChange, ...] = ()
    row: RowWrite | None = None
    same_rows: Mapping[tuple[GroupName, InstanceId], Nonce | None] = MappingProxyType({})
    """Rows that must still carry this mark (None: must be absent)."""
    drop_rows: tuple[tuple[GroupName, InstanceId], ...] = ()


class MetadataStore(Protocol):
    """Durable records with compare-and-set, and renewal rows beside them.

    Records survive a crash once `commit` has returned; rows need not. Both are visible to every
    coordinator before `commit` returns. A record that can't be decoded raises `MetadataCorrupt`, one of
    a newer schema `UnsupportedSchema`, both for that record alone. Every driver error is raised as
    `StoreUnavailable`, with nothing changed; where that can't be known, as `CommitUncertain`.
    """

    async def load_stream(self, prefix: StreamPrefix) -> StreamSnapshot:
        """Read one stream's record."""
        ...

    async def load_group(self, key: GroupKey) -> GroupSnapshot:
        """Read one group's record and rows in one atomic step."""
        ...

    async def commit(self, transaction: Transaction) -> None:
        """Apply atomically, in one round trip.

        Raise `RevisionConflict` if a record or a row compared is another one, `StaleSequence` if only
        the row's seq is not newer, `SourceChanged` if the store or the connection is another one;
        nothing is written then.
        """
        ...

    async def prefixes(self) -> tuple[StreamPrefix, ...]:
        """Every stream that has a record (not a tombstone), sorted."""
        ...

    async def close(self) -> None:
        """Let go of every resource; idempotent."""
        ...


@runtime_checkable
class Glancing(Protocol):
    """What a `MetadataStore` may offer besides: a cheap look for what other coordinators have committed."""

    async def versions(self, keys: Sequence[GroupKey | StreamPrefix]) -> Mapping[GroupKey | StreamPrefix, Version]:
        """The version of each of these streams' and groups' records, tombstones too, in one round trip.

        What has none is left out. Raises `StoreUnavailable`.
        """
        ...


class StreamBackend(Protocol):
    """The coordinator's side of Redis: shard keys, their groups and their fences.

    Each order is one atomic step per shard, guarded by the shard's fence, and may be repeated. Raises
    `StreamUnavailable` if Redis does not answer; whether the order was carried out is then unknown,
    and asking again is safe.
    """

    async def provision(self, orders: Sequence[Provision]) -> tuple[ProvisionResult, ...]:
        """Make shard keys, groups and marks; results in the order of ``orders``."""
        ...

    async def raise_fences(self, orders: Sequence[RaiseFence]) -> tuple[RaiseResult, ...]:
        """Raise token marks; results in the order of ``orders``.

        Where shards are on several servers and some of them don't answer, those alone are `RaiseVerdict.UNKNOWN`.
        """
        ...

    async def raise_layouts(self, orders: Sequence[RaiseLayout]) -> tuple[GuardResult, ...]:
        """Raise layout marks; results in the order of ``orders``."""
        ...

    async def read_fences(self, prefix: StreamPrefix, shards: Sequence[ShardIndex]) -> tuple[FenceMark, ...]:
        """Read the marks of shards; a missing fence has ``generation`` None."""
        ...

    async def probe(self, prefix: StreamPrefix, shards: Sequence[ShardIndex]) -> tuple[ShardProbe, ...]:
        """Look at shards exactly, each in one atomic step; never writes."""
        ...

    async def seal(self, order: Seal) -> GuardResult:
        """Retire a shard if nothing is left on it for any group but the ignored ones."""
        ...

    async def tidy(self, orders: Sequence[DropGroup | MendLag | DropShard]) -> tuple[GuardResult, ...]:
        """Drop what was deleted (groups, whole shards), mend counters; results in the order of ``orders``."""
        ...


@runtime_checkable
class Spread(Protocol):
    """What a `StreamBackend` may offer besides: shards on several servers, some of which may be away."""

    async def away(self) -> tuple[str, ...]:
        """The servers that don't answer, as ``host:port``, sorted. Raises `StreamUnavailable` if none answers."""
        ...


@runtime_checkable
class Trimming(Protocol):
    """What a `StreamBackend` may offer besides: to remove what no group needs any more, and to count what went unread.

    As its orders: one atomic step per shard, guarded by the shard's fence. Without it streams keep everything.
    """

    async def trim(self, orders: Sequence[Trim]) -> tuple[Trimmed, ...]:
        """Trim shards; results in the order of ``orders``. Raises `StreamUnavailable` as the rest does."""
        ...


class ShardLog(Protocol):
    """The member's and the producer's side of Redis.

    Each fenced order compares generation, seal and the group's token in one atomic step with what it
    does, and raises the mark if its token is higher. Raises `StreamUnavailable` if Redis does not
    answer.
    """

    async def read(self, wanted: Sequence[tuple[ShardAccess, int]]) -> tuple[ReadReply, ...]:
        """Take at most so many new records of each shard; never waits. One order per shard."""
        ...

    async def claim(self, access: ShardAccess, start: RecordId, count: int) -> ClaimReply:
        """Take over a page of everything pending in the group from ``start`` on, whoever's name it is under."""
        ...

    async def acknowledge(self, access: ShardAccess, ids: Sequence[RecordId], mode: AckMode) -> AckReply:
        """Acknowledge records."""
        ...

    async def wait(self, after: Mapping[str, RecordId], timeout: Millis) -> None:
        """Return when one of these stream keys has a record after its id, or on the timeout. Delivers nothing."""
        ...

    async def append(
        self, key: str, fields: Mapping[str | bytes, str | bytes | int | float], max_len: int | None
    ) -> RecordId | None:
        """Add a record to an existing key; None if there is no such key (never makes one).

        Raises `NotWritten` if it surely was not written, `MaybeWritten` if that can't be known.
        """
        ...

    async def drop_consumer(self, access: ShardAccess) -> bool:
        """Delete the consumer's name from the group if nothing is pending under it; True if it is gone."""
        ...

    async def close(self) -> None:
        """Let go of every connection; idempotent."""
        ...


@runtime_checkable
class AppendingMany(Protocol):
    """What a `ShardLog` may offer besides: to add many records in one round trip."""

    async def append_many(self, records: Sequence[Append]) -> Sequence[RecordId | None | NotWritten | MaybeWritten]:
        """Add each in turn; what `append` would have given or raised, for each in its place.

        Records that may be in the server without an answer are the last of those that were sent. The details
        of a `MaybeWritten` hold ``once`` if the same append, sent again soon, writes nothing twice.
        """
        ...


@runtime_checkable
class Redelivering(Protocol):
    """What a `ShardLog` may offer besides: deliveries that are counted one by one, and what is given up.

    Raises `StreamUnavailable` as the rest does. Without it a claim counts as a delivery, also of records
    that no handler gets to see, and no limit can be set to deliveries.
    """

    async def survey(self, access: ShardAccess, start: RecordId, count: int) -> ClaimReply:
        """As `ShardLog.claim`, but nothing counts as delivered: a record says how often it was so far."""
        ...

    async def deliver(self, access: ShardAccess, ids: Sequence[RecordId]) -> DeliveryReply:
        """Count one more delivery of each pending record, before a handler sees it."""
        ...

    async def give_back(self, access: ShardAccess, ids: Sequence[RecordId]) -> AckReply:
        """Leave records pending under nobody's name (XNACK), where the server can."""
        ...

    async def bury(self, key: str, fields: Mapping[bytes, bytes]) -> RecordId:
        """Add a record to the stream ``key``, which is made if there is none."""
        ...

    async def abilities(self) -> Abilities:
        """Ask the server what it can do; one that won't tell can do nothing special."""
        ...


@runtime_checkable
class Scattered(Protocol):
    """What a `ShardLog` may offer besides: shards on several servers, each read and waited for by itself.

    Orders for one server that are given at the same time share a round trip, whoever gives them; an order for
    several is answered when the slowest of them has. So each is asked for its own, and any number of waits may
    be under way.
    """

    def server_of(self, key: str) -> str | None:
        """Where a shard is, as ``host:port``; None if that is not known, and to be found out by the first order."""
        ...


class Clock(Protocol):
    """Time of this process."""

    def boot(self) -> Instant:
        """Milliseconds on a clock that counts suspend and never steps."""
        ...

    def wall(self) -> WallMillis:
        """Unix time; for display and for tokens only."""
        ...

    async def sleep(self, duration: Millis) -> None:
        """Wait."""
        ...


class Entropy(Protocol):
    """Randomness of this process."""

    def nonce(self) -> Nonce:
        """128 random bits, in hex."""
        ...

    def fraction(self) -> float:
        """Uniform in [0, 1), for jitter."""
        ...


class CoordinatorApi(Protocol):
    """What members and producers need of a coordinator: in process, or over HTTP."""

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        """Answer one attempt; raises `CoordinatorUnreachable` if no answer came in time."""
        ...

    async def routing(self, key: GroupKey) -> Routing:
        """Raise `StreamNotFound` or `GroupNotFound` if there is nothing to route to."""
        ...


@runtime_checkable
class Watching(Protocol):
    """What a `CoordinatorApi` may offer besides: to say when it is worth asking. All goes well without it."""

    async def watch(self, watch: GroupWatch | LayoutWatch, wait: Millis) -> News:
        """Answer as soon as there is news, or after ``wait`` (at most 30 s) that there is none.

        Raises `StreamNotFound`, `GroupNotFound`, `InvalidRequest` for a view of another group,
        `CoordinatorUnreachable`, and what an older coordinator says that does not know of watches.
        """
        ...


@runtime_checkable
class Batching(Protocol):
    """What a `CoordinatorApi` may offer besides: several heartbeats in one question."""

    async def heartbeats(
        self, beats: Sequence[tuple[GroupKey, Heartbeat]]
    ) -> tuple[HeartbeatReply | StreamshardError, ...]:
        """Answer each attempt as if it had come alone, in their order."""
        ...
