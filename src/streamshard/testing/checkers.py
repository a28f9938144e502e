"""Judges from outside: what consumers do, what Redis let through, what was committed. None looks at a promise.

The names are those of the invariants in the documentation of the guarantees.
"""

from collections.abc import Iterable, Mapping

import attrs

from streamshard.adapters.streams.memory_world import Id, MemoryStreams, Stream
from streamshard.adapters.streams.record_ids import id_text
from streamshard.core.consumer import id_order
from streamshard.core.group import GroupRecord, GroupTombstone, Holding
from streamshard.core.ids import GroupKey, GroupName, InstanceId, RecordId, ShardIndex, Token, stream_key
from streamshard.core.invariants import group_step_violations, group_violations
from streamshard.core.records import Access, Record
from streamshard.core.session import Session
from streamshard.testing.processes import Command, Consumer, Run

AnyGroup = GroupRecord | GroupTombstone


class Violation(AssertionError):
    """An invariant does not hold; the message names it first."""


def one_reader_per_shard(consumers: Iterable[Consumer]) -> None:
    """I1a: at this instant at most one process passes its own check of the lease, shard by shard."""
    readers: dict[ShardIndex, tuple[Consumer, Token]] = {}
    for consumer in consumers:
        for shard in consumer.session.held:
            token = consumer.may_use(shard)
            if token is None:
                continue
            if shard in readers:
                other, earlier = readers[shard]
                raise Violation(f"I1a: shard {shard} is used by {other.name} ({earlier}) and {consumer.name} ({token})")
            readers[shard] = consumer, token


@attrs.define
class Marks:
    """I1b: once a consumer was told of a grant, Redis lets nothing through under an earlier one."""

    highest: dict[tuple[str, GroupName], Token] = attrs.field(factory=dict)

    seen: dict[Consumer, Session] = attrs.field(factory=dict)

    def told(self, consumers: Iterable[Consumer]) -> None:
        """Take in what consumers know of by now."""
        for consumer in consumers:
            if self.seen.get(consumer) is consumer.session:
                continue
            self.seen[consumer] = consumer.session
            for shard, hold in consumer.session.held.items():
                line = stream_key(consumer.key.prefix, shard), consumer.key.group
                self.highest[line] = max(self.highest.get(line, Token(0)), hold.token)

    def passed(self, command: Command, access: Access) -> None:
        """An order was carried out or refused."""
        if access is not Access.OK:
            return
        run = command.run
        line = run.key, run.access.group
        if run.access.token < self.highest.get(line, Token(0)):
            raise Violation(
                f"I1b: {command.verb} on {run.key} was let through under {run.access.token} after {self.highest[line]}"
            )
        self.highest[line] = run.access.token


@attrs.define
class Books:
    """I2, I3, I7: what each commit does to holdings, tokens and versions, judged by who may use what by then."""

    last: dict[GroupKey, AnyGroup] = attrs.field(factory=dict)
    issued: dict[tuple[GroupKey, ShardIndex, Token], InstanceId] = attrs.field(factory=dict)
    highest: dict[tuple[GroupKey, ShardIndex], Token] = attrs.field(factory=dict)
    moves: int = 0
    """How often a shard was given to another member than the one that held it before."""
    owners: dict[tuple[GroupKey, ShardIndex], str] = attrs.field(factory=dict)

    def look(self, key: GroupKey, record: AnyGroup | None, consumers: Iterable[Consumer]) -> None:
        """A commit may have been made just now."""
        before = self.last.get(key)
        if record is None or record == before:
            return
        _sound(before, record)
        if before is not None:
            self._released(before.holdings, record.holdings, consumers)
            _forwards(before, record)
            _frozen(before, record)
        for shard, holding in record.holdings.items():
            self._issued(key, shard, holding)
        self.last[key] = record

    def lost_writes(self, key: GroupKey, record: AnyGroup | None) -> None:
        """The store is back to an earlier commit; what was issued since stays issued."""
        if record is None:
            self.last.pop(key, None)
        else:
            self.last[key] = record

    def _issued(self, key: GroupKey, shard: ShardIndex, holding: Holding) -> None:
        known = self.issued.get((key, shard, holding.token))
        if known == holding.instance:
            return
        if known is not None:
            raise Violation(f"I3: token {holding.token} of shard {shard} went to {known} and {holding.instance}")
        if holding.token <= self.highest.get((key, shard), Token(0)):
            raise Violation(f"I3: shard {shard} was granted under {holding.token} after {self.highest[key, shard]}")
        self.issued[key, shard, holding.token] = holding.instance
        self.highest[key, shard] = holding.token
        self.moves += self.owners.get((key, shard), holding.member) != holding.member
        self.owners[key, shard] = holding.member

    def _released(
        self,
        before: Mapping[ShardIndex, Holding],
        after: Mapping[ShardIndex, Holding],
        consumers: Iterable[Consumer],
    ) -> None:
        for shard, holding in before.items():
            if shard in after and after[shard].token == holding.token:
                continue
            for consumer in consumers:
                mine = consumer.session.instance == holding.instance
                if mine and consumer.may_use(shard) == holding.token:
                    raise Violation(f"I2: shard {shard} was freed while {consumer.name} may still use it")


def _sound(before: AnyGroup | None, after: AnyGroup) -> None:
    """What monitoring and health would say of the record, too."""
    if not isinstance(after, GroupRecord):
        return
    found = group_violations(after)
    if isinstance(before, GroupRecord):
        found += group_step_violations(before, after)
    if found:
        raise Violation("; ".join(found))


def _forwards(before: AnyGroup, after: AnyGroup) -> None:
    """I3: epochs and versions never run backwards, also across delete and re-create."""
    rows = [
        ("group epoch", before.group_epoch, after.group_epoch),
        ("metadata version", before.metadata_version, after.metadata_version),
        ("revision", before.version.revision, after.version.revision),
    ]
    if isinstance(before, GroupRecord) and isinstance(after, GroupRecord) and before.lineage == after.lineage:
        rows += [
            ("layout version", before.layout_version, after.layout_version),
            ("assignment epoch", before.assignment_epoch, after.assignment_epoch),
        ]
        rows += [
            (f"epoch of {name}", member.epoch, after.members[name].epoch)
            for name, member in before.members.items()
            if name in after.members
        ]
    for name, old, new in rows:
        if new < old:
            raise Violation(f"I3: the {name} ran backwards, from {old} to {new}")


def _frozen(before: AnyGroup, after: AnyGroup) -> None:
    """I7: nothing is granted in quarantine; what is written down there is on its way out."""
    if not isinstance(after, GroupRecord) or after.quarantine is None:
        return
    for shard, holding in after.holdings.items():
        known = before.holdings.get(shard)
        if (known is None or known.token != holding.token) and not holding.draining:
            raise Violation(f"I7: shard {shard} was granted to {holding.member} in quarantine")


@attrs.define
class Ledger:
    """I5, I6, I11, I12: every accepted record, and each time a handler took one."""

    accepted: dict[str, set[RecordId]] = attrs.field(factory=dict)
    handled: dict[str, set[RecordId]] = attrs.field(factory=dict)
    newest: dict[str, tuple[RecordId, str]] = attrs.field(factory=dict)
    earlier: dict[str, set[RecordId]] = attrs.field(factory=dict)
    """What groups handled that were deleted since."""
    lives: dict[str, int] = attrs.field(factory=dict)
    """The generation of each key that was last seen to exist."""

    standing: dict[str, tuple[Stream, frozenset[Id]]] = attrs.field(factory=dict)
    """What was last seen on each key, in this life of it."""

    group_lives: dict[str, int] = attrs.field(factory=dict)
    """How often the group was destroyed on each key."""

    def accept(self, key: str, record: RecordId) -> None:
        """Redis has taken a record of a producer."""
        self.accepted.setdefault(key, set()).add(record)

    def hand(self, consumer: Consumer, run: Run, record: Record) -> None:
        """A handler takes a record."""
        if run.group_life != self.group_lives.get(run.key, 0):  # taken before the group was destroyed
            self.earlier.setdefault(run.key, set()).add(record.id)
            return
        handled = self.handled.setdefault(run.key, set())
        if record.id in handled:
            return
        newest = self.newest.get(run.key)
        if newest is not None and id_order(record.id) < id_order(newest[0]):
            raise Violation(
                f"I12: {record.id} of {run.key} came first to {consumer.name} after {newest[0]} to {newest[1]}"
            )
        handled.add(record.id)
        self.newest[run.key] = record.id, consumer.name

    def begin_anew(self, key: str) -> None:
        """The group was destroyed on purpose: the next one of its name starts with the first record."""
        self.earlier.setdefault(key, set()).update(self.handled.pop(key, set()))
        self.newest.pop(key, None)
        self.group_lives[key] = self.group_lives.get(key, 0) + 1

    def lost_writes(self) -> None:
        """The store may have forgotten that a group was deleted: then it goes on where it was."""
        for key, records in self.earlier.items():
            self.handled.setdefault(key, set()).update(records)

    def look(self, world: MemoryStreams) -> None:
        """Judge the keys and the marks as they stand in Redis now."""
        for key, stream in world.streams.items():
            self._trimmed(key, stream)
        for key, fence in world.fences.items():
            generation, exists = fence.generation or 0, key in world.streams
            if fence.sealed and exists:
                raise Violation(f"I6: {key} exists though generation {generation} of it is retired")
            if exists:
                if generation < self.lives.get(key, 0):
                    raise Violation(f"I6: {key} is in generation {generation} after {self.lives[key]}")
                self.lives[key] = generation
            elif fence.sealed:
                self._retired(key)

    def _trimmed(self, key: str, stream: Stream) -> None:
        """I11: only what every group on the key has acknowledged goes, and a handler has had it."""
        before, here = self.standing.get(key), frozenset(stream.entries)
        self.standing[key] = stream, here
        if before is None or before[0] is not stream:
            return
        for gone in sorted(before[1] - here):
            for name, group in stream.groups.items():
                if gone in group.pending or gone > group.last_delivered:
                    raise Violation(f"I11: {id_text(gone)} of {key} was trimmed and {name} has not acknowledged it")
            self._settled(key, id_text(gone))

    def _settled(self, key: str, record: RecordId) -> None:
        if record not in self.handled.get(key, set()) | self.earlier.get(key, set()):
            raise Violation(f"I11: {record} of {key} was trimmed and nobody has handled it")
        self.accepted.get(key, set()).discard(record)

    def _retired(self, key: str) -> None:
        left = self.accepted.pop(key, set()) - self.handled.get(key, set())
        if left:
            raise Violation(f"I5: {key} was retired with {len(left)} records that nobody handled")

    def unhandled(self) -> dict[str, list[RecordId]]:
        """I11: what Redis accepted and nobody has handled yet."""
        left = {key: sorted(ids - self.handled.get(key, set()), key=id_order) for key, ids in self.accepted.items()}
        return {key: ids for key, ids in left.items() if ids}
