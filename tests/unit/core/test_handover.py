"""Revoke before assign: the two ways in which a holding ends, and the many in which it does not."""

from typing import Any

import attrs
import pytest

from streamshard.core import handover
from streamshard.core.commands import Intent
from streamshard.core.group import GroupRecord, Holding, Member, MemberState
from streamshard.core.ids import Epoch, Generation, Instant, LayoutVersion, Millis, Seq, ShardIndex, Token, WallMillis
from streamshard.core.replies import Status
from streamshard.core.timing import expiry_wait_ms
from tests.unit.core.builders import (
    A1,
    A2,
    B1,
    GEN,
    LEASE,
    S0,
    S1,
    S2,
    TIMEOUT,
    WAIT,
    WALL,
    A,
    B,
    Bench,
    Client,
    beat,
    client,
    group,
    hold,
    holding,
    layout,
    member,
    settled,
    sight,
)

GRANTED = holding(A, A1, 10, seq=Seq(3))
LISTED = attrs.evolve(GRANTED, listed=True)
NOBODY: dict[ShardIndex, Holding] = {}


def one(held: Holding = GRANTED, *members: Member) -> GroupRecord:
    return group(*(members or (member(A, A1),)), holdings={S0: held}, targets={S0: A}, shards=1)


def report(record: GroupRecord, seq: int, *holds: int, **given: Any) -> GroupRecord:
    """What is left of the record after a report that lists shard 0 under these tokens."""
    attempt = attrs.evolve(beat(A, A1, seq, tuple(hold(0, token) for token in holds)), **given)
    return handover.take_report(record, attempt, A1, {(shard, h.token) for shard, h in record.holdings.items()})


def test_a_hold_counts_under_its_own_token_only() -> None:
    attempt = beat(holds=(hold(0, 10), hold(1, 11, draining=True)))

    assert handover.listed(attempt) == {(S0, Token(10)): hold(0, 10), (S1, Token(11)): hold(1, 11, draining=True)}


def test_a_later_report_that_does_not_list_a_hold_releases_it() -> None:
    assert report(one(), 4).holdings == NOBODY


def test_the_report_it_was_granted_in_releases_nothing() -> None:
    record = one()

    assert report(record, 3) is record


def test_an_earlier_report_that_was_late_releases_nothing() -> None:
    record = one()

    assert report(record, 2) is record


def test_a_join_releases_nothing() -> None:
    record = one()

    assert report(record, 9, intent=Intent.JOIN) is record


def test_a_hold_under_a_lower_token_counts_as_not_listed() -> None:
    assert report(one(), 4, 9).holdings == NOBODY


def test_a_listed_hold_is_noted_as_listed() -> None:
    assert report(one(), 4, 10).holdings == {S0: LISTED}


def test_a_report_that_says_nothing_new_changes_nothing() -> None:
    record = one(LISTED)

    assert report(record, 5, 10) is record


def test_a_hold_that_is_being_drained_is_noted_so() -> None:
    attempt = beat(A, A1, 4, (hold(0, 10, draining=True),))

    after = handover.take_report(one(LISTED), attempt, A1, frozenset())

    assert after.holdings == {S0: attrs.evolve(LISTED, draining=True)}


def test_a_drain_is_never_taken_back() -> None:
    record = one(attrs.evolve(LISTED, draining=True))

    assert report(record, 5, 10) is record


def test_a_goodbye_drains_what_it_still_lists() -> None:
    assert report(one(LISTED), 4, 10, intent=Intent.LEAVE).holdings == {S0: attrs.evolve(LISTED, draining=True)}


def test_a_report_releases_nothing_of_another_instance() -> None:
    record = one(holding(A, A2, 10))

    assert report(record, 99) is record


def test_an_older_clients_omission_releases_nothing_before_it_has_listed_the_shard() -> None:
    record = one(GRANTED)

    assert report(record, 4, legacy=True) is record


def test_an_older_clients_omission_releases_a_shard_it_has_listed() -> None:
    assert report(one(LISTED), 4, legacy=True).holdings == NOBODY


def test_a_shard_that_an_older_client_says_it_has_finished_with_is_released_at_once() -> None:
    assert report(one(GRANTED), 4, legacy=True, revoked=(S0,)).holdings == NOBODY


def test_what_it_finished_before_the_grant_is_not_the_grant() -> None:
    record = one(GRANTED)

    assert report(record, 3, legacy=True, revoked=(S0,)) is record


def test_listing_what_another_instance_holds_is_noticed() -> None:
    record = one(holding(B, B1, 10))

    assert handover.usurped(record, beat(A, A1, holds=(hold(0, 10),))) == S0


def test_listing_it_under_a_lower_token_is_only_out_of_date() -> None:
    assert handover.usurped(one(holding(B, B1, 10)), beat(A, A1, holds=(hold(0, 9),))) is None


def test_listing_ones_own_or_nobodys_takes_nothing_from_anybody() -> None:
    assert handover.usurped(one(), beat(A, A1, holds=(hold(0, 10), hold(1, 11)))) is None


def test_a_newer_layout_with_other_shards_calls_for_new_targets() -> None:
    after = handover.adopt_layout(group(shards=1), layout(0, 1, version=2))

    assert (after.layout_version, dict(after.layout), after.group_epoch) == (2, {S0: GEN, S1: GEN}, 2)


def test_a_newer_layout_with_the_same_shards_moves_nothing() -> None:
    after = handover.adopt_layout(group(shards=1), layout(0, version=2, generation=3))

    assert (after.layout_version, dict(after.layout), after.group_epoch) == (LayoutVersion(2), {S0: Generation(3)}, 1)


@pytest.mark.parametrize("version", [1, 0])
def test_a_layout_that_is_not_newer_is_passed_over(version: int) -> None:
    record = group(shards=1)

    assert handover.adopt_layout(record, layout(0, 1, version=version)) is record


def test_targets_stay_while_nothing_changed() -> None:
    record = group(member(A, A1))

    assert handover.retarget(record) is record


def test_targets_are_dealt_among_the_live_after_a_change() -> None:
    gone = member(B, B1, 3, state=MemberState.LEAVING)
    record = group(member(A, A1), gone, targets={S0: A, S1: B}, assignment_epoch=Epoch(2))

    after = handover.retarget(record)

    assert (dict(after.targets), after.assignment_epoch) == ({S0: A, S1: A}, 3)


def test_a_free_shard_is_granted_under_a_token_above_the_last() -> None:
    record = group(member(A, A1), targets={S0: A}, last_tokens={S0: Token(WALL + 50)}, shards=1)

    after = handover.grant(record, member(A, A1), Seq(7), WallMillis(WALL))

    granted = Holding(A, A1, GEN, token=Token(WALL + 51), floor=Token(WALL + 50), seq=Seq(7))
    assert (after.holdings, after.last_tokens) == ({S0: granted}, {S0: WALL + 51})


def test_a_first_token_follows_the_wall_clock_so_that_lost_ones_are_not_issued_again() -> None:
    record = group(member(A, A1), targets={S0: A}, shards=1)

    after = handover.grant(record, member(A, A1), Seq(7), WallMillis(WALL))

    assert after.last_tokens == {S0: WALL + 1}


def test_what_anybody_holds_is_not_granted() -> None:
    record = one(holding(B, B1, 10))

    assert handover.grant(record, member(A, A1), Seq(7), WallMillis(WALL)) is record


def test_what_is_meant_for_others_is_not_granted() -> None:
    record = group(member(A, A1), targets={S0: B}, shards=1)

    assert handover.grant(record, member(A, A1), Seq(7), WallMillis(WALL)) is record


def test_a_holding_is_overdue_a_timeout_after_it_had_to_be_given_up() -> None:
    record = attrs.evolve(one(), targets={S0: B})
    seen = sight(record, now=100)

    due = [handover.overdue(record, seen, Instant(100 + t), TIMEOUT) for t in (TIMEOUT - 1, TIMEOUT)]

    assert due == [(), (S0,)]


def test_a_lapsed_holding_is_not_overdue_again() -> None:
    record = attrs.evolve(one(attrs.evolve(GRANTED, lapsed=True)), targets={S0: B})

    assert handover.overdue(record, sight(record), Instant(TIMEOUT), TIMEOUT) == ()


def test_holdings_lapse_one_by_one() -> None:
    record = group(member(A, A1), holdings={S0: GRANTED, S1: GRANTED})

    assert handover.lapse(record, (S1,)).holdings == {S0: GRANTED, S1: attrs.evolve(GRANTED, lapsed=True)}


def test_no_lapse_is_no_change() -> None:
    record = one()

    assert handover.lapse(record, ()) is record


def lapsed_since(now: int, lease: int = LEASE) -> tuple[GroupRecord, Instant]:
    record = attrs.evolve(one(attrs.evolve(GRANTED, lapsed=True)), longest_leases={A1: Millis(lease)})
    return record, Instant(now + expiry_wait_ms(Millis(lease)))


def test_a_lapse_frees_after_the_longest_lease_of_its_holder() -> None:
    record, over = lapsed_since(100, lease=60_000)
    seen = sight(record, now=100)

    left = [handover.free_lapsed(record, seen, now, LEASE).holdings for now in (Instant(over - 1), over)]

    assert left == [record.holdings, NOBODY]


def test_a_lapse_that_is_not_committed_yet_frees_nothing() -> None:
    committed = one()
    record, over = lapsed_since(100)

    assert handover.free_lapsed(record, sight(committed, now=100), over, LEASE) is record


def test_of_what_an_instance_holds_it_is_assigned_what_is_meant_for_it_and_going_on() -> None:
    held = {
        S0: GRANTED,
        S1: attrs.evolve(GRANTED, draining=True),
        S2: attrs.evolve(GRANTED, lapsed=True),
        ShardIndex(3): GRANTED,
        ShardIndex(4): holding(A, A2, 10),
    }
    targets = {shard: A for shard in held if shard != 3}
    record = group(member(A, A1), holdings=held, targets=targets, shards=5)

    assert handover.assigned(record, member(A, A1)) == {S0: GRANTED}


def test_a_member_that_is_not_live_is_assigned_nothing() -> None:
    leaving = member(A, A1, state=MemberState.LEAVING)

    assert handover.assigned(one(GRANTED, leaving), leaving) == {}


def test_a_grant_has_its_fence_raised_until_that_is_known_or_its_holder_lists_it() -> None:
    record = group(
        member(A, A1), holdings=dict.fromkeys((S0, S1, S2), GRANTED), targets={S0: A, S1: A, S2: A}, shards=3
    )
    seen = sight(record)
    seen.raised.add((S0, Token(10)))

    fresh = handover.unraised(record, beat(A, A1, holds=(hold(1, 10),)), member(A, A1), seen)

    assert fresh == {S2: GRANTED}


def test_two_members_joining_within_one_heartbeat_never_read_the_same_shard() -> None:
    bench, _ = settled()
    a, b = client(A), client(B)

    bench.talk(a, b)

    assert (sorted(a.held), b.held, bench.holders()) == ([S0, S1], {}, {0: A1, 1: A1})


def test_the_second_of_them_is_granted_its_share_once_the_first_has_let_go() -> None:
    bench, _ = settled()
    a, b = client(A), client(B)
    bench.talk(a, b, a)
    a.finish(*a.draining)

    bench.talk(a, b)

    assert (sorted(a.held), sorted(b.held)) == ([S0], [S1])


def moving() -> tuple[Bench, Client, Client]:
    """a has both shards; b has joined and one of them is meant for it."""
    bench, (a,) = settled(A)
    b = client(B)
    bench.talk(b, a)
    return bench, a, b


def test_a_grant_that_comes_too_late_is_granted_anew_under_a_higher_token() -> None:
    bench, a, b = moving()
    a.finish(S1)
    bench.talk(a)
    late = bench.hear(b.attempt())

    b.take(bench.hear(b.attempt()))

    assert [grant.shard for grant in late.grants] == [S1]
    assert b.held[S1] > late.grants[0].token


def test_a_shard_given_back_while_draining_is_finished_and_granted_anew() -> None:
    bench, a, b = moving()
    before = dict(a.held)
    bench.hear(b.attempt(Intent.LEAVE))

    given_back = bench.hear(a.attempt())
    a.finish(S1)
    bench.talk(a)

    assert (given_back.assigned, given_back.pending) == ((S0,), (S1,))
    assert (a.held[S0], a.held[S1] > before[S1]) == (before[S0], True)


def test_a_shard_that_is_being_drained_is_granted_to_nobody() -> None:
    bench, a, b = moving()

    bench.wait(TIMEOUT - 2_000, a, b)

    assert (bench.holders(), b.held) == ({0: A1, 1: A1}, {})


def test_a_rebalance_timeout_frees_nothing_before_its_lapse_has_been_seen_for_a_lease() -> None:
    bench, a, b = moving()
    bench.wait(TIMEOUT, a, b)
    assert bench.record.holdings[S1].lapsed
    committed = bench.now

    bench.wait(WAIT - 1_000, a, b)

    assert (bench.now - committed < WAIT, bench.holders(), b.held) == (True, {0: A1, 1: A1}, {})


def test_one_stuck_handler_costs_one_shard_and_not_the_member() -> None:
    bench, a, b = moving()

    bench.wait(TIMEOUT + WAIT + 2_000, a, b)

    assert bench.holders() == {0: A1, 1: B1}
    assert (bench.record.members[A].state, sorted(b.held)) == (MemberState.ACTIVE, [S1])


def test_a_lapsed_hold_is_not_prolonged_while_its_holder_is_renewed() -> None:
    bench, a, b = moving()
    bench.wait(TIMEOUT, a, b)

    reply = bench.hear(a.attempt())

    assert (reply.status, [e.shard for e in reply.extended]) == (Status.OK, [S0])


def test_a_grant_that_was_never_listed_nor_raised_is_not_released_by_an_omission() -> None:
    record = one(GRANTED)

    assert handover.take_report(record, beat(A, A1, 9), A1, frozenset()) is record


def test_such_a_grant_lapses_where_its_shard_is_gone() -> None:
    gone = attrs.evolve(one(GRANTED), layout={})

    after = handover.take_report(gone, beat(A, A1, 9), A1, frozenset())

    assert after == attrs.evolve(gone, holdings={S0: attrs.evolve(GRANTED, lapsed=True)})
