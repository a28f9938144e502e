"""Answers: a function of what is committed, of the fences that are raised, and of what the attempt listed."""

from typing import Any

import attrs

from streamshard.core.answers import Served, refuse, reject, retry, serve
from streamshard.core.commands import Intent
from streamshard.core.group import GroupRecord, Quarantine
from streamshard.core.ids import Epoch, Millis, Seq, Token, WallMillis
from streamshard.core.outcome import Refusal, Standing
from streamshard.core.replies import Extension, Grant, HeartbeatReply, RetryReason, Status
from streamshard.core.views import mint
from tests.unit.core.builders import (
    A1,
    A2,
    B1,
    GEN,
    MAC,
    S0,
    S1,
    S2,
    TIMING,
    WALL,
    A,
    B,
    beat,
    group,
    hold,
    holding,
    member,
)

QUARANTINE = Quarantine("lost", WallMillis(WALL))


def held_by_a() -> GroupRecord:
    """a holds 0 and 1 and is meant to have 0 and 2; 2 is still b's."""
    return group(
        member(A, A1),
        member(B, B1, 3),
        holdings={S0: holding(A, A1, 10), S1: holding(A, A1, 11), S2: holding(B, B1, 12)},
        targets={S0: A, S1: B, S2: A},
        shards=3,
    )


def served(record: GroupRecord, *holds: int, **given: Any) -> Served:
    attempt = beat(A, A1, 7, tuple(hold(s, 10 + s) for s in holds), request_id="r7")
    plain = Served(record, attempt, A1, Millis(9_000), Standing.PRESENT, frozenset())
    return attrs.evolve(plain, **given)


def answer(record: GroupRecord, *holds: int, **given: Any) -> HeartbeatReply:
    return serve(served(record, *holds, **given), TIMING, MAC)


def test_a_full_answer_says_what_to_read_what_is_pending_and_what_is_prolonged() -> None:
    record = held_by_a()

    assert answer(record, 0, 1) == HeartbeatReply(
        status=Status.OK,
        member=A,
        epoch=Epoch(2),
        seq=Seq(7),
        heartbeat_ms=TIMING.heartbeat_ms,
        rebalance_timeout_ms=TIMING.rebalance_timeout_ms,
        lease_ms=Millis(9_000),
        response_to="r7",
        group_epoch=Epoch(3),
        assignment_epoch=Epoch(3),
        metadata_version=1,
        assigned=(S0,),
        pending=(S2,),
        grants=(Grant(S0, Token(10), GEN),),
        extended=(Extension(S0, Token(10)), Extension(S1, Token(11))),
        view=mint(MAC, record.key, record.version),
    )


def test_a_grant_is_pending_until_its_fence_is_raised() -> None:
    reply = answer(held_by_a())

    assert (reply.assigned, reply.grants, reply.pending) == ((), (), (S0, S2))


def test_a_grant_whose_fence_is_raised_is_told_and_not_called_prolonged() -> None:
    reply = answer(held_by_a(), raised=frozenset({(S0, Token(10))}))

    assert (reply.grants, reply.extended) == ((Grant(S0, Token(10), GEN),), ())


def test_a_fence_raised_for_an_earlier_token_tells_nothing() -> None:
    assert answer(held_by_a(), raised=frozenset({(S0, Token(9))})).grants == ()


def test_a_hold_under_a_lower_token_is_not_prolonged() -> None:
    record = attrs.evolve(held_by_a(), holdings={S0: holding(A, A1, 20)})

    assert answer(record, 0).extended == ()


def test_a_lapsed_hold_is_neither_assigned_nor_prolonged() -> None:
    record = attrs.evolve(held_by_a(), holdings={S0: holding(A, A1, 10, lapsed=True)})

    reply = answer(record, 0)

    assert (reply.assigned, reply.pending, reply.extended) == ((), (S0, S2), ())


def test_a_shard_given_back_while_draining_is_prolonged_and_pending() -> None:
    record = attrs.evolve(held_by_a(), holdings={S0: holding(A, A1, 10, draining=True)})

    reply = answer(record, 0)

    assert (reply.assigned, reply.pending, reply.extended) == ((), (S0, S2), (Extension(S0, Token(10)),))


def test_an_attempt_older_than_the_last_prolongs_nothing() -> None:
    assert answer(held_by_a(), 0, 1, renewed=False).extended == ()


def test_who_has_to_catch_up_is_told_to_adopt_the_present_view() -> None:
    assert answer(held_by_a(), standing=Standing.CATCHING_UP).status is Status.SYNC_METADATA


def test_who_is_up_to_date_waits_while_the_group_is_in_quarantine() -> None:
    record = attrs.evolve(held_by_a(), quarantine=QUARANTINE)

    assert answer(record).status is Status.REVOKE_PENDING


def test_who_has_to_catch_up_is_told_so_in_quarantine_too() -> None:
    record = attrs.evolve(held_by_a(), quarantine=QUARANTINE)

    assert answer(record, standing=Standing.CATCHING_UP).status is Status.SYNC_METADATA


def test_a_leaver_is_assigned_nothing_and_goes_on_draining() -> None:
    leaving = beat(A, A1, 7, (hold(0, 10),), intent=Intent.LEAVE, epoch=Epoch(-1))
    reply = answer(held_by_a(), beat=leaving)

    assert (reply.assigned, reply.grants, reply.extended) == ((), (), (Extension(S0, Token(10)),))


def test_an_instance_whose_name_was_taken_over_is_told_nothing_of_the_new_ones() -> None:
    record = attrs.evolve(held_by_a(), members={A: member(A, A2, 9)})

    reply = answer(record, 0)

    assert (reply.epoch, reply.assigned, reply.pending, reply.extended) == (
        Epoch(2),
        (),
        (),
        (Extension(S0, Token(10)),),
    )


def test_an_instance_whose_name_is_gone_is_answered_its_own_epoch() -> None:
    reply = answer(attrs.evolve(held_by_a(), members={}), 0)

    assert (reply.epoch, reply.assigned, reply.pending) == (Epoch(2), (), ())


def test_a_rejection_knows_no_group() -> None:
    attempt = beat(A, A1, 7, epoch=Epoch(4), request_id="r7")

    assert reject(attempt, TIMING, Refusal(Status.UNKNOWN_MEMBER_ID, "join again")) == HeartbeatReply(
        status=Status.UNKNOWN_MEMBER_ID,
        member=A,
        epoch=Epoch(4),
        seq=Seq(7),
        heartbeat_ms=TIMING.heartbeat_ms,
        rebalance_timeout_ms=TIMING.rebalance_timeout_ms,
        lease_ms=TIMING.lease_ms,
        response_to="r7",
        message="join again",
    )


def test_the_rejected_family_is_not_told_the_groups_numbers() -> None:
    attempt, refusal = beat(), Refusal(Status.UNSUPPORTED_PROTOCOL, "upgrade")

    assert refuse(held_by_a(), attempt, TIMING, refusal) == reject(attempt, TIMING, refusal)


def test_the_fenced_are_told_the_groups_numbers_and_no_shards() -> None:
    attempt, refusal = beat(), Refusal(Status.FENCED_MEMBER_EPOCH, "join as a new instance")

    assert refuse(held_by_a(), attempt, TIMING, refusal) == attrs.evolve(
        reject(attempt, TIMING, refusal), group_epoch=Epoch(3), assignment_epoch=Epoch(3), metadata_version=1
    )


def test_a_retry_says_why_and_when() -> None:
    reply = retry(beat(), TIMING, RetryReason.CONFLICT, "the group kept changing")

    assert (reply.status, reply.retry_reason, reply.retry_after_ms, reply.message) == (
        Status.RETRY,
        RetryReason.CONFLICT,
        TIMING.heartbeat_ms,
        "the group kept changing",
    )
