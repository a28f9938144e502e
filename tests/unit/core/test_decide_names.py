"""Joins and goodbyes: replays, duplicates, and names that change hands."""

import attrs

from streamshard.core.commands import Intent
from streamshard.core.decide import decide
from streamshard.core.group import MemberState, Row
from streamshard.core.ids import (
    Epoch,
    Instant,
    Millis,
    Nonce,
    Seq,
    WallMillis,
)
from streamshard.core.replies import RetryReason, Status
from tests.unit.core.builders import (
    A1,
    A2,
    B1,
    LEASE,
    S0,
    S1,
    TIMING,
    WAIT,
    WALL,
    A,
    B,
    accepted,
    alone,
    beat,
    client,
    context,
    group,
    hear,
    hold,
    holding,
    member,
    plain,
    refused,
    row,
    settled,
    sight,
    taken_over,
)

H = TIMING.heartbeat_ms
JOIN, LEAVE = Intent.JOIN, Intent.LEAVE
FENCED = Status.FENCED_MEMBER_EPOCH


def test_a_join_is_granted_its_share_at_once() -> None:
    decision = accepted(hear(group(shards=1), plain(1, intent=JOIN, epoch=Epoch(0))))

    granted = holding(A, A1, WALL + 1, seq=Seq(1))
    assert (decision.record.holdings, decision.record.longest_leases) == ({S0: granted}, {A1: LEASE})
    assert (decision.record.members[A].epoch, decision.record.assignment_epoch) == (2, 2)
    assert decision.row == Row(A1, Seq(1), Nonce("next"), LEASE)


def test_a_lost_answer_to_a_join_is_made_up_for_by_the_next_attempt() -> None:
    bench, _ = settled()
    a = client(A)
    first = bench.hear(a.attempt())

    second = bench.hear(a.attempt())

    assert (second.epoch, second.grants) == (first.epoch, first.grants)


def test_the_same_join_twice_is_the_same_answer() -> None:
    bench, _ = settled()
    attempt = client(A).attempt()
    first = bench.hear(attempt)

    assert bench.hear(attempt) == first


def test_a_join_of_an_instance_that_has_ended_is_fenced() -> None:
    ended = member(A, A1, state=MemberState.EXPIRED, ended_at=WallMillis(WALL))

    assert refused(hear(alone(owner=ended), plain(9, intent=JOIN))).status is FENCED


def test_a_duplicate_of_an_old_join_after_the_leave_admits_nobody() -> None:
    bench, _ = settled()
    a = client(A)
    joined = a.attempt()
    a.take(bench.hear(joined))
    a.held.clear()
    bench.hear(a.attempt(LEAVE))
    assert (dict(bench.record.members), bench.record.departed) == ({}, (A1,))

    again = bench.hear(joined)

    assert (again.status, dict(bench.record.members)) == (FENCED, {})


def test_an_instance_that_goes_by_another_name_admits_nobody() -> None:
    assert refused(hear(alone(), beat(B, A1, 1, intent=JOIN))).status is FENCED


def test_a_name_that_is_held_is_not_taken() -> None:
    bench, (a,) = settled(A)
    newcomer = client(A, 2)

    reply = bench.hear(newcomer.attempt())

    assert (reply.status, reply.retry_reason, reply.retry_after_ms) == (Status.RETRY, RetryReason.NAME_HELD, H)
    assert bench.record.members[A].instance == a.instance


def test_a_silent_holders_name_is_taken_over_and_nothing_moves_to_others() -> None:
    bench, _, newcomer = taken_over()

    assert (bench.record.members[A].instance, newcomer.held) == (A2, {})
    assert bench.holders() == {0: A1, 1: B1}


def test_the_old_instances_shards_wait_for_its_silence() -> None:
    bench, b, newcomer = taken_over()

    bench.wait(WAIT - 2 * H - 3_000, b, newcomer)
    waiting = bench.holders()
    bench.wait(4_000, b, newcomer)

    assert (waiting, bench.holders()) == ({0: A1, 1: B1}, {0: A2, 1: B1})


def test_the_old_instances_goodbye_gives_them_to_the_name_at_once() -> None:
    bench, _, newcomer = taken_over()
    old = client(A)
    old.seq = 90

    bench.hear(old.attempt(LEAVE))
    bench.talk(newcomer)

    assert bench.holders() == {0: A2, 1: B1}


def test_an_instance_whose_name_was_taken_over_is_fenced_and_not_renewed() -> None:
    bench, _, _ = taken_over()
    before = dict(bench.rows)
    old = client(A)
    old.seq, old.epoch = 90, Epoch(2)

    assert (bench.hear(old.attempt()).status, bench.rows) == (FENCED, before)


def test_a_name_is_taken_over_only_if_its_holders_row_is_still_the_same() -> None:
    record, rows = alone(), {A1: row(A1, 7)}
    seen = sight(record, rows)
    seen.observe(record, rows, Instant(2 * H + 1))

    decision = decide(record, rows, beat(A, A2, 1, intent=JOIN), context(2 * H + 1), seen)

    assert accepted(decision).same_rows == {A1: Nonce("a1:7")}


def test_a_free_name_is_taken_without_looking_at_rows() -> None:
    assert accepted(hear(group(), plain(1, intent=JOIN))).same_rows == {}


def test_a_newcomer_that_lists_what_its_name_held_is_fenced() -> None:
    record, rows = alone(), {A1: row(A1, 7)}
    seen = sight(record, rows)
    seen.observe(record, rows, Instant(2 * H + 1))
    attempt = beat(A, A2, 1, (hold(0, 10),), intent=JOIN)

    assert refused(decide(record, rows, attempt, context(2 * H + 1), seen)).status is FENCED


def test_a_goodbye_with_empty_hands_frees_everything() -> None:
    bench, (a, b) = settled(A, B)
    a.held.clear()

    bench.hear(a.attempt(LEAVE))

    assert (list(bench.record.members), dict(bench.record.targets)) == ([B], {S0: B, S1: B})
    assert (bench.holders(), bench.record.departed) == ({1: B1}, (A1,))


def test_a_goodbye_leaves_what_it_still_drains_blocked() -> None:
    bench, (a, b) = settled(A, B)

    reply = bench.hear(a.attempt(LEAVE))
    bench.talk(b)

    assert bench.holders() == {0: A1, 1: B1}
    assert (reply.assigned, [e.shard for e in reply.extended]) == ((), [S0])


def test_a_duplicated_goodbye_is_answered_and_frees_nothing_more() -> None:
    bench, (a, b) = settled(A, B)
    goodbye = a.attempt(LEAVE)
    bench.hear(goodbye)
    before = bench.record

    bench.hear(goodbye)

    assert bench.record is before


def test_a_duplicated_last_goodbye_finds_nobody() -> None:
    bench, (a,) = settled(A)
    a.held.clear()
    goodbye = a.attempt(LEAVE)
    bench.hear(goodbye)
    before = bench.record

    assert (bench.hear(goodbye).status, bench.record) == (Status.UNKNOWN_MEMBER_ID, before)


def test_a_goodbye_of_an_earlier_instance_does_not_touch_the_present_one() -> None:
    bench, b, newcomer = taken_over()
    old = client(A)
    old.seq = 90
    bench.hear(old.attempt(LEAVE))
    bench.talk(newcomer)
    before = bench.record

    again = bench.hear(old.attempt(LEAVE))

    assert (again.status, bench.record) == (Status.UNKNOWN_MEMBER_ID, before)


def test_a_goodbye_without_an_instance_that_is_known_is_refused() -> None:
    record = attrs.evolve(alone(), allow_legacy=True)

    assert refused(hear(record, plain(instance=None, intent=LEAVE))).status is Status.UNKNOWN_MEMBER_ID


def test_a_goodbye_that_still_drains_has_its_longer_lease_on_record() -> None:
    decision = accepted(hear(alone(), plain(8, 10, intent=LEAVE), {A1: row(A1, 7)}, lease=60_000))

    assert decision.record.longest_leases == {A1: 60_000}
    assert decision.row == Row(A1, Seq(8), Nonce("next"), Millis(60_000))


def test_a_fenced_instances_goodbye_frees_what_it_held() -> None:
    fenced = member(A, A1, state=MemberState.FENCED, ended_at=WallMillis(WALL))

    after = accepted(hear(alone(owner=fenced), plain(8, intent=LEAVE))).record

    assert (after.holdings, dict(after.members), after.departed) == ({}, {A: fenced}, (A1,))
