"""Judges that know what Redis itself may lose and what operators may take away: it is counted, and nobody is blamed."""

from collections.abc import Iterable, Mapping

import attrs

from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.adapters.streams.record_ids import id_text
from streamshard.core.group import Holding
from streamshard.core.ids import GroupKey, GroupName, InstanceId, RecordId, ReshardingId, ShardIndex, Token, stream_key
from streamshard.core.invariants import stream_step_violations
from streamshard.core.records import Access, Record
from streamshard.core.stream import ShardPhase, StreamRecord
from streamshard.testing.checkers import AnyGroup, Books, Ledger, Marks, Violation
from streamshard.testing.processes import Command, Consumer, Run


@attrs.define
class Accounts(Ledger):
    """The ledger, with what was lost to failovers and to operators, and how often a record was handled again."""

    again: int = 0
    lost_by_redis: int = 0
    taken_away: int = 0

    waived: dict[str, set[RecordId]] = attrs.field(factory=dict)
    """What operators kept from being delivered: it may never come, or come late."""
    meddled: set[str] = attrs.field(factory=set)
    """Keys that operators changed: a failover may undo that."""
    undone: set[str] = attrs.field(factory=set)
    """Keys on which a failover may have brought an earlier life of the group back."""

    def hand(self, consumer: Consumer, run: Run, record: Record) -> None:
        """A handler takes a record."""
        self.again += record.id in self.handled.get(run.key, set())
        if record.id in self.waived.get(run.key, set()):
            self.handled.setdefault(run.key, set()).add(record.id)
        super().hand(consumer, run, record)
        if run.key in self.undone:
            self.handled.setdefault(run.key, set()).add(record.id)

    def begin_anew(self, key: str) -> None:
        """The group was destroyed on purpose."""
        super().begin_anew(key)
        self.undone.discard(key)

    def failed_over(self, key: str, world: MemoryStreams) -> None:
        """A shard is what its replica knew: records, acknowledgements, marks, or a retirement are undone."""
        self.lost_by_redis += self._forget_missing(key, world)
        fence = world.fences.get(key)
        self.lives[key] = (fence.generation or 0) if fence is not None else 0
        self.handled.setdefault(key, set()).update(self.earlier.get(key, set()))
        self.undone.add(key)
        if key in self.meddled:
            self.newest.pop(key, None)

    def operated(self, key: str, world: MemoryStreams) -> None:
        """An operator changed a key behind everybody's back."""
        self.taken_away += self._forget_missing(key, world)
        self.meddled.add(key)

    def not_to_come(self, key: str, records: Iterable[RecordId]) -> None:
        """These records, though there, will perhaps not be delivered any more."""
        self.meddled.add(key)
        for record in records:
            if record in self.accepted.get(key, set()) and record not in self.handled.get(key, set()):
                self.accepted[key].discard(record)
                self.taken_away += 1
            self.waived.setdefault(key, set()).add(record)

    def _settled(self, key: str, record: RecordId) -> None:
        if record not in self.waived.get(key, set()):
            super()._settled(key, record)

    def _forget_missing(self, key: str, world: MemoryStreams) -> int:
        stream = world.streams.get(key)
        there = {id_text(entry) for entry in stream.entries} if stream is not None else set()
        missing = self.accepted.get(key, set()) - there
        self.standing.pop(key, None)
        self.accepted[key] = self.accepted.get(key, set()) - missing
        return len(missing - self.handled.get(key, set()))


@attrs.define
class MarksOfLives(Marks):
    """The marks' judge, who begins anew with each failover of a shard that lost some."""

    forgiven: dict[tuple[str, GroupName], Token] = attrs.field(factory=dict)
    """The highest token of before the last failover."""
    anew: dict[tuple[str, GroupName], Token] = attrs.field(factory=dict)
    """The highest that was let through since, among those."""

    newest: dict[tuple[str, GroupName], tuple[Token, InstanceId]] = attrs.field(factory=dict)
    """The last grant that anybody was told of."""
    strict: bool = True
    """Clocks keep their promise: then nobody is told of an earlier grant after somebody else of a later one."""

    def told(self, consumers: Iterable[Consumer]) -> None:
        """I3: take in what consumers know of by now; nobody is told of a token that is not a later one."""
        for consumer in consumers:
            before = self.seen.get(consumer)
            if not self.strict or before is consumer.session:
                continue
            for shard, hold in consumer.session.held.items():
                known = before.held.get(shard) if before is not None else None
                line = stream_key(consumer.key.prefix, shard), consumer.key.group
                if known is None or known.token != hold.token:
                    self._told(consumer, line, hold.token)
        super().told(consumers)

    def _told(self, consumer: Consumer, line: tuple[str, GroupName], token: Token) -> None:
        instance, latest = consumer.session.instance, self.newest.get(line)
        if latest is not None and (token, instance) != latest and token <= latest[0]:
            raise Violation(f"I3: {consumer.name} was told of {token} on {line[0]} after {latest}")
        self.newest[line] = token, instance

    def failed_over(self, key: str, group: GroupName) -> None:
        """Between failovers a mark never goes back; this one was."""
        line = key, group
        self.forgiven[line] = max(self.forgiven.get(line, Token(0)), self.highest.get(line, Token(0)))
        self.anew[line] = Token(0)
        self.newest.pop(line, None)

    def passed(self, command: Command, access: Access) -> None:
        """An order was carried out or refused."""
        line, token = (command.run.key, command.run.access.group), command.run.access.token
        past = self.forgiven.get(line)
        if access is not Access.OK or past is None or self.highest.get(line, Token(0)) > past:
            super().passed(command, access)
        elif token < self.anew[line]:
            raise Violation(f"I1b: {command.verb} was let through under {token} after {self.anew[line]}")
        else:
            self.anew[line] = token
            self.highest[line] = max(self.highest.get(line, Token(0)), token)


@attrs.define
class PatientBooks(Books):
    """The books where a store forgets and the time of day jumps: what was written down may be taken back untold."""

    forgot: bool = False

    def lost_writes(self, key: GroupKey, record: AnyGroup | None) -> None:
        """The store is back to an earlier commit; the fences, not the record, keep tokens from being used again."""
        super().lost_writes(key, record)
        self.forgot = True

    def _issued(self, key: GroupKey, shard: ShardIndex, holding: Holding) -> None:
        if self.forgot and holding.token <= self.highest.get((key, shard), Token(0)):
            self.issued[key, shard, holding.token] = holding.instance
            return
        super()._issued(key, shard, holding)


@attrs.define
class LenientBooks(PatientBooks):
    """The books where clocks run faster or slower than promised: leases then mean nothing, tokens still do."""

    def _released(
        self, before: Mapping[ShardIndex, Holding], after: Mapping[ShardIndex, Holding], consumers: Iterable[Consumer]
    ) -> None:
        return


@attrs.define
class StreamBooks:
    """I3, I4, I6 of the stream's own record; and what was promised to operators must be in it."""

    last: StreamRecord | None = None
    promised: dict[ReshardingId, str] = attrs.field(factory=dict)
    """Reshardings that were acknowledged, and what was."""
    lost: set[ReshardingId] = attrs.field(factory=set)
    """Reshardings that the store has lost, perhaps before anybody was told that they had begun."""
    seen: set[ReshardingId] = attrs.field(factory=set)
    """Reshardings that were in a committed record."""

    def look(self, record: StreamRecord) -> None:
        """A commit may have been made just now."""
        before = self.last
        if record is before:
            return
        self.last = record
        self.seen |= _reshardings(record)
        if before is None or record.version == before.version:
            return
        if found := stream_step_violations(before, record):
            raise Violation(f"I3: {'; '.join(found)}")
        for index, shard in before.shards.items():
            now = record.shards.get(index)
            if shard.phase is not ShardPhase.SEALED or now is None or record.lineage != before.lineage:
                continue
            if now.phase is ShardPhase.OPEN and now.generation == shard.generation:
                raise Violation(f"I6: shard {index} was opened again in its retired generation {shard.generation}")
        self.kept(record)

    def kept(self, record: StreamRecord) -> None:
        """I4: an acknowledged resharding is not lost."""
        known = _reshardings(record)
        for resharding in sorted(self.promised):
            if resharding not in known and len(record.history) < HISTORY_KEPT:
                raise Violation(f"I4: resharding {resharding} was acknowledged and is not in the record")

    def answered(self, resharding: ReshardingId, *, accepted: bool | None) -> None:
        """An operator was told: done, refused, or (None) that nobody knows."""
        if accepted:
            if resharding not in self.seen:
                raise Violation(f"I4: resharding {resharding} was acknowledged before it was committed")
            if resharding not in self.lost:
                self.promised[resharding] = "started"
        elif accepted is False and resharding in self.seen:
            raise Violation(f"I4: resharding {resharding} was refused, and is in the record")

    def lost_writes(self, record: StreamRecord) -> None:
        """The store is back to an earlier commit."""
        self.last = record
        known = _reshardings(record)
        self.promised = {name: told for name, told in self.promised.items() if name in known}
        self.lost |= self.seen - known


HISTORY_KEPT = 50


def _reshardings(record: StreamRecord) -> set[ReshardingId]:
    active = {record.resharding.id} if record.resharding is not None else set()
    return active | {past.id for past in record.history}
