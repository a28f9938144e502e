"""What of a state can matter to any future: two states that are alike in it are one.

Times count from now and no further than any wait; sequence numbers, tokens and epochs by their order, and
how close they are; instances by which process's how last life they are; versions by what each side would say
of them. A name that nobody can name again is left out.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import attrs

from streamshard.core.commands import Heartbeat
from streamshard.core.desk import KnownGroup
from streamshard.core.group import GroupRecord, Holding
from streamshard.core.ids import Epoch, InstanceId, Lineage, MemberId, Nonce, ShardIndex, Version, View
from streamshard.core.replies import HeartbeatReply
from streamshard.core.timing import client_lease_ms
from streamshard.testing.exhaustive.state import WAIT_MS, Process, State, timing

_USABLE_MS = client_lease_ms(timing().lease_ms)

APART = 3
"""Numbers that are further apart than this may as well be this far: they are given out one by one.

Where the store forgets nothing, none is given out twice, and only their order counts.
"""


def canonical(state: State, unit_ms: int) -> bytes:
    """A digest that two states share if no future can tell them apart."""
    return hashlib.blake2b(repr(_Look(state, unit_ms).all()).encode(), digest_size=16).digest()


@lru_cache(maxsize=1 << 16)
def _version_of(view: View) -> Version:
    lineage, revision, nonce, _ = view.split(".")
    return Version(Lineage(lineage), int(revision), Nonce(nonce))


def _ranks(numbers: Iterable[int], apart: int) -> dict[int, int]:
    """Each number's place, with gaps up to ``apart``."""
    found: dict[int, int] = {}
    place, before = 0, None
    for number in sorted(set(numbers)):
        place += 0 if before is None else min(apart, number - before)
        found[number], before = place, number
    return found


def _said_of(version: Version, record: GroupRecord) -> str:
    """What a coordinator that has this record would make of the version."""
    if version == record.version:
        return "now"
    if version.lineage == record.lineage:
        oldest = record.version.revision - len(record.ring) + 1
        return "old" if version.nonce in record.ring or version.revision < oldest else "lost"
    return "past" if version.lineage in record.past_lineages else "unknown"


class _Look:
    """One state, with the names and numbers that it is told in."""

    def __init__(self, state: State, unit_ms: int) -> None:
        self.state, self._unit_ms = state, unit_ms
        self._longest = WAIT_MS // unit_ms
        self._records = [state.record, *([state.kept] if state.kept is not None else [])]
        self._records += [
            m.record for m in state.memories if m is not None and m.record.version != state.record.version
        ]
        self._mail = [m for p in state.processes for m in (p.request, p.copy) if m is not None]
        self._names = self._named()
        self._forgets = state.budget.losses > 0 or state.kept is not None or bool(state.record.past_lineages)
        self._copies = state.budget.copies > 0 or any(process.copy is not None for process in state.processes)
        names = {process.session.member for process in state.processes}
        self._rivals = state.budget.twins > 0 or len(names) < len(state.processes)
        apart = APART if self._forgets else 1
        self._tokens = {shard: _ranks(self._tokens_of(shard), apart) for shard in state.marks}
        self._epochs = _ranks(self._all_epochs(), apart)
        self._seqs = self._all_seqs()

    def all(self) -> tuple[object, ...]:
        """The whole state."""
        state = self.state
        return (
            self._record(state.record),
            sorted((self._names[i], self._seq(i, row.seq)) for i, row in state.rows.items() if i in self._names),
            [self._token(shard, mark) for shard, mark in state.marks.items()],
            [self._memory(memory) for memory in state.memories],
            [self._process(process) for process in state.processes],
            attrs.astuple(state.budget),
            None if state.kept is None else self._record(state.kept),
        )

    # names and numbers

    def _named(self) -> Mapping[InstanceId, tuple[int, int]]:
        used = {p.session.instance for p in self.state.processes if not p.ended} | {m.instance for m in self._mail}
        for record in self._records:
            used |= {*record.longest_leases, *(h.instance for h in record.holdings.values())}
            used |= {member.instance for member in record.members.values()}
        return {
            life: (number, place)
            for number, process in enumerate(self.state.processes)
            for place, life in enumerate(life for life in reversed(process.lives) if life in used)
        }

    def _tokens_of(self, shard: ShardIndex) -> Iterable[int]:
        yield self.state.marks[shard]
        for record in self._records:
            yield record.last_tokens.get(shard, 0)
            if shard in record.holdings:
                yield record.holdings[shard].token
                yield from (record.holdings[shard].floor,) if self._forgets else ()
        for process in self.state.processes:
            own = process.session
            yield from (own.held[shard].token,) if shard in own.held else ()
            yield from (own.running[shard],) if shard in own.running else ()
            if shard in own.last_tokens and self._may_come_again(process, shard):
                yield own.last_tokens[shard]
            if process.reply is not None:
                yield from (g.token for g in process.reply.grants if g.shard == shard)
                yield from (e.token for e in process.reply.extended if e.shard == shard)
        yield from (hold.token for mail in self._mail for hold in mail.holds if hold.shard == shard)

    def _all_epochs(self) -> Iterable[int]:
        yield from (0, *(mail.epoch for mail in self._mail))
        for record in self._records:
            yield from (record.group_epoch, record.assignment_epoch, *(m.epoch for m in record.members.values()))
        for process in self.state.processes:
            yield process.session.epoch
            if process.reply is not None:
                yield process.reply.epoch

    def _all_seqs(self) -> Mapping[InstanceId, Mapping[int, int]]:
        found: dict[InstanceId, set[int]] = {name: set() for name in self._names}
        for instance, row in self.state.rows.items():
            found.setdefault(instance, set()).add(row.seq)
        for record in self._records:
            for holding in record.holdings.values():
                found.setdefault(holding.instance, set()).add(holding.seq)
        for process in self.state.processes:
            known = found.setdefault(process.session.instance, set())
            known.add(process.session.seq)
            known.update([process.session.outstanding.seq] if process.session.outstanding is not None else [])
            known.update([process.reply.seq] if process.reply is not None else [])
        for mail in self._mail:
            assert mail.instance is not None, "everybody here has an instance"
            found.setdefault(mail.instance, set()).add(mail.seq)
        return {name: {seq: place for place, seq in enumerate(sorted(seqs))} for name, seqs in found.items()}

    def _seq(self, instance: InstanceId, seq: int) -> int:
        """Without copies all that can be asked of a heartbeat on its way is whether one after it was taken."""
        if self._copies:
            return self._seqs[instance][seq]
        row = self.state.rows.get(instance)
        return int(row is None or seq > row.seq)

    def _epoch(self, member: MemberId, epoch: int) -> int:
        """Where the store forgets nothing, an epoch is the member's present one or it is not."""
        if self._forgets:
            return self._epochs[Epoch(epoch)]
        known = self.state.record.members.get(member)
        return int(epoch > 0) + int(known is not None and known.epoch == epoch)

    def _token(self, shard: ShardIndex, token: int) -> int:
        return self._tokens[shard][token]

    def _version(self, version: Version) -> list[str]:
        return [_said_of(version, record) for record in self._records]

    def _view(self, view: View | None) -> list[str] | None:
        if view is None or not self._forgets:
            return None  # every view that was issued is known
        return self._version(_version_of(view))

    def _ago(self, since: int) -> int:
        return min(self._longest, (self.state.now - since) // self._unit_ms)

    def _left(self, deadline: int) -> int:
        return max(0, -(-(deadline - self.state.now) // self._unit_ms))

    # parts

    def _record(self, record: GroupRecord) -> tuple[object, ...]:
        departed = [self._names[i] for i in record.departed if i in self._names]
        return (
            [
                (m.id, self._names.get(m.instance), self._epoch(m.id, m.epoch), m.state.value, m.ignored_claims)
                for m in record.members.values()
            ],
            list(record.targets.items()),
            [
                (
                    shard,
                    h.member,
                    self._names.get(h.instance),
                    self._token(shard, h.token),
                    self._floor(shard, h),
                    self._seq(h.instance, h.seq) if self._copies else None,
                    (h.draining, h.lapsed, h.listed),
                )
                for shard, h in record.holdings.items()
            ],
            [self._token(shard, record.last_tokens.get(shard, 0)) for shard in self.state.marks],
            sorted(self._names[i] for i in record.longest_leases if i in self._names),
            sorted(departed),
            record.quarantine is not None,
            (self._epochs[record.group_epoch], self._epochs[record.assignment_epoch]) if self._forgets else None,
            self._version(record.version),
        )

    def _floor(self, shard: ShardIndex, holding: Holding) -> object:
        """It is compared with the mark, and no more once the mark is the token."""
        if self._forgets:
            return self._token(shard, holding.floor)
        mark = self.state.marks[shard]
        return None if mark == holding.token else mark > holding.floor

    def _memory(self, memory: KnownGroup | None) -> tuple[object, ...] | None:
        if memory is None:
            return None
        sight, record = memory.sight, memory.record
        same = record.version == self.state.record.version
        return (
            None if same else self._record(record),
            self._version(sight.version),
            sight.proven,
            None if memory.lost is None else (memory.lost.lineage is not None),
            self._ago(sight.lineage_since) if record.quarantine is not None else None,
            self._ago(sight.seen_at),
            sorted((self._names[i], self._watched(memory, i)) for i in sight.rows if i in self._names),
            self._ages(sight.to_drain),
            self._ages(sight.lapsed),
            sorted((s, self._token(s, t)) for s, t in sight.raised if s in record.holdings),
        )

    def _watched(self, memory: KnownGroup, instance: InstanceId) -> tuple[int, int] | None:
        """How long its row has not moved, and had not when it was read last; None if it has moved since."""
        seen, row = memory.sight.rows[instance], self.state.rows.get(instance)
        if (row.mark if row is not None else None) != seen.mark:
            return None
        silent = max(0, min(self._longest, (memory.sight.seen_at - seen.since) // self._unit_ms))
        return self._ago(seen.since), silent if self._rivals else 0

    def _ages(self, since: Mapping[tuple[ShardIndex, Any], int]) -> list[tuple[int, int]]:
        return sorted((shard, self._ago(at)) for (shard, _), at in since.items())

    def _process(self, process: Process) -> object:
        own = process.session
        if process.ended:
            return own.member, self._beat(process.request), self._beat(process.copy)
        return (
            (own.member, own.phase.value, self._epoch(own.member, own.epoch), own.settled, own.stopping),
            self._view(own.view),
            self._waits(process),
            [(s, self._token(s, h.token), self._left(h.deadline), h.use.value) for s, h in own.held.items()],
            [(s, self._token(s, token), (s, token) in process.ending) for s, token in own.running.items()],
            [(s, self._token(s, token)) for s, token in own.last_tokens.items() if self._may_come_again(process, s)],
            self._beat(process.request),
            self._beat(process.copy),
            self._reply(process.reply),
        )

    def _waits(self, process: Process) -> object:
        """An attempt that is lost, or whose answer is, is as good as none."""
        own, waits = process.session, process.session.outstanding
        if waits is None or (process.request is None and process.reply is None and not self._copies):
            return None
        return self._seq(own.instance, waits.seq) if self._copies else None, self._usable(waits.sent_at), waits.parting

    def _may_come_again(self, process: Process, shard: ShardIndex) -> bool:
        """A grant that was taken before may be told again: it is on record, or on its way."""
        if self._forgets or process.reply is not None:
            return True
        holding = self.state.record.holdings.get(shard)
        return holding is not None and holding.instance == process.session.instance

    def _usable(self, sent_at: int) -> int:
        return self._left(sent_at + _USABLE_MS)

    def _beat(self, beat: Heartbeat | None) -> object:
        if beat is None or beat.instance is None:
            return None
        return (
            beat.intent.value,
            self._epoch(beat.member, beat.epoch),
            self._names.get(beat.instance),
            self._seq(beat.instance, beat.seq),
            [(h.shard, self._token(h.shard, h.token), h.draining) for h in beat.holds],
            self._view(beat.view),
        )

    def _reply(self, reply: HeartbeatReply | None) -> object:
        if reply is None:
            return None
        return (
            (reply.status.value, self._epoch(reply.member, reply.epoch), reply.assigned, reply.pending),
            [(g.shard, self._token(g.shard, g.token)) for g in reply.grants],
            [(e.shard, self._token(e.shard, e.token)) for e in reply.extended],
            self._view(reply.view),
            reply.retry_reason is not None,
        )
