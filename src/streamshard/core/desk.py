"""A coordinator's desk: its ports, what it has loaded, and what it has itself seen.

Records are kept decoded, one per revision; every commit names the revision it was decided on, so a stale
copy costs a retry and never a wrong decision. What says no to a member is decided on a fresh load.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Set

import attrs

from streamshard.core import chronicle, correction
from streamshard.core.chronicle import Event
from streamshard.core.group import GroupRecord, Row
from streamshard.core.ids import (
    GroupKey,
    InstanceId,
    Instant,
    Lineage,
    Millis,
    Nonce,
    ShardIndex,
    StreamPrefix,
    Token,
    Version,
)
from streamshard.core.notices import Notices
from streamshard.core.outcome import Context, LostWrites
from streamshard.core.ports import (
    Clock,
    Entropy,
    GroupChange,
    GroupSnapshot,
    MetadataStore,
    RowWrite,
    StoreSource,
    StreamBackend,
    Transaction,
)
from streamshard.core.routine import Routine
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.sight import GroupSight
from streamshard.core.stream import StreamRecord, StreamState
from streamshard.core.tally import Tally
from streamshard.errors import (
    CommitUncertain,
    GroupNotFound,
    MetadataCorrupt,
    RevisionConflict,
    StoreUnavailable,
    StreamNotFound,
    StreamUnavailable,
)

KEPT_EVENTS = 10_000
_LIFE_CHARS = 20


@attrs.define
class KnownGroup:
    """A group as last loaded or committed here, with this coordinator's own sight of it."""

    record: GroupRecord
    rows: dict[InstanceId, Row]
    sight: GroupSight
    lost: LostWrites | None = None
    """The proof that the store forgot something, until a new lineage has started."""
    judged: GroupRecord | None = None
    """The record that the last tick looked at for breaches of an invariant."""
    wrong: tuple[str, ...] = ()
    """What that look found in the record by itself; told, and left to the rules to mend."""
    broken: tuple[str, ...] = ()
    """What no correct coordinator can have done to it: nothing is committed before a new lineage starts."""
    routine: Routine | None = None
    """What members said of the record without changing it."""


@attrs.frozen
class GroupCommit:
    """A decision to be committed; the record is left alone if it is the very object that was decided on."""

    record: GroupRecord
    nonce: Nonce
    row: RowWrite | None = None
    same_rows: Mapping[InstanceId, Nonce | None] = attrs.field(factory=dict)
    drop_rows: tuple[InstanceId, ...] = ()


class Desk:
    """Loads and commits for everything the coordinator does."""

    def __init__(
        self,
        store: MetadataStore,
        streams: StreamBackend,
        clock: Clock,
        entropy: Entropy,
        settings: CoordinatorSettings,
    ) -> None:
        self.store = store
        self.streams = streams
        self.clock = clock
        self.entropy = entropy
        self.settings = settings
        self.groups: dict[GroupKey, KnownGroup] = {}
        self.past: dict[GroupKey, KnownGroup] = {}
        """Groups as known from an earlier source: what was seen there must not be missing here."""
        self.layouts: dict[StreamPrefix, StreamRecord] = {}
        self.vanished: dict[StreamPrefix, set[ShardIndex]] = {}
        """Shards whose key or group was found missing; the next tick makes them again, guarded."""
        self.outdated: dict[StreamPrefix, set[ShardIndex]] = {}
        """Shards whose fence knows a later life or layout than a grant named; the next round reads their marks."""
        self._disbelieved: set[tuple[GroupKey, ShardIndex]] = set()
        self.events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self.notices = Notices()
        self.tally = Tally()
        self._refused_at: Instant | None = None
        self._life = ""
        self._renewals = itertools.count()

    @property
    def takes_no_writes(self) -> bool:
        """The last commit found the store unavailable, not longer than a lease ago.

        Reads alone can't tell: a full disk and a server at its memory limit go on answering them.
        """
        at = self._refused_at
        return at is not None and self.clock.boot() - at <= self.settings.timing.lease_ms

    async def commit(self, transaction: Transaction) -> None:
        """As the store's own."""
        try:
            await self.store.commit(transaction)
        except RevisionConflict:
            self.tally.conflicts += 1
            raise
        except StoreUnavailable:
            self._refused_at = self.clock.boot()
            raise
        self._refused_at = None

    def note(self, events: Iterable[Event]) -> None:
        """Keep what this coordinator itself committed, for whoever logs it."""
        self.events.extend(self.tally.hear(events))

    async def load_stream(self, prefix: StreamPrefix) -> StreamRecord:
        """Read an active stream; raises `StreamNotFound`."""
        before = self.layouts.get(prefix)
        record = (await self.store.load_stream(prefix)).record
        overtaken = self.layouts.get(prefix) is not before
        if not isinstance(record, StreamRecord) or record.state is not StreamState.ACTIVE:
            if not overtaken:
                self.layouts.pop(prefix, None)
                self.notices.tell(prefix)
            raise StreamNotFound(f"no stream '{prefix}': create it first")
        if not overtaken:
            self.see_layout(record)
        return record

    def see_layout(self, record: StreamRecord) -> None:
        """Keep a stream's record as the newest known."""
        before = self.layouts.get(record.prefix)
        self.layouts[record.prefix] = record
        if before is None or before.version != record.version:
            self.notices.tell(record.prefix)

    async def stream_of(self, key: GroupKey) -> StreamRecord:
        """The group's stream as last seen."""
        known = self.layouts.get(key.prefix)
        return known if known is not None else await self.load_stream(key.prefix)

    async def load_group(self, key: GroupKey) -> KnownGroup:
        """Read a group afresh and take in what changed; raises `GroupNotFound`."""
        asked = self.clock.boot()
        known = self.groups.get(key) or self.past.get(key)
        seen = known.sight.version if known is not None else None
        snapshot = await self.store.load_group(key)
        now = self.clock.boot()
        if now - asked > self.settings.timing.heartbeat_ms // 2:
            self.restart_timers(now)
        if not isinstance(snapshot.record, GroupRecord):
            self.forget_groups([key])
            raise GroupNotFound(f"no group '{key.group}' on stream '{key.prefix}': create it first")
        return self._take_in(snapshot, snapshot.record, seen, now)

    def _take_in(self, snapshot: GroupSnapshot, record: GroupRecord, seen: Version | None, now: Instant) -> KnownGroup:
        known = self.groups.get(record.key)
        lost = correction.gone_back(record, seen)
        if known is None or known.sight.source != snapshot.source:
            known = self._first_load(snapshot, record, now)
        elif lost is None and correction.is_later(known.record, record):
            return known  # overtaken on its way here by a newer commit or read
        elif record.lineage != known.record.lineage:
            known.lost = None  # a new lineage has started, whoever had the proof
        known.lost = lost or known.lost
        if record.version != known.record.version:
            self.notices.tell(record.key)
        if record is not known.judged:
            self.tally.seen(record, now)
        known.record, known.rows = record, dict(snapshot.rows)
        timing = self.settings.timing
        if now - known.sight.seen_at > timing.tick_ms + timing.heartbeat_ms // 2:
            known.sight.restart(now)  # nobody watched in between: the record was corrupt, or its stream
        known.sight.observe(record, known.rows, now)
        return known

    def _first_load(self, snapshot: GroupSnapshot, record: GroupRecord, now: Instant) -> KnownGroup:
        known = KnownGroup(record, dict(snapshot.rows), GroupSight.first(snapshot.source, record, now))
        before = self.groups.get(record.key) or self.past.pop(record.key, None)
        if before is not None:
            known.judged, known.wrong, known.broken = before.judged, before.wrong, before.broken
        if record.store != snapshot.source.identity:
            known.lost = LostWrites("the metadata store is another one than the record was last proven against")
        self.groups[record.key] = known
        self.notices.tell(record.key)
        return known

    def restart_timers(self, now: Instant) -> None:
        """Start every timer anew: a late tick, a slow or a failed read means that time was not healthy."""
        for known in self.groups.values():
            known.sight.restart(now)

    def forget_source(self) -> None:
        """Treat everything as a first load: the store, or the connection to it, is another one."""
        self.past |= self.groups
        self.groups.clear()
        self.layouts.clear()

    def forget_groups(self, keys: Iterable[GroupKey]) -> None:
        """Drop what is known of groups that are gone."""
        for key in keys:
            self.groups.pop(key, None)
            self.past.pop(key, None)
            self.tally.forget([key])
            self._disbelieved = {doubt for doubt in self._disbelieved if doubt[0] != key}
            self.notices.tell(key)

    def forget_streams(self, present: Set[StreamPrefix]) -> None:
        """Drop what is known of every stream but these."""
        self.forget_groups([key for key in (*self.groups, *self.past) if key.prefix not in present])
        for prefix in [prefix for prefix in (*self.layouts, *self.vanished, *self.outdated) if prefix not in present]:
            self.layouts.pop(prefix, None)
            self.vanished.pop(prefix, None)
            self.outdated.pop(prefix, None)

    def mark(self) -> Nonce:
        """What no other renewal carries, here or elsewhere; drawing bits for each would cost more than the rest."""
        if not self._life:
            self._life = self.entropy.nonce()[:_LIFE_CHARS]
        return Nonce(f"{self._life}{next(self._renewals):012x}")

    async def pause(self, at_most_ms: int) -> None:
        """Wait a random part of so long, so that two who lost to each other don't meet again."""
        await self.clock.sleep(Millis(int(self.entropy.fraction() * at_most_ms)))

    def context(self, stream: StreamRecord, source: StoreSource) -> Context:
        """Time, randomness and layout for one decision."""
        return Context(
            now=self.clock.boot(),
            wall=self.clock.wall(),
            timing=self.settings.timing,
            layout=stream.layout(),
            mac_key=stream.mac_key,
            nonce=self.entropy.nonce(),
            lineage=Lineage(self.entropy.nonce()),
            source=source,
        )

    async def prove(self, known: KnownGroup, stream: StreamRecord) -> None:
        """Compare a first load with the fences; what can't be proven starts a new lineage, in quarantine."""
        if known.sight.proven and known.lost is None:
            return
        marks = await self._marks(known)
        lost = known.lost  # what the marks prove is judged anew if somebody else commits first
        if marks is None:
            lost = lost or LostWrites("Redis could not be asked whether the record is the newest")
        elif correction.above_last(known.record, marks):
            lost = lost or LostWrites("a shard's fence is above the last token on record")
        if lost is not None:
            await self.start_lineage(known, stream, marks or {}, lost)
        known.sight.proven = True

    async def _marks(self, known: KnownGroup) -> Mapping[ShardIndex, Token] | None:
        key = known.record.key
        shards = sorted({*known.record.layout, *known.record.last_tokens})
        try:
            fences = await self.streams.read_fences(key.prefix, shards)
        except StreamUnavailable:
            return None
        marks = {fence.shard: fence.tokens.get(key.group, Token(0)) for fence in fences}
        return {shard: mark for shard, mark in marks.items() if self.believes(key, shard, mark)}

    def believes(self, key: GroupKey, shard: ShardIndex, mark: Token) -> bool:
        """Whether a mark can be a token's; one that can't blocks its shard alone, and is told once."""
        if mark <= correction.HIGHEST_MARK:
            return True
        if (key, shard) not in self._disbelieved:
            self._disbelieved.add((key, shard))
            text = f"its fence has the mark {mark}, which was never granted: delete the field t:{key.group} beside it"
            self.note([Event("fence-unbelievable", key.prefix, text, key.group, shard)])
        return False

    async def begin_anew(
        self, known: KnownGroup, stream: StreamRecord, seen: Mapping[ShardIndex, Token], proof: LostWrites
    ) -> None:
        """Start a new lineage as the fences now stand; not if the record, and so the proof, is another by then.

        ``seen`` are marks that are known already, should Redis not answer.
        """
        before = known.record
        marks = {**seen, **(await self._marks(known) or {})}
        if known.record is before:
            await self.start_lineage(known, stream, marks, proof)

    async def start_lineage(
        self, known: KnownGroup, stream: StreamRecord, marks: Mapping[ShardIndex, Token], proof: LostWrites
    ) -> None:
        """Commit a new lineage; raises `RevisionConflict` if somebody else was first."""
        context = self.context(stream, known.sight.source)
        record = correction.start_lineage(known.record, marks, proof, context)
        await self.commit_group(known, GroupCommit(record, context.nonce))
        known.lost = None
        known.sight.proven = True

    async def commit_group(self, known: KnownGroup, change: GroupCommit) -> None:
        """Commit a decision on ``known`` and take it in; an unknown outcome is looked up, never repeated.

        Raises `MetadataCorrupt` for a group in which an invariant was seen broken.
        """
        before = known.record
        key = before.key
        _check_sound(known)
        transaction = Transaction(
            prefix=key.prefix,
            source=known.sight.source,
            groups=(GroupChange(key, before.version, None if change.record is before else change.record),),
            row=change.row,
            same_rows={(key.group, i): mark for i, mark in change.same_rows.items()},
            drop_rows=tuple((key.group, i) for i in change.drop_rows),
        )
        try:
            await self.commit(transaction)
        except CommitUncertain:
            await self._look_up(key, change.nonce, change.row)
        self.note(chronicle.group_events(before, change.record))
        self.tally.committed(before, change.record, self.clock.boot())
        self._committed(known, change.record, change.row)

    async def renew(self, known: KnownGroup, same: tuple[GroupChange, ...], row: RowWrite) -> None:
        """Commit a row alone, beside the record as it is known, which ``same`` compares; else as `commit_group`."""
        key = known.record.key
        _check_sound(known)
        try:  # as `commit` does, which is left out to save a call in every heartbeat
            await self.store.commit(Transaction(key.prefix, known.sight.source, None, same, row))
            self._refused_at = None
        except RevisionConflict:
            self.tally.conflicts += 1
            raise
        except CommitUncertain:
            await self._look_up(key, row.row.mark, row)
        except StoreUnavailable:
            self._refused_at = self.clock.boot()
            raise
        self._renewed(known, row.row)

    async def _look_up(self, key: GroupKey, nonce: Nonce, row: RowWrite | None) -> None:
        found = await self.load_group(key)
        written = row is not None and found.rows.get(row.row.instance) == row.row
        if nonce not in found.record.ring and not written:
            raise RevisionConflict(f"the commit to {key} did not arrive")

    def _committed(self, known: KnownGroup, record: GroupRecord, row: RowWrite | None) -> None:
        newer = record.version != known.record.version and not correction.regressed(record, known.record.version)
        if row is not None:
            self._renewed(known, row.row)
        if newer:
            known.record = record
            known.sight.follow(record, known.rows, self.clock.boot())
            self.notices.tell(record.key)

    def _renewed(self, known: KnownGroup, row: Row) -> None:
        known.rows[row.instance] = row
        known.sight.renewed(row.instance, row.mark, self.clock.boot())

    def lease_of(self, known: KnownGroup, instance: InstanceId) -> Millis:
        """The lease length of the instance's row: what a repeated answer must carry."""
        row = known.rows.get(instance)
        if row is not None:
            return row.lease_ms
        return known.record.longest_leases.get(instance, self.settings.timing.lease_ms)  # the row was lost just now


def _check_sound(known: KnownGroup) -> None:
    if known.broken:
        raise MetadataCorrupt(f"group {known.record.key} is frozen: {'; '.join(known.broken)}")
