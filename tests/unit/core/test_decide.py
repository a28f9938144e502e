"""Heartbeats: in which order the rules apply, what staying does, and what a claim costs."""

import attrs
import pytest

from streamshard.core.commands import Heartbeat
from streamshard.core.group import MemberState, Row
from streamshard.core.ids import (
    Epoch,
    Lineage,
    Millis,
    Nonce,
    Seq,
    Version,
    View,
)
from streamshard.core.outcome import Accepted, Fence, LostWrites, Refusal, Replay, Standing
from streamshard.core.replies import Status
from streamshard.core.views import mint
from tests.unit.core.builders import (
    A1,
    A2,
    B1,
    KEY,
    LEASE,
    MAC,
    QUARANTINE,
    S0,
    S1,
    VERSION,
    WAIT,
    WALL,
    A,
    B,
    accepted,
    alone,
    client,
    group,
    hear,
    holding,
    layout,
    member,
    plain,
    refused,
    row,
    settled,
)

FENCED = Status.FENCED_MEMBER_EPOCH


def test_another_coordination_version_is_refused_before_anything_is_looked_at() -> None:
    lost = mint(MAC, KEY, Version(Lineage("lost"), 1, Nonce("n")))

    refusal = refused(hear(alone(), plain(protocol_version=2, view=lost)))

    assert refusal == Refusal(Status.UNSUPPORTED_PROTOCOL, "coordination version 2 is not spoken here: use version 1")


def test_a_client_without_an_instance_is_refused_where_the_group_does_not_allow_it() -> None:
    assert refused(hear(alone(), plain(instance=None))).status is Status.UNSUPPORTED_PROTOCOL


def test_proof_of_lost_writes_comes_before_who_sends_it() -> None:
    lost = mint(MAC, KEY, Version(Lineage("lost"), 1, Nonce("n")))

    decision = hear(group(), plain(view=lost))

    assert decision == LostWrites("member 'a' holds a view that was issued and is not on record", Lineage("lost"))


def test_a_view_of_the_same_lineage_can_be_such_proof_too() -> None:
    lost = mint(MAC, KEY, attrs.evolve(VERSION, nonce=Nonce("lost")))

    assert hear(alone(), plain(view=lost)) == LostWrites(
        "member 'a' holds a view that was issued and is not on record", VERSION.lineage
    )


def test_a_stranger_is_told_to_join() -> None:
    assert refused(hear(group(), plain())).status is Status.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("epoch", [1, 3])
def test_another_epoch_is_fenced_whether_lower_or_higher(epoch: int) -> None:
    assert refused(hear(alone(), plain(epoch=Epoch(epoch)))).status is FENCED


def test_another_instance_is_fenced() -> None:
    assert refused(hear(alone(), plain(instance=A2))).status is FENCED


@pytest.mark.parametrize("state", [MemberState.LEAVING, MemberState.EXPIRED, MemberState.FENCED])
def test_one_that_takes_no_part_any_more_is_fenced(state: MemberState) -> None:
    assert refused(hear(alone(owner=member(A, A1, state=state)), plain())).status is FENCED


@pytest.mark.parametrize("seq", [6, 7])
def test_an_attempt_that_is_not_newer_than_the_last_is_a_replay(seq: int) -> None:
    assert hear(alone(), plain(seq), {A1: row(A1, 7)}) == Replay()


def test_an_old_attempt_that_lists_what_others_hold_by_now_is_still_only_a_replay() -> None:
    assert hear(alone(holding(B, B1, 10)), plain(7, 10), {A1: row(A1, 7)}) == Replay()


def test_listing_what_another_instance_holds_is_fenced_and_frees_nothing() -> None:
    refusal = refused(hear(alone(holding(B, B1, 10)), plain(8, 10), {A1: row(A1, 7)}))

    why = "shard 0 is held by another instance: stop reading it and join as a new instance"
    assert refusal == Refusal(FENCED, why, fence=Fence.USURPED)


def test_listing_a_token_that_was_never_issued_is_fenced() -> None:
    refusal = refused(hear(alone(), plain(8, 2**52)))

    why = "the token listed for shard 0 was never issued: join as a new instance"
    assert refusal == Refusal(FENCED, why, fence=Fence.UNISSUED)


def test_a_heartbeat_with_nothing_new_rewrites_no_record() -> None:
    record = alone()

    decision = accepted(hear(record, plain(8, 10, available=3), {A1: row(A1, 7)}))

    assert decision.record is record
    assert decision == Accepted(record, A1, Row(A1, Seq(8), Nonce("next"), LEASE, available=3))


def test_a_change_is_a_new_version_with_its_nonce_in_the_ring() -> None:
    record = alone()

    after = accepted(hear(record, plain(8))).record

    assert (after.version, after.ring, after.metadata_version) == (
        Version(VERSION.lineage, 2, Nonce("next")),
        (VERSION.nonce, Nonce("next")),
        2,
    )


def test_what_is_let_go_and_still_meant_for_its_holder_is_granted_anew_at_once() -> None:
    after = accepted(hear(alone(), plain(8))).record

    assert after.holdings == {S0: holding(A, A1, WALL + 1, floor=10, seq=Seq(8))}


def test_a_member_whose_time_has_run_out_and_who_is_not_expired_yet_is_simply_renewed() -> None:
    bench, (a,) = settled(A)
    before = dict(a.held)
    bench.now += 10 * WAIT

    bench.talk(a)

    assert (a.held, bench.record.members[A].epoch) == (before, a.epoch)


def test_a_longer_lease_is_on_record_with_the_answer_that_first_carries_it() -> None:
    decision = accepted(hear(alone(), plain(8, 10), lease=60_000))

    assert decision.record.longest_leases == {A1: 60_000}
    assert decision.row == Row(A1, Seq(8), Nonce("next"), Millis(60_000))


def test_a_lease_lowered_at_a_restart_is_answered_and_the_longer_one_waited_for() -> None:
    bench, (a,) = settled(A, shards=1)
    bench.timing = {"lease": 3_000, "heartbeat": 500}
    reply = bench.hear(a.attempt())

    bench.wait(WAIT - 1_000)
    waiting = bench.holders()
    bench.wait(2_000)

    assert (reply.lease_ms, waiting, bench.holders()) == (3_000, {0: A1}, {})


def test_a_replayed_answer_carries_the_length_that_was_written_with_the_row() -> None:
    bench, (a,) = settled(A)
    attempt = a.attempt()
    first = bench.hear(attempt)
    bench.timing = {"lease": 60_000}

    again = bench.hear(attempt)

    assert (first.lease_ms, again.lease_ms, again.extended) == (LEASE, LEASE, first.extended)


def test_a_lost_answer_to_a_heartbeat_changes_nothing_for_a_member() -> None:
    bench, (a, b) = settled(A, B)
    before = (dict(a.held), dict(b.held), bench.record)

    bench.hear(a.attempt())
    bench.talk(a, b)

    assert (a.held, b.held, bench.record) == before


def test_a_lost_answer_while_shards_move_fences_nobody() -> None:
    bench, (a,) = settled(A)
    b = client(B)
    bench.talk(b)
    bench.hear(a.attempt())

    bench.talk(a)

    assert (sorted(a.held), sorted(a.draining), bench.holders()) == ([S0, S1], [S1], {0: A1, 1: A1})


def test_a_newer_layout_is_adopted_with_a_heartbeat() -> None:
    bench, (a,) = settled(A, shards=1)
    bench.shards = layout(0, 1, version=2)

    bench.talk(a)

    assert (bench.record.layout_version, sorted(a.held)) == (2, [S0, S1])


def test_a_removed_shard_is_held_until_it_is_let_go() -> None:
    bench, (a,) = settled(A)
    bench.shards = layout(0, version=2)
    bench.talk(a)
    held = bench.holders()

    a.finish(S1)
    bench.talk(a)

    assert (held, bench.holders()) == ({0: A1, 1: A1}, {0: A1})


def wild(seq: int, *holds: int) -> Heartbeat:
    return plain(seq, *holds, metadata_version=99)


def test_a_claim_costs_its_sender_a_round_of_catching_up_and_no_grants() -> None:
    decision = accepted(hear(alone(held=None), wild(8)))

    assert (decision.standing, decision.record.holdings) == (Standing.CATCHING_UP, {})
    assert decision.record.members[A].ignored_claims == 1


def test_wild_claims_fence_only_their_sender_after_three() -> None:
    bench, (a, b) = settled(A, B)
    said = [bench.hear(attrs.evolve(a.attempt(), view=View("made up"))).status for _ in range(3)]

    bench.talk(b)

    assert said == [Status.SYNC_METADATA, Status.SYNC_METADATA, FENCED]
    assert [bench.record.members[name].state for name in (A, B)] == [MemberState.FENCED, MemberState.ACTIVE]
    assert (bench.record.quarantine, bench.holders()) == (None, {0: A1, 1: B1})


def test_the_fence_after_three_claims_renews_nothing() -> None:
    record = alone(owner=member(A, A1, ignored_claims=2))

    decision = accepted(hear(record, wild(8, 10), {A1: row(A1, 7)}))

    assert (decision.row, decision.record.members[A].state, decision.record.holdings) == (
        None,
        MemberState.FENCED,
        record.holdings,
    )


def test_a_duplicate_of_a_claim_is_not_counted() -> None:
    record = alone(owner=member(A, A1, ignored_claims=2))

    assert hear(record, wild(7, 10), {A1: row(A1, 7)}) == Replay()


def test_one_settled_heartbeat_forgives_earlier_claims() -> None:
    after = accepted(hear(alone(owner=member(A, A1, ignored_claims=2)), plain(8, 10))).record

    assert after.members[A] == member(A, A1)


def test_a_view_of_an_ended_lineage_catches_up_without_being_counted() -> None:
    past = mint(MAC, KEY, Version(Lineage("old"), 1, Nonce("n")))
    record = alone(past_lineages=(Lineage("old"),))

    decision = accepted(hear(record, plain(8, 10, view=past)))

    assert (decision.standing, decision.record) == (Standing.CATCHING_UP, record)


def test_in_quarantine_a_member_that_names_no_version_has_to_catch_up() -> None:
    assert accepted(hear(alone(quarantine=QUARANTINE), plain(8, 10))).standing is Standing.CATCHING_UP


def test_in_quarantine_a_member_that_holds_the_present_view_is_granted_nothing_yet() -> None:
    record = alone(held=None, quarantine=QUARANTINE)

    decision = accepted(hear(record, plain(8, view=mint(MAC, KEY, VERSION))))

    assert (decision.standing, decision.record.holdings) == (Standing.PRESENT, {})
