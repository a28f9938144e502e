"""Loading, deciding and committing a stream's record, and asking Redis for what the record wants."""

from collections.abc import Sequence, Set
from typing import TypeVar

import attrs

from streamshard.core import chronicle
from streamshard.core.admin import CreateGroup, CreateStream, DeleteGroup
from streamshard.core.desk import Desk
from streamshard.core.effects import DropGroup, DropShard, MendLag, Provision, RaiseLayout, Seal
from streamshard.core.facts import GroupFacts, group_facts
from streamshard.core.group import GroupRecord, GroupTombstone
from streamshard.core.groups import bury_group, found_group
from streamshard.core.ids import GroupKey, GroupName, Lineage, Nonce, ShardIndex, StreamPrefix
from streamshard.core.ports import GroupChange, StoreSource, StreamChange, StreamSnapshot, Transaction
from streamshard.core.queries import GroupView
from streamshard.core.stream import StreamRecord, StreamState, StreamTombstone
from streamshard.core.stream_events import (
    AdminCommand,
    FencesSeen,
    LayoutRaised,
    Observation,
    Probed,
    ProbeShard,
    Provisioned,
    ReadFences,
    Sealed,
    StreamCommand,
    StreamContext,
    StreamOutcome,
    Tidied,
)
from streamshard.core.stream_fences import fences_wanted
from streamshard.core.stream_sight import StreamSight
from streamshard.core.stream_wants import Order, Pace, wanted
from streamshard.core.streams import decide_stream
from streamshard.errors import (
    CommitUncertain,
    MetadataCorrupt,
    RevisionConflict,
    SourceChanged,
    StateConflict,
    StoreSignal,
    StoreUnavailable,
    StreamshardError,
    Unavailable,
)

MAX_ATTEMPTS = 8
BACKOFF_MS = 30

Found = StreamRecord | StreamTombstone | None
OneOrder = TypeVar("OneOrder", Provision, RaiseLayout, Seal, ProbeShard, ReadFences)


class _NeverArrived(RevisionConflict):
    """Nobody else was first: the store failed in the middle of a commit, and has nothing of it."""


@attrs.frozen
class Round:
    """Where one round of work left a stream."""

    record: Found
    refusal: StreamshardError | None = None
    """What an answer of Redis made impossible; whoever asked for it is to be told."""
    worked: bool = False
    """Something was asked of Redis: another round may find more to do."""


class StreamWork:
    """Everything about stream records that touches a port; level-triggered, so that anybody can go on with it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sights: dict[StreamPrefix, tuple[StoreSource, StreamSight]] = {}
        timing, settings = desk.settings.timing, desk.settings
        self._pace = Pace(timing.tick_ms, timing.routing_lease_ms, retired_watch_ms=settings.retired_watch_ms)

    def sight(self, record: StreamRecord) -> StreamSight:
        """What this coordinator has seen of the stream, for display."""
        known = self._sights.get(record.prefix)
        return known[1] if known is not None else StreamSight.first(record, self._desk.clock.boot())

    def forget_streams(self, present: Set[StreamPrefix]) -> None:
        """Drop what was seen of every stream but these."""
        for prefix in [prefix for prefix in self._sights if prefix not in present]:
            del self._sights[prefix]

    async def command(self, prefix: StreamPrefix, command: StreamCommand) -> StreamOutcome:
        """Decide and commit, again after every lost race; raises what the decision refuses."""
        lost: StoreSignal | None = None
        for attempt in range(MAX_ATTEMPTS):
            try:
                outcome = await self._once(prefix, command)
            except (RevisionConflict, SourceChanged) as signal:
                lost = signal
                await self._desk.pause(BACKOFF_MS * attempt)
            else:
                if outcome.refusal is not None:
                    raise outcome.refusal
                return outcome
        if isinstance(lost, _NeverArrived):
            raise StoreUnavailable(f"the metadata store keeps nothing that is written of stream '{prefix}'")
        raise StateConflict(f"stream '{prefix}' kept changing while this was decided: retry")

    async def _once(self, prefix: StreamPrefix, command: StreamCommand) -> StreamOutcome:
        snapshot = await self._desk.store.load_stream(prefix)
        context = await self._context(snapshot, command)
        outcome = decide_stream(snapshot.record, command, context)
        if outcome.changed:
            await self._commit(snapshot, outcome, context)
        return outcome

    async def _context(self, snapshot: StreamSnapshot, command: StreamCommand) -> StreamContext:
        desk, record = self._desk, snapshot.record
        context = StreamContext(
            wall=desk.clock.wall(),
            nonce=desk.entropy.nonce(),
            lineage=Lineage(desk.entropy.nonce()),
            mac_key=desk.entropy.nonce(),
            store=snapshot.source.identity,
            max_shard_count=desk.settings.max_shard_count,
            default_shard_count=desk.settings.default_shard_count,
        )
        if not isinstance(command, AdminCommand):
            return context
        prefix, limit = _prefix(command), desk.settings.max_shard_count
        wanted_marks = fences_wanted(record, command, desk.settings.default_shard_count, limit)
        marks = await desk.streams.read_fences(prefix, wanted_marks) if wanted_marks else ()
        creates = isinstance(command, CreateStream | CreateGroup) and bool(wanted_marks)
        probes = await desk.streams.probe(prefix, wanted_marks) if creates else ()
        groups = await self._groups(record, command)
        return attrs.evolve(
            context,
            marks=marks,
            probes=probes,
            group=_asked_about(command, record, groups),
            live_members={g.key.group: sum(m.live for m in g.members.values()) for g in groups},
            quarantined=tuple(g.key.group for g in groups if g.quarantine is not None),
        )

    async def _groups(self, record: Found, command: AdminCommand) -> tuple[GroupRecord, ...]:
        """The groups that a command concerns; what is wrong with another group's record is no reason against it."""
        if not isinstance(record, StreamRecord) or record.state is not StreamState.ACTIVE:
            return ()
        about = command.key.group if isinstance(command, CreateGroup | DeleteGroup) else None
        found: list[GroupRecord | GroupTombstone | None] = []
        for name in record.groups:
            try:
                found.append((await self._desk.store.load_group(GroupKey(record.prefix, name))).record)
            except MetadataCorrupt:
                if about in (None, name):
                    raise
        return tuple(group for group in found if isinstance(group, GroupRecord))

    async def _commit(self, snapshot: StreamSnapshot, outcome: StreamOutcome, context: StreamContext) -> None:
        before, after = snapshot.record, outcome.record
        assert after is not None, "a changed outcome has a record"
        groups = [await self._founded(after, name, snapshot.source) for name in outcome.created_groups]
        groups += [await self._buried(after, before, name, snapshot.source) for name in outcome.removed_groups]
        change = StreamChange(before.version if before is not None else None, after)
        transaction = Transaction(after.prefix, snapshot.source, change, tuple(g for g in groups if g is not None))
        try:
            await self._desk.commit(transaction)
        except CommitUncertain:
            await self._look_up(after.prefix, context.nonce)
        self._committed(before, after, [g for g in groups if g is not None])
        self._desk.note(chronicle.alarms(after.prefix, outcome))

    async def _look_up(self, prefix: StreamPrefix, nonce: Nonce) -> None:
        record = await self._load_patiently(prefix)
        ring = record.ring if isinstance(record, StreamRecord) else ()
        if nonce not in ring and (record is None or record.version.nonce != nonce):
            raise _NeverArrived(f"the commit to stream '{prefix}' did not arrive")

    async def _load_patiently(self, prefix: StreamPrefix) -> Found:
        """What broke off the answer to a commit is often over in a moment: the operator is owed the truth."""
        for attempt in range(1, MAX_ATTEMPTS):
            try:
                return (await self._desk.store.load_stream(prefix)).record
            except StoreUnavailable:
                await self._desk.pause(BACKOFF_MS * attempt)
        return (await self._desk.store.load_stream(prefix)).record

    async def _founded(
        self, after: StreamRecord | StreamTombstone, name: GroupName, source: StoreSource
    ) -> GroupChange | None:
        assert isinstance(after, StreamRecord), "groups are founded on streams that exist"
        key = GroupKey(after.prefix, name)
        found = (await self._desk.store.load_group(key)).record
        if isinstance(found, GroupRecord):
            return GroupChange(key, found.version)
        fresh = found_group(key, after.groups[name], found, self._desk.context(after, source))
        return GroupChange(key, found.version if found is not None else None, fresh)

    async def _buried(
        self, after: StreamRecord | StreamTombstone, before: Found, name: GroupName, source: StoreSource
    ) -> GroupChange | None:
        key = GroupKey(after.prefix, name)
        found = (await self._desk.store.load_group(key)).record
        if not isinstance(found, GroupRecord) or not isinstance(before, StreamRecord):
            return None
        return GroupChange(key, found.version, bury_group(found, self._desk.context(before, source)))

    def _committed(self, before: Found, after: StreamRecord | StreamTombstone, groups: Sequence[GroupChange]) -> None:
        for change in groups:
            if isinstance(change.value, GroupRecord):
                self._desk.note(chronicle.group_events(None, change.value))
            elif isinstance(change.value, GroupTombstone):
                self._desk.forget_groups([change.key])
                self._desk.note([chronicle.gone(after.prefix, change.key.group)])
        if isinstance(after, StreamTombstone):
            self._desk.layouts.pop(after.prefix, None)
            self._desk.notices.tell(after.prefix)
            self._desk.note([chronicle.gone(after.prefix)])
            return
        self._desk.note(chronicle.stream_events(before if isinstance(before, StreamRecord) else None, after))
        if after.state is StreamState.ACTIVE:
            self._desk.see_layout(after)

    async def round(self, prefix: StreamPrefix) -> Round:
        """Ask Redis once for everything that the record wants now, and take in its answers."""
        snapshot = await self._desk.store.load_stream(prefix)
        record = snapshot.record
        if not isinstance(record, StreamRecord):
            self._sights.pop(prefix, None)
            return Round(record)
        sight = self._see(record, snapshot.source)
        orders = wanted(record, sight, self._desk.clock.boot(), self._pace)
        refusal: StreamshardError | None = None
        for observation in await self._perform(prefix, orders):
            sight.hear(record, observation, self._desk.clock.boot())
            refusal = await self._take_in(prefix, observation) or refusal
        if not orders:
            return Round(record)
        return Round((await self._desk.store.load_stream(prefix)).record, refusal, worked=True)

    def _see(self, record: StreamRecord, source: StoreSource) -> StreamSight:
        now = self._desk.clock.boot()
        known = self._sights.get(record.prefix)
        if known is not None and known[0] == source:
            known[1].observe(record, now)
            known[1].superseded |= self._desk.outdated.pop(record.prefix, set())
            return known[1]
        sight = StreamSight.first(record, now)
        sight.superseded |= set(record.shards)  # a first load proves nothing before the marks were read
        sight.look_beyond(ShardIndex(max(record.shards, default=-1) + 1))
        self._sights[record.prefix] = (source, sight)
        return sight

    async def _take_in(self, prefix: StreamPrefix, observation: Observation) -> StreamshardError | None:
        try:
            await self.command(prefix, observation)
        except StateConflict:
            return None  # somebody else goes on with it
        except Unavailable:
            raise
        except StreamshardError as refusal:
            return refusal
        return None

    async def _perform(self, prefix: StreamPrefix, orders: Sequence[Order]) -> list[Observation]:
        """Carry orders out, all of a kind together; the answers in the order of their effects."""
        streams, answers = self._desk.streams, list[Observation]()
        if reads := _of(orders, ReadFences):
            shards = sorted({s for order in reads for s in order.shards})
            answers.append(FencesSeen(await streams.read_fences(prefix, shards)))
        if makes := _of(orders, Provision):
            answers.append(Provisioned(tuple(zip(makes, await streams.provision(makes), strict=True))))
        if raises := _of(orders, RaiseLayout):
            answers.append(LayoutRaised(tuple(zip(raises, await streams.raise_layouts(raises), strict=True))))
        if seals := _of(orders, Seal):
            answers.append(Sealed(tuple([(seal, await streams.seal(seal)) for seal in seals])))
        if tidies := [o for o in orders if isinstance(o, DropGroup | DropShard | MendLag)]:
            answers.append(Tidied(tuple(zip(tidies, await streams.tidy(tidies), strict=True))))
        if probes := _of(orders, ProbeShard):
            looks = await streams.probe(prefix, [p.shard for p in probes])
            answers.append(Probed(tuple(zip(probes, looks, strict=True))))
        return answers


def _asked_about(command: AdminCommand, record: Found, groups: Sequence[GroupRecord]) -> GroupFacts | None:
    """What the delete of a group is to be answered with: the group as it was."""
    if not isinstance(command, DeleteGroup) or not isinstance(record, StreamRecord):
        return None
    return next((group_facts(GroupView(record, g, {})) for g in groups if g.key == command.key), None)


def _of(orders: Sequence[Order], kind: type[OneOrder]) -> list[OneOrder]:
    return [order for order in orders if isinstance(order, kind)]


def _prefix(command: AdminCommand) -> StreamPrefix:
    return command.key.prefix if isinstance(command, CreateGroup | DeleteGroup) else command.prefix
