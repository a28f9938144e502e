"""Who is in the group: joins, names taken over, goodbyes, silence, and what is remembered of those gone."""

from typing import Any

import attrs
import pytest

from streamshard.core import membership
from streamshard.core.group import GroupRecord, Member, MemberState
from streamshard.core.ids import Epoch, InstanceId, Instant, Millis, WallMillis
from streamshard.core.outcome import Refusal
from streamshard.core.replies import RetryReason, Status
from streamshard.core.sight import GroupSight
from streamshard.core.timing import expiry_wait_ms
from tests.unit.core.builders import (
    A1,
    A2,
    B1,
    B2,
    C1,
    LEASE,
    S0,
    S1,
    TIMING,
    WAIT,
    WALL,
    A,
    B,
    C,
    beat,
    context,
    group,
    holding,
    member,
    row,
    sight,
)

H = TIMING.heartbeat_ms
END = WallMillis(WALL + 500)


def silent_for(record: GroupRecord, duration: int) -> GroupSight:
    """A coordinator that has read the same rows twice, so far apart."""
    rows = {instance: row(instance) for instance in record.longest_leases}
    seen = sight(record, rows)
    seen.observe(record, rows, Instant(duration))
    return seen


def holder_of_the_name(record: GroupRecord, silent: int, instance: InstanceId = A2) -> Refusal | None:
    return membership.name_holder(record, beat(A, instance), H, silent_for(record, silent))


def test_a_name_that_nobody_has_is_free() -> None:
    assert holder_of_the_name(group(), 0) is None


def test_ones_own_name_is_free() -> None:
    assert holder_of_the_name(group(member(A, A1)), 0, A1) is None


@pytest.mark.parametrize("state", [MemberState.LEAVING, MemberState.EXPIRED, MemberState.FENCED])
def test_the_name_of_one_that_takes_no_part_any_more_is_free(state: MemberState) -> None:
    assert holder_of_the_name(group(member(A, A1, state=state)), 0) is None


def test_a_name_is_held_while_its_holder_was_heard_of_within_two_heartbeats() -> None:
    refusal = holder_of_the_name(group(member(A, A1)), 2 * H)

    assert refusal == Refusal(
        Status.RETRY,
        "member 'a' is held by instance a1, heard of 6000 ms ago: "
        "stop that instance, or give this one another member id",
        RetryReason.NAME_HELD,
    )


def test_a_name_is_free_once_its_holder_has_been_silent_for_longer() -> None:
    assert holder_of_the_name(group(member(A, A1)), 2 * H + 1) is None


def test_a_newcomer_starts_in_the_next_epoch() -> None:
    joining = beat(A, A1, member_name="alpha", max_concurrency=3, advertised_url="http://a", client_version="1.2")

    after = membership.admit(group(member(B, B1, 5), metadata_version=8), joining, A1, context(9))

    assert after.group_epoch == 6
    assert after.members[A] == Member(
        id=A,
        name="alpha",
        instance=A1,
        epoch=Epoch(6),
        state=MemberState.STARTING,
        joined_at=WallMillis(WALL + 9),
        joined_version=9,
        max_concurrency=3,
        advertised_url="http://a",
        client_version="1.2",
    )


def test_who_takes_a_name_over_leaves_the_shards_with_the_instance_that_has_them() -> None:
    record = group(member(A, A1), holdings={S0: holding(A, A1, 10)}, targets={S0: A, S1: A})

    after = membership.admit(record, beat(A, A2), A2, context())

    assert (after.members[A].instance, after.holdings, after.targets) == (A2, record.holdings, record.targets)


def test_a_member_that_has_heard_of_its_join_is_active() -> None:
    after = membership.refresh(group(member(A, A1, state=MemberState.STARTING)), beat(A, A1))

    assert after.members[A].state is MemberState.ACTIVE


def test_what_a_member_says_of_itself_is_taken_in() -> None:
    said = beat(A, A1, member_name="alpha", max_concurrency=9, advertised_url="http://a", client_version="2")

    after = membership.refresh(group(member(A, A1)), said)

    assert after.members[A] == attrs.evolve(
        member(A, A1), name="alpha", max_concurrency=9, advertised_url="http://a", client_version="2"
    )


def test_hearing_the_same_again_changes_nothing() -> None:
    record = group(member(A, A1))

    assert membership.refresh(record, beat(A, A1)) is record


def longest(known: int, answered: int) -> int:
    record = group(member(A, A1), longest_leases={A1: Millis(known)})
    return membership.remember_lease(record, A1, Millis(answered)).longest_leases[A1]


def test_the_longest_lease_ever_answered_is_remembered() -> None:
    assert (longest(15_000, 60_000), longest(60_000, 15_000)) == (60_000, 60_000)


def test_a_lease_that_is_not_longer_changes_nothing() -> None:
    record = group(member(A, A1))

    assert membership.remember_lease(record, A1, LEASE) is record


def test_who_leaves_with_empty_hands_is_gone() -> None:
    record = group(member(A, A1), member(B, B1, 3))

    after = membership.depart(record, record.members[A])

    assert (dict(after.members), after.group_epoch) == ({B: member(B, B1, 3)}, 4)


def test_who_leaves_while_something_drains_is_leaving() -> None:
    record = group(member(A, A1), holdings={S0: holding(A, A1, 10)})

    after = membership.depart(record, record.members[A])

    assert (after.members[A].state, after.group_epoch) == (MemberState.LEAVING, 3)


def test_a_second_goodbye_while_something_drains_changes_nothing() -> None:
    record = group(member(A, A1, state=MemberState.LEAVING), holdings={S0: holding(A, A1, 10)})

    assert membership.depart(record, record.members[A]) is record


def test_the_last_goodbye_of_a_leaver_moves_nothing() -> None:
    record = group(member(A, A1, state=MemberState.LEAVING))

    after = membership.depart(record, record.members[A])

    assert (dict(after.members), after.group_epoch) == ({}, record.group_epoch)


def test_ending_a_member_leaves_its_holdings_alone() -> None:
    record = group(member(A, A1), holdings={S0: holding(A, A1, 10)})

    after = membership.end(record, record.members[A], MemberState.FENCED, END)

    assert after.members[A] == member(A, A1, state=MemberState.FENCED, ended_at=END)
    assert (after.group_epoch, after.holdings) == (3, record.holdings)


def test_ending_one_that_took_no_part_any_more_moves_nothing() -> None:
    record = group(member(A, A1, state=MemberState.LEAVING))

    after = membership.end(record, record.members[A], MemberState.EXPIRED, END)

    assert (after.members[A].state, after.group_epoch) == (MemberState.EXPIRED, record.group_epoch)


def test_ignored_claims_are_counted_and_the_third_fences_its_sender_alone() -> None:
    record = group(member(A, A1), member(B, B1, 3))
    seen = []
    for _ in range(3):
        record = membership.claim_ignored(record, A, END)
        seen.append((record.members[A].ignored_claims, record.members[A].state, record.members[B].state))

    assert seen == [
        (1, MemberState.ACTIVE, MemberState.ACTIVE),
        (2, MemberState.ACTIVE, MemberState.ACTIVE),
        (3, MemberState.FENCED, MemberState.ACTIVE),
    ]


def test_a_member_that_has_caught_up_is_not_held_to_earlier_claims() -> None:
    record = group(member(A, A1, ignored_claims=2))

    assert membership.claim_settled(record, A).members[A] == member(A, A1)


def test_without_earlier_claims_there_is_nothing_to_forget() -> None:
    record = group(member(A, A1))

    assert membership.claim_settled(record, A) is record


def test_an_instance_is_silent_after_its_own_longest_lease() -> None:
    record = group(member(A, A1), member(B, B1), longest_leases={A1: LEASE, B1: Millis(60_000)})

    found = [membership.silent_instances(record, silent_for(record, t)) for t in (WAIT - 1, WAIT)]

    assert found == [(), (A1,)]


def test_lowering_the_lease_does_not_shorten_the_wait_for_one_that_was_answered_the_longer() -> None:
    record = group(member(A, A1), longest_leases={A1: Millis(60_000)})
    record = membership.remember_lease(record, A1, Millis(3_000))
    wait = expiry_wait_ms(Millis(60_000))

    found = [membership.silent_instances(record, silent_for(record, t)) for t in (wait - 1, wait)]

    assert found == [(), (A1,)]


def test_an_instance_that_this_coordinator_has_not_seen_is_not_silent() -> None:
    record = group(member(A, A1))

    assert membership.silent_instances(record, silent_for(group(), 10**9)) == ()


def test_expiry_frees_everything_of_an_instance_and_ends_its_member() -> None:
    record = group(
        member(A, A1), member(B, B1, 3), holdings={S0: holding(A, A1, 10), S1: holding(B, B1, 11)}, departed=(C1,)
    )

    after = membership.expire(record, A1, END)

    assert after == attrs.evolve(
        record,
        group_epoch=Epoch(4),
        members={A: member(A, A1, state=MemberState.EXPIRED, ended_at=END), B: member(B, B1, 3)},
        holdings={S1: holding(B, B1, 11)},
        longest_leases={B1: LEASE},
        departed=(C1, A1),
    )


def test_the_expiry_of_an_earlier_instance_leaves_the_names_holder_alone() -> None:
    record = group(member(A, A2, 3), holdings={S0: holding(A, A1, 10)})

    after = membership.expire(record, A1, END)

    assert (after.holdings, after.members, after.group_epoch) == ({}, record.members, record.group_epoch)


def test_the_expiry_of_a_fenced_instance_leaves_it_fenced() -> None:
    fenced = member(A, A1, state=MemberState.FENCED, ended_at=END)
    record = group(fenced, holdings={S0: holding(A, A1, 10)})

    after = membership.expire(record, A1, WallMillis(END + 9))

    assert (after.holdings, dict(after.members)) == ({}, {A: fenced})


def test_one_that_is_leaving_expires_like_others() -> None:
    record = group(member(A, A1, state=MemberState.LEAVING), holdings={S0: holding(A, A1, 10)})

    assert membership.expire(record, A1, END).members[A].state is MemberState.EXPIRED


def ended(**given: Any) -> Member:
    return member(A, A1, state=MemberState.EXPIRED, ended_at=END, **given)


def test_a_terminal_member_is_forgotten_after_its_time() -> None:
    record = group(ended(), longest_leases={})

    kept = [membership.forget_old(record, WallMillis(END + t), Millis(1_000)) for t in (999, 1_000)]

    assert kept == [record, attrs.evolve(record, members={})]


def test_instances_that_hold_nothing_and_have_no_name_are_gone() -> None:
    record = group(
        member(A, A2, 3),
        member(C, C1, 4, state=MemberState.FENCED, ended_at=END),
        holdings={S0: holding(B, B1, 10)},
        longest_leases=dict.fromkeys((A1, A2, B1, C1), LEASE),
        departed=(B2,),
    )

    after = membership.forget_gone(record)

    assert after == attrs.evolve(record, longest_leases={A2: LEASE, B1: LEASE}, departed=(B2, A1, C1))


def test_while_nobody_is_gone_nothing_is_forgotten() -> None:
    record = group(member(A, A1, state=MemberState.LEAVING))

    assert membership.forget_gone(record) is record


def test_only_the_last_of_those_gone_are_remembered() -> None:
    many = tuple(InstanceId(f"gone {i}") for i in range(membership.REMEMBERED_DEPARTED))
    record = group(longest_leases={A1: LEASE}, departed=many)

    assert membership.forget_gone(record).departed == (*many[1:], A1)


def test_rows_of_instances_that_are_not_watched_are_stale() -> None:
    rows = [row(B1), row(A1), row(A2)]

    assert membership.stale_rows(rows, group(member(A, A1))) == (A2, B1)


@pytest.mark.parametrize(
    ("joined", "speaks", "impostor"),
    [("app", "app", False), ("app", "eve", True), ("app", None, False), (None, "app", False), (None, None, False)],
)
def test_no_other_account_speaks_for_a_life(joined: str | None, speaks: str | None, *, impostor: bool) -> None:
    known = attrs.evolve(member(A, A1), principal=joined)

    assert membership.is_impostor(known, beat(A, A1, principal=speaks)) is impostor
    assert not membership.is_impostor(known, beat(A, A2, principal=speaks))
    assert not membership.is_impostor(None, beat(A, A1, principal=speaks))


def test_a_member_keeps_the_account_that_it_was_first_heard_through() -> None:
    record = group(member(A, A1))

    heard = membership.refresh(record, beat(A, A1, principal="app"))
    unnamed = membership.refresh(heard, beat(A, A1))

    assert heard.members[A].principal == "app"
    assert unnamed.members[A].principal == "app"
    assert membership.admit(record, beat(B, B1, principal="app"), B1, context()).members[B].principal == "app"
