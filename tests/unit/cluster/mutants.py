"""Rules broken on purpose, one at a time: what the machines are there to notice."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs
import pytest

from streamshard.adapters.streams import memory_backend, memory_trimming, memory_world
from streamshard.adapters.streams.memory_world import Fence, Group, Id, Stream
from streamshard.core import answers, correction, draining, groups, handover, membership, proof, session
from streamshard.core import sight as sights_of_groups
from streamshard.core import stream_sight as sights
from streamshard.core.answers import Served
from streamshard.core.commands import Heartbeat, Hold
from streamshard.core.desk import KnownGroup
from streamshard.core.effects import RaiseFence, RaiseResult, RaiseVerdict, Trim, Trimmed
from streamshard.core.group import GroupRecord, GroupTombstone, Member
from streamshard.core.heartbeats import Heartbeats
from streamshard.core.ids import GroupKey, GroupName, InstanceId, Instant, Millis, Seq, ShardIndex, Token, WallMillis
from streamshard.core.outcome import Accepted, Context, LostWrites
from streamshard.core.proof import Verdict
from streamshard.core.replies import Extension, HeartbeatReply
from streamshard.core.session import Held, Session, Step
from streamshard.core.stream import GroupEntry, StreamRecord
from streamshard.errors import StoreSignal
from streamshard.testing.cluster import KEY

Mutation: TypeAlias = Callable[[pytest.MonkeyPatch], None]


def grants_are_told_before_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    accept = Heartbeats._accept

    async def told_first(  # noqa: PLR0913, PLR0917
        self: Heartbeats, known: KnownGroup, stream: StreamRecord, beat: Heartbeat, decision: Accepted, context: Context
    ) -> HeartbeatReply | None:
        raised = {(shard, h.token) for shard, h in decision.record.holdings.items()}
        served = Served(
            decision.record, beat, decision.instance, context.timing.lease_ms, decision.standing, raised
        )  # fmt: skip
        reply = answers.serve(served, context.timing, stream.mac_key)
        try:
            return await accept(self, known, stream, beat, decision, context)
        except StoreSignal:
            return reply

    patch.setattr(Heartbeats, "_accept", told_first)


def a_taken_over_name_frees_its_shards_at_once(patch: pytest.MonkeyPatch) -> None:
    admit = membership.admit

    def freeing(record: GroupRecord, beat: Heartbeat, instance: InstanceId, context: Context) -> GroupRecord:
        admitted = admit(record, beat, instance, context)
        holdings = {s: h for s, h in admitted.holdings.items() if h.member != beat.member}
        return attrs.evolve(admitted, holdings=holdings)

    patch.setattr(membership, "admit", freeing)


def a_grant_waits_for_nobody(patch: pytest.MonkeyPatch) -> None:
    grant = handover.grant

    def at_once(record: GroupRecord, member: Member, seq: Seq, wall: WallMillis) -> GroupRecord:
        foreign = {s for s in record.meant_for(member.id) if s in record.holdings}
        foreign = {s for s in foreign if record.holdings[s].instance != member.instance}
        kept = {s: h for s, h in record.holdings.items() if s not in foreign}
        return grant(attrs.evolve(record, holdings=kept), member, seq, wall)

    patch.setattr(handover, "grant", at_once)


def a_lease_begins_when_the_answer_comes(patch: pytest.MonkeyPatch) -> None:
    hear = session.hear

    def on_receipt(state: Session, reply: HeartbeatReply, now: Instant) -> Step:
        sent = state.outstanding
        return hear(attrs.evolve(state, outstanding=sent and attrs.evolve(sent, sent_at=now)), reply, now)

    patch.setattr(session, "hear", on_receipt)


def members_expire_early(patch: pytest.MonkeyPatch) -> None:
    def half(lease: Millis) -> Millis:
        return Millis(lease // 2)

    patch.setattr(membership, "expiry_wait_ms", half)


def what_drains_is_not_listed(patch: pytest.MonkeyPatch) -> None:
    listed = session._listed

    def only_reading(state: Session) -> tuple[Hold, ...]:
        return tuple(hold for hold in listed(state) if not hold.draining)

    patch.setattr(session, "_listed", only_reading)


def everything_held_is_extended(patch: pytest.MonkeyPatch) -> None:
    def all_of_it(
        held: Mapping[ShardIndex, Held], extended: tuple[Extension, ...], deadline: Instant
    ) -> dict[ShardIndex, Held]:
        return {shard: attrs.evolve(hold, deadline=deadline) for shard, hold in held.items()}

    patch.setattr(session, "_prolong", all_of_it)


def fences_are_never_raised(patch: pytest.MonkeyPatch) -> None:
    def believed(self: memory_backend.MemoryStreamBackend, order: RaiseFence) -> RaiseResult:
        return RaiseResult(RaiseVerdict.RAISED, order.token)

    patch.setattr(memory_backend.MemoryStreamBackend, "_raise_fence", believed)


def a_seal_looks_at_nothing(patch: pytest.MonkeyPatch) -> None:
    def empty(*_: object) -> Verdict:
        return Verdict(None)

    def drained(*_: object) -> bool:
        return True

    for module in (proof, sights, draining):
        patch.setattr(module, "judge", empty)
    patch.setattr(memory_backend, "_drained", drained)


def a_seal_deletes_without_looking_again(patch: pytest.MonkeyPatch) -> None:
    def drained(*_: object) -> bool:
        return True

    patch.setattr(memory_backend, "_drained", drained)


def there_is_no_quarantine(patch: pytest.MonkeyPatch) -> None:
    begin, found = correction.start_lineage, groups.found_group

    def confident(
        record: GroupRecord, marks: Mapping[ShardIndex, Token], reason: LostWrites, context: Context
    ) -> GroupRecord:
        return attrs.evolve(begin(record, marks, reason, context), quarantine=None)

    def careless(key: GroupKey, entry: GroupEntry, grave: GroupTombstone | None, context: Context) -> GroupRecord:
        return attrs.evolve(found(key, entry, grave, context), quarantine=None)

    patch.setattr(correction, "start_lineage", confident)
    patch.setattr("streamshard.core.stream_work.found_group", careless)


def old_readers_are_forgotten_with_their_group(patch: pytest.MonkeyPatch) -> None:
    found = groups.found_group

    def blank(key: GroupKey, entry: GroupEntry, grave: GroupTombstone | None, context: Context) -> GroupRecord:
        return attrs.evolve(found(key, entry, grave, context), holdings={}, longest_leases={}, quarantine=None)

    patch.setattr("streamshard.core.stream_work.found_group", blank)


def tokens_start_again(patch: pytest.MonkeyPatch) -> None:
    found = groups.found_group

    def from_zero(key: GroupKey, entry: GroupEntry, grave: GroupTombstone | None, context: Context) -> GroupRecord:
        return attrs.evolve(found(key, entry, grave, context), last_tokens={}, holdings={}, quarantine=None)

    def next_token(record: GroupRecord, member: Member, seq: Seq, wall: WallMillis) -> GroupRecord:
        return grant(record, member, seq, WallMillis(0))

    grant = handover.grant
    patch.setattr(handover, "grant", next_token)
    patch.setattr("streamshard.core.stream_work.found_group", from_zero)


def unhealthy_time_counts(patch: pytest.MonkeyPatch) -> None:
    def unmoved(self: sights_of_groups.GroupSight, now: Instant) -> None:
        self.lineage_since = self.lineage_since

    patch.setattr(sights_of_groups.GroupSight, "restart", unmoved)


def a_longer_lease_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def newest(record: GroupRecord, instance: InstanceId, lease: Millis) -> GroupRecord:
        return attrs.evolve(record, longest_leases={**record.longest_leases, instance: lease})

    patch.setattr(membership, "remember_lease", newest)


def an_append_makes_the_key(patch: pytest.MonkeyPatch) -> None:
    add = memory_world.MemoryStreams.add

    def making(
        self: memory_world.MemoryStreams, key: str, fields: Mapping[bytes, bytes], max_len: int | None = None
    ) -> object:
        self.streams.setdefault(key, memory_world.Stream())
        return add(self, key, fields, max_len)

    patch.setattr(memory_world.MemoryStreams, "add", making)


def late_orders_are_carried_out(patch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> bool:
        return False

    patch.setattr(memory_world.Fence, "later_than", never)


def what_is_pending_is_trimmed(patch: pytest.MonkeyPatch) -> None:
    needed = memory_trimming.needed_from

    def delivered(found: Mapping[GroupName, Group]) -> tuple[Id | None, GroupName | None]:
        return needed({name: Group(group.last_delivered) for name, group in found.items()})

    patch.setattr(memory_trimming, "needed_from", delivered)


def strangers_are_not_minded(patch: pytest.MonkeyPatch) -> None:
    needed = memory_trimming.needed_from

    def registered(found: Mapping[GroupName, Group]) -> tuple[Id | None, GroupName | None]:
        return needed({name: group for name, group in found.items() if name == KEY.group})

    patch.setattr(memory_trimming, "needed_from", registered)


def a_group_that_vanished_is_not_missed(patch: pytest.MonkeyPatch) -> None:
    trim = memory_trimming.trim

    def careless(fence: Fence, stream: Stream | None, order: Trim) -> Trimmed:
        return trim(fence, stream, attrs.evolve(order, registered=()))

    patch.setattr(memory_trimming, "trim", careless)
