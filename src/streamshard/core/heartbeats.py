"""Answering heartbeats: decide, commit, raise the fences of new grants, read again, answer."""

from collections.abc import Mapping, Sequence

import attrs

from streamshard.core import answers, correction, handover
from streamshard.core.answers import Served
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.decide import decide, identified
from streamshard.core.desk import Desk, GroupCommit, KnownGroup
from streamshard.core.effects import RaiseFence, RaiseResult, RaiseVerdict
from streamshard.core.group import GroupRecord, Holding, Row
from streamshard.core.ids import GroupKey, ShardIndex, Token
from streamshard.core.outcome import Accepted, Context, Decision, LostWrites, Refusal, Replay, Standing
from streamshard.core.ports import RowWrite
from streamshard.core.replies import HeartbeatReply, RetryReason, Status
from streamshard.core.routine import Remembered, Routine
from streamshard.core.stream import StreamRecord
from streamshard.core.turns import NoTurns, Turn, Turns
from streamshard.errors import (
    MetadataCorrupt,
    NotFound,
    RevisionConflict,
    SourceChanged,
    StaleSequence,
    StreamUnavailable,
    Unavailable,
)

MAX_ATTEMPTS = 8
"""How often a decision is taken anew after losing a race, before the sender is asked to come again."""

BACKOFF_MS = 20


class Heartbeats:
    """The member's door to the coordinator."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.turns: Turns = NoTurns()

    async def answer(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        """Answer one attempt; faults of ours are a RETRY, which renews nothing."""
        try:
            said = recalled(self._desk, key, beat)
            reply = None if said is None else await self._repeat(*said, beat)
            return reply or await self._try_again_and_again(key, beat, fresh=said is not None)
        except NotFound as missing:
            return answers.reject(beat, self._desk.settings.timing, Refusal(Status.UNKNOWN_MEMBER_ID, missing.message))
        except MetadataCorrupt as broken:
            return self._unavailable(beat, broken.message)
        except Unavailable as away:
            self._desk.restart_timers(self._desk.clock.boot())
            return self._unavailable(beat, away.message)

    def _unavailable(self, beat: Heartbeat, why: str) -> HeartbeatReply:
        return answers.retry(beat, self._desk.settings.timing, RetryReason.UNAVAILABLE, why)

    async def _try_again_and_again(self, key: GroupKey, beat: Heartbeat, *, fresh: bool) -> HeartbeatReply:
        for attempt in range(MAX_ATTEMPTS):
            try:
                reply = await self._once(key, beat, fresh=fresh)
                if reply is not None:
                    return reply
            except SourceChanged:
                self._desk.forget_source()
            except (RevisionConflict, StaleSequence):
                await self._desk.pause(BACKOFF_MS * attempt)
            fresh = True
        text = "the group kept changing while this was decided"
        return answers.retry(beat, self._desk.settings.timing, RetryReason.CONFLICT, text)

    async def _once(self, key: GroupKey, beat: Heartbeat, *, fresh: bool) -> HeartbeatReply | None:
        """One decision; None if it has to be taken again on a fresh load."""
        desk = self._desk
        stream, copy = await self._remembered(key, fresh=fresh)
        known = copy or await desk.load_group(key)
        await desk.prove(known, stream)
        beat = identified(known.record, beat)
        if not await self._confirm(known, stream, beat):
            return None
        context, decision = self._decide(known, stream, beat)
        if copy is not None and not isinstance(decision, Accepted):
            return None  # a no is never said on a copy
        return await self._carry_out(known, stream, beat, decision, context)

    def _decide(self, known: KnownGroup, stream: StreamRecord, beat: Heartbeat) -> tuple[Context, Decision]:
        context = attrs.evolve(self._desk.context(stream, known.sight.source), raised=known.sight.raised)
        return context, decide(known.record, known.rows, beat, context, known.sight)

    async def _carry_out(
        self, known: KnownGroup, stream: StreamRecord, beat: Heartbeat, decision: Decision, context: Context
    ) -> HeartbeatReply | None:
        match decision:
            case Accepted():
                return await self._accept(known, stream, beat, decision, context)
            case Replay():
                return await self._replay(known, stream, beat)
            case Refusal():
                return self._refuse(known, beat, decision)
            case LostWrites():
                await self._desk.begin_anew(known, stream, {}, decision)
                return None

    async def _repeat(
        self, known: KnownGroup, routine: Routine, said: Remembered, beat: Heartbeat
    ) -> HeartbeatReply | None:
        """Renew a member that says what it said before: one commit, and nothing to decide; None if it has to be."""
        assert beat.instance is not None, "only identified heartbeats are remembered"
        record, desk = known.record, self._desk
        lease = desk.settings.timing.lease_ms
        row = Row(beat.instance, beat.seq, desk.mark(), lease, beat.available, beat.progress, beat.late)
        try:
            await desk.renew(known, routine.same, RowWrite(record.key.group, row))
        except SourceChanged:
            desk.forget_source()
            return None
        except (RevisionConflict, StaleSequence):
            return None
        if known.record is record:
            return said.answer(beat)
        known = await self._raise_fences(known, routine.stream, beat)  # another commit was taken in meanwhile
        return self._serve(known, routine.stream, beat, said.standing)

    async def _remembered(self, key: GroupKey, *, fresh: bool) -> tuple[StreamRecord, KnownGroup | None]:
        if fresh or key not in self._desk.groups:
            return await self._desk.load_stream(key.prefix), None
        return await self._desk.stream_of(key), self._desk.groups.get(key)

    async def _confirm(self, known: KnownGroup, stream: StreamRecord, beat: Heartbeat) -> bool:
        """Have the fences raised of grants that the beat leaves out: only then can they be released.

        False if that has shown that the record is another one by now.
        """
        before = known.record
        left_out = handover.unconfirmed(before, beat, known.sight)
        if left_out:
            await self._raise(known, stream, left_out)
        return known.record is before and known.lost is None

    async def _accept(
        self, known: KnownGroup, stream: StreamRecord, beat: Heartbeat, decision: Accepted, context: Context
    ) -> HeartbeatReply | None:
        turn = Turn(self.turns, known.record.key)
        try:
            while await turn.take(alone=decision.record is not known.record):
                if not self._still_decidable(known, stream, beat):
                    return None
                context, again = self._decide(known, stream, beat)
                if not isinstance(again, Accepted):
                    return None
                decision = again
            before = known.record
            row = None if decision.row is None else RowWrite(before.key.group, decision.row, decision.force_row)
            change = GroupCommit(decision.record, context.nonce, row, decision.same_rows)
            await self._desk.commit_group(known, change)
        finally:
            turn.end()
        if decision.refusal is not None:
            return self._refuse(known, beat, decision.refusal)
        beat = attrs.evolve(beat, instance=decision.instance)
        known = await self._raise_fences(known, stream, beat)
        reply = self._serve(known, stream, beat, decision.standing)
        if known.record is before:
            _remember(known, stream, beat, decision, reply)
        return reply

    def _refuse(self, known: KnownGroup, beat: Heartbeat, refusal: Refusal) -> HeartbeatReply:
        if refusal.fence is not None:
            self._desk.tally.fenced[refusal.fence] += 1
        return answers.refuse(known.record, beat, self._desk.settings.timing, refusal)

    def _still_decidable(self, known: KnownGroup, stream: StreamRecord, beat: Heartbeat) -> bool:
        """After a wait: as it was before, but for commits of our own, and without another wait."""
        key, desk = known.record.key, self._desk
        if desk.groups.get(key) is not known or desk.layouts.get(key.prefix) is not stream or known.lost is not None:
            return False
        return known.sight.proven and not beat.legacy and not handover.unconfirmed(known.record, beat, known.sight)

    async def _replay(self, known: KnownGroup, stream: StreamRecord, beat: Heartbeat) -> HeartbeatReply:
        """The attempt was taken before: the present view; only the very last attempt's is worth anything."""
        if beat.instance is None or beat.seq != known.rows[beat.instance].seq:
            return self._serve(known, stream, beat, Standing.PRESENT, renewed=False)
        known = await self._raise_fences(known, stream, beat)
        return self._serve(known, stream, beat, Standing.PRESENT)

    def _serve(
        self, known: KnownGroup, stream: StreamRecord, beat: Heartbeat, standing: Standing, *, renewed: bool = True
    ) -> HeartbeatReply:
        assert beat.instance is not None, "only identified heartbeats are served"
        lease = self._desk.lease_of(known, beat.instance)
        served = Served(known.record, beat, beat.instance, lease, standing, known.sight.raised, renewed)
        return answers.serve(served, self._desk.settings.timing, stream.mac_key)

    async def _raise_fences(self, known: KnownGroup, stream: StreamRecord, beat: Heartbeat) -> KnownGroup:
        """Raise the fences of grants not told yet; then read again, so that only what still stands is told."""
        member = known.record.members.get(beat.member)
        if member is None or beat.intent is Intent.LEAVE or member.instance != beat.instance:
            return known
        fresh = handover.unraised(known.record, beat, member, known.sight)
        if not fresh or not await self._raise(known, stream, fresh):
            return known
        known = await self._desk.load_group(known.record.key)
        await self._desk.prove(known, stream)  # it may be another store by now, or one that went back
        return known

    async def _raise(self, known: KnownGroup, stream: StreamRecord, fresh: Mapping[ShardIndex, Holding]) -> bool:
        key = known.record.key
        layout = known.record.layout_version
        orders = [
            RaiseFence(key.prefix, s, h.generation, layout, key.group, h.floor, h.token) for s, h in fresh.items()
        ]
        try:
            results = await self._desk.streams.raise_fences(orders)
        except StreamUnavailable:
            return False  # pending until it is acknowledged: the next heartbeat asks again
        above = self._take_in(known, orders, results)
        if _proves_loss(known.record, above, fresh):
            await self._desk.begin_anew(known, stream, above, LostWrites("a fence is above the token before the grant"))
        return True

    def _take_in(
        self, known: KnownGroup, orders: Sequence[RaiseFence], results: Sequence[RaiseResult]
    ) -> dict[ShardIndex, Token]:
        """Note what became of raises; returns the marks that stood above their floors."""
        above: dict[ShardIndex, Token] = {}
        key = known.record.key
        for order, result in zip(orders, results, strict=True):
            match result.verdict:
                case RaiseVerdict.RAISED:
                    known.sight.raised.add((order.shard, order.token))
                case RaiseVerdict.ABOVE if self._desk.believes(key, order.shard, result.mark):
                    above[order.shard] = result.mark
                case RaiseVerdict.MISSING:
                    self._desk.vanished.setdefault(key.prefix, set()).add(order.shard)
                case RaiseVerdict.SUPERSEDED:  # a later layout is on record by now, or the store has lost it
                    self._desk.outdated.setdefault(key.prefix, set()).add(order.shard)
        return above


def recalled(desk: Desk, key: GroupKey, beat: Heartbeat) -> tuple[KnownGroup, Routine, Remembered] | None:
    """What is known of a new attempt without deciding it; nothing while the record itself is in doubt."""
    known, stream = desk.groups.get(key), desk.layouts.get(key.prefix)
    if known is None or stream is None or known.lost is not None or not known.sight.proven:
        return None
    row = known.rows.get(beat.instance) if beat.instance is not None else None
    routine = known.routine
    if row is None or routine is None or beat.seq <= row.seq:
        return None
    said = routine.recall(stream, known.record, beat)
    return None if said is None else (known, routine, said)


def _remember(
    known: KnownGroup, stream: StreamRecord, beat: Heartbeat, decision: Accepted, reply: HeartbeatReply
) -> None:
    routine = known.routine
    if routine is None or routine.record is not known.record or routine.stream is not stream:
        routine = known.routine = Routine.on(stream, known.record)
    routine.remember(beat, decision, reply)


def _proves_loss(record: GroupRecord, above: Mapping[ShardIndex, Token], grants: Mapping[ShardIndex, Holding]) -> bool:
    """The refused grants still stand, so it was no later grant on record that raised the marks."""
    standing = any(s in record.holdings and record.holdings[s].token == grants[s].token for s in above)
    return standing or bool(correction.above_last(record, above))
