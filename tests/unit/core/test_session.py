"""The member's side of the protocol: late, lost and repeated answers, drains, fences, and stops."""

from typing import Any

import attrs
import pytest

from streamshard.core.actions import Action, BeatAfter, BeatNow, Drain, Drop, NameHeld, Reject, Rejoin, Start
from streamshard.core.commands import Hold, Intent
from streamshard.core.ids import Epoch, Generation, InstanceId, Instant, MemberId, Millis, Seq, ShardIndex, Token, View
from streamshard.core.records import Access
from streamshard.core.replies import Extension, Grant, HeartbeatReply, RetryReason, Status
from streamshard.core.session import (
    Held,
    Phase,
    Session,
    Use,
    beat,
    expire,
    finished,
    hear,
    may_use,
    refused,
    rejoin,
    stop,
    unanswered,
)

ME = MemberId("a-m0")
FIRST, SECOND = InstanceId("1" * 32), InstanceId("2" * 32)
LEASE, HEARTBEAT = 15_000, 3_000
USABLE = 15_000 * 99 // 100 - 750
S0, S1 = ShardIndex(0), ShardIndex(1)
GEN = Generation(1)


def fresh() -> Session:
    return Session(ME, FIRST)


def answer(session: Session, status: Status = Status.OK, /, **given: Any) -> HeartbeatReply:
    """The answer to the outstanding attempt of ``session``."""
    grants: dict[int, int] = given.pop("grants", {})
    extended: dict[int, int] = given.pop("extended", {})
    reply = HeartbeatReply(
        status=status,
        member=ME,
        epoch=Epoch(5),
        seq=session.seq,
        heartbeat_ms=Millis(HEARTBEAT),
        rebalance_timeout_ms=Millis(60_000),
        lease_ms=Millis(LEASE),
        metadata_version=9,
        assigned=tuple(ShardIndex(s) for s in grants),
        grants=tuple(Grant(ShardIndex(s), Token(t), GEN) for s, t in grants.items()),
        extended=tuple(Extension(ShardIndex(s), Token(t)) for s, t in extended.items()),
        view=View("v9"),
    )
    return attrs.evolve(reply, **given)


def exchange(
    session: Session, at: int, status: Status = Status.OK, /, **given: Any
) -> tuple[Session, tuple[Action, ...]]:
    """One heartbeat at ``at``, answered in the same millisecond."""
    session, _ = beat(session, Instant(at))
    return hear(session, answer(session, status, **given), Instant(at))


def reading(*shards: int, at: int = 0) -> Session:
    """A member that reads ``shards``, each under token 10 + index."""
    session, _ = exchange(fresh(), at, grants={s: 10 + s for s in shards})
    return session


def holds(session: Session, at: int = 99) -> tuple[Hold, ...]:
    return beat(session, Instant(at))[1].holds


class TestBeating:
    def test_the_first_attempt_asks_to_join(self) -> None:
        session, heartbeat = beat(fresh(), Instant(7))

        assert (heartbeat.intent, heartbeat.epoch, heartbeat.seq, heartbeat.instance) == (Intent.JOIN, 0, 1, FIRST)
        assert heartbeat.holds == ()
        assert session.seq == 1

    def test_every_attempt_has_a_new_number_retries_included(self) -> None:
        session, first = beat(fresh(), Instant(0))
        session, _ = unanswered(session)
        session, second = beat(session, Instant(1))

        assert (first.seq, second.seq) == (1, 2)
        assert second.intent is Intent.JOIN

    def test_a_member_lists_what_it_reads_under_its_epoch_and_view(self) -> None:
        _, heartbeat = beat(reading(0, 1), Instant(3_000))

        assert (heartbeat.intent, heartbeat.epoch, heartbeat.view, heartbeat.metadata_version) == (
            Intent.STAY,
            5,
            "v9",
            9,
        )
        assert heartbeat.holds == (Hold(S0, Token(10)), Hold(S1, Token(11)))
        assert (heartbeat.owned, heartbeat.revoking) == ((0, 1), ())

    def test_an_unanswered_attempt_changes_nothing_and_backs_off(self) -> None:
        session = reading(0)
        before = session.held
        delays: list[int] = []
        for _ in range(7):
            session, actions = unanswered(beat(session, Instant(0))[0])
            delays.extend(a.ms for a in actions if isinstance(a, BeatAfter))

        assert delays == [100, 200, 400, 800, 1_600, 3_000, 3_000]
        assert session.held == before

    def test_an_answer_ends_the_backing_off(self) -> None:
        session, _ = unanswered(beat(reading(0), Instant(0))[0])

        session, _ = exchange(session, 10, grants={0: 10})

        assert session.misses == 0


class TestAnswers:
    def test_only_the_answer_to_the_outstanding_attempt_counts(self) -> None:
        session, _ = beat(fresh(), Instant(0))
        early = answer(session, grants={0: 10})
        session, _ = unanswered(session)
        session, _ = beat(session, Instant(1))

        assert hear(session, early, Instant(2)) == (session, ())

    def test_a_repeated_answer_changes_nothing(self) -> None:
        session, _ = beat(fresh(), Instant(0))
        reply = answer(session, grants={0: 10})
        session, _ = hear(session, reply, Instant(1))

        assert hear(session, reply, Instant(2)) == (session, ())

    def test_an_answer_for_another_member_changes_nothing(self) -> None:
        session, _ = beat(fresh(), Instant(0))
        stranger = answer(session, member=MemberId("b"), grants={0: 10})

        assert hear(session, stranger, Instant(1)) == (session, ())

    def test_an_answer_after_its_own_lease_is_dropped_whole(self) -> None:
        session, _ = beat(fresh(), Instant(100))
        reply = answer(session, grants={0: 10})

        heard, actions = hear(session, reply, Instant(100 + USABLE))

        assert heard == attrs.evolve(session, outstanding=None)
        assert actions == (BeatNow(),)

    def test_the_last_moment_of_the_lease_is_in_time(self) -> None:
        session, _ = beat(fresh(), Instant(100))

        session, actions = hear(session, answer(session, grants={0: 10}), Instant(100 + USABLE - 1))

        assert actions == (Start(S0, Token(10), GEN), BeatNow())
        assert may_use(session, S0, Token(10), Instant(100 + USABLE - 1))
        assert not may_use(session, S0, Token(10), Instant(100 + USABLE))

    def test_a_refusal_without_a_lease_length_is_judged_by_the_last_one(self) -> None:
        session, _ = beat(reading(0), Instant(100))
        reply = answer(session, Status.UNKNOWN_MEMBER_ID, lease_ms=Millis(0))

        session, actions = hear(session, reply, Instant(200))

        assert (session.phase, actions) == (Phase.FENCED, (Drop(S0, Token(10)),))

    def test_the_epoch_is_the_one_given_at_join(self) -> None:
        session, _ = exchange(reading(0), 10, epoch=Epoch(8), grants={0: 10})

        assert session.epoch == 5


class TestGrants:
    def test_what_appears_is_started_and_reported_at_once(self) -> None:
        session, actions = exchange(fresh(), 0, grants={1: 11, 0: 10})

        assert actions == (Start(S0, Token(10), GEN), Start(S1, Token(11), GEN), BeatNow())
        assert session.held[S0] == Held(Token(10), GEN, Instant(USABLE), Use.READING)
        assert session.phase is Phase.MEMBER

    def test_an_assigned_shard_without_a_grant_is_not_started(self) -> None:
        session, actions = exchange(fresh(), 0, assigned=(S0,))

        assert (dict(session.held), actions) == ({}, (BeatAfter(Millis(HEARTBEAT)),))

    def test_a_grant_whose_answer_was_lost_is_not_listed(self) -> None:
        session, _ = unanswered(beat(reading(), Instant(0))[0])

        assert holds(session) == ()

    def test_only_what_is_extended_lasts_longer(self) -> None:
        session, actions = exchange(reading(0, 1), 3_000, grants={0: 10, 1: 11}, extended={0: 10})

        assert {s: h.deadline for s, h in session.held.items()} == {0: 3_000 + USABLE, 1: USABLE}
        assert actions == (BeatAfter(Millis(HEARTBEAT)),)

    def test_an_extension_of_another_token_prolongs_nothing(self) -> None:
        session, _ = exchange(reading(0), 3_000, grants={0: 10}, extended={0: 9})

        assert session.held[S0].deadline == USABLE

    def test_while_shards_are_pending_the_next_beat_is_sooner(self) -> None:
        _, actions = exchange(reading(0), 3_000, grants={0: 10}, extended={0: 10}, pending=(S1,))

        assert actions == (BeatAfter(Millis(HEARTBEAT // 2)),)

    def test_a_shard_whose_fence_is_being_raised_again_is_kept(self) -> None:
        session, actions = exchange(reading(0), 3_000, pending=(S0,), extended={0: 10})

        assert session.held[S0].use is Use.READING
        assert not any(isinstance(a, Drain) for a in actions)

    def test_a_higher_token_takes_the_place_of_the_lower_once_its_run_has_ended(self) -> None:
        session, actions = exchange(reading(0), 3_000, grants={0: 20})

        assert actions == (Drop(S0, Token(10)), BeatNow())
        assert holds(session) == (Hold(S0, Token(20)),)
        assert not may_use(session, S0, Token(10), Instant(3_001))

        session, actions = finished(session, S0, Token(10), Instant(3_500))

        assert actions == (Start(S0, Token(20), GEN),)
        assert session.held[S0].use is Use.READING

    def test_a_lower_token_is_never_taken(self) -> None:
        session, actions = exchange(reading(0), 3_000, grants={0: 9})

        assert Drain(S0, Token(10)) in actions
        assert holds(session) == (Hold(S0, Token(10), draining=True),)

    def test_a_grant_that_waited_too_long_is_started_only_when_extended(self) -> None:
        session, _ = exchange(reading(0), 3_000, grants={0: 20})
        session, actions = finished(session, S0, Token(10), Instant(3_000 + USABLE))
        assert actions == ()

        session, actions = exchange(session, 20_000, grants={0: 20}, extended={0: 20})

        assert Start(S0, Token(20), GEN) in actions

    def test_a_waiting_grant_that_vanishes_is_released_at_once(self) -> None:
        session, _ = exchange(reading(0), 3_000, grants={0: 20})

        session, actions = exchange(session, 6_000)

        assert actions == (BeatNow(),)
        assert holds(session) == (Hold(S0, Token(10), draining=True),)


class TestDraining:
    def test_what_vanishes_is_drained_and_listed_until_it_is_finished(self) -> None:
        session, actions = exchange(reading(0, 1), 3_000, grants={0: 10}, extended={0: 10, 1: 11})

        assert actions == (Drain(S1, Token(11)), BeatAfter(Millis(HEARTBEAT)))
        assert holds(session) == (Hold(S0, Token(10)), Hold(S1, Token(11), draining=True))
        assert may_use(session, S1, Token(11), Instant(3_000 + USABLE - 1))

        session, actions = finished(session, S1, Token(11), Instant(4_000))

        assert actions == (BeatNow(),)
        assert holds(session) == (Hold(S0, Token(10)),)

    def test_a_drain_is_asked_for_once(self) -> None:
        session, _ = exchange(reading(0), 3_000)
        _, actions = exchange(session, 6_000)

        assert actions == (BeatAfter(Millis(HEARTBEAT)),)

    def test_a_shard_given_back_while_draining_is_not_resumed(self) -> None:
        session, _ = exchange(reading(0), 3_000, extended={0: 10})
        session, actions = exchange(session, 6_000, grants={0: 10}, extended={0: 10})

        assert holds(session) == (Hold(S0, Token(10), draining=True),)
        assert actions == (BeatAfter(Millis(HEARTBEAT)),)

    def test_a_token_that_was_let_go_is_not_taken_back(self) -> None:
        session, _ = exchange(reading(0), 3_000, extended={0: 10})
        session, _ = beat(session, Instant(6_000))
        reply = answer(session, grants={0: 10}, extended={0: 10})
        session, _ = finished(session, S0, Token(10), Instant(6_001))

        session, _ = hear(session, reply, Instant(6_002))
        assert holds(session) == ()

        session, actions = exchange(session, 6_003, grants={0: 20})
        assert actions == (Start(S0, Token(20), GEN), BeatNow())

    @pytest.mark.parametrize("status", [Status.SYNC_METADATA, Status.REVOKE_PENDING])
    def test_in_a_correction_only_what_is_owned_and_assigned_is_kept_and_nothing_starts(self, status: Status) -> None:
        session, actions = exchange(reading(0, 1), 3_000, status, grants={0: 10, 2: 12}, extended={0: 10, 1: 11})

        assert actions == (Drain(S1, Token(11)), BeatAfter(Millis(HEARTBEAT)))
        assert holds(session) == (Hold(S0, Token(10)), Hold(S1, Token(11), draining=True))

    def test_in_a_correction_a_pending_shard_is_drained_too(self) -> None:
        _, actions = exchange(reading(0), 3_000, Status.SYNC_METADATA, pending=(S0,), extended={0: 10})

        assert Drain(S0, Token(10)) in actions

    def test_what_waits_for_an_old_handler_is_not_started_in_a_correction(self) -> None:
        session, _ = exchange(reading(0), 3_000, grants={0: 20})
        session, _ = exchange(session, 6_000, Status.REVOKE_PENDING, grants={0: 20}, extended={0: 20})

        session, actions = finished(session, S0, Token(10), Instant(6_001))
        assert actions == ()

        session, actions = exchange(session, 9_000, grants={0: 20}, extended={0: 20})
        assert actions == (Start(S0, Token(20), GEN), BeatAfter(Millis(HEARTBEAT)))

    def test_a_run_that_ends_unasked_releases_its_shard(self) -> None:
        session, actions = finished(reading(0), S0, Token(10), Instant(1))

        assert (holds(session), actions) == ((), (BeatNow(),))

    def test_the_end_of_a_run_nobody_knows_changes_nothing(self) -> None:
        session = reading(0)

        assert finished(session, S0, Token(9), Instant(1)) == (session, ())
        assert finished(session, S1, Token(10), Instant(1)) == (session, ())


class TestRetry:
    def test_nothing_changes_and_the_next_beat_comes_when_asked(self) -> None:
        session = reading(0)
        before = session.held

        session, actions = exchange(session, 3_000, Status.RETRY, retry_after_ms=Millis(250), extended={0: 10})

        assert (session.held, actions) == (before, (BeatAfter(Millis(250)),))

    def test_without_a_wish_it_comes_soon(self) -> None:
        _, actions = exchange(reading(0), 3_000, Status.RETRY, retry_reason=RetryReason.CONFLICT)

        assert actions == (BeatAfter(Millis(HEARTBEAT // 4)),)

    def test_a_name_is_proven_held_once_its_holder_must_have_renewed(self) -> None:
        held: dict[str, Any] = {
            "retry_reason": RetryReason.NAME_HELD,
            "message": "held by 9f",
            "retry_after_ms": Millis(1_000),
        }

        session, first = exchange(fresh(), 0, Status.RETRY, **held)
        session, second = exchange(session, 3 * HEARTBEAT - 1, Status.RETRY, **held)
        session, third = exchange(session, 3 * HEARTBEAT, Status.RETRY, **held)

        assert first == (NameHeld("held by 9f", proven=False), BeatAfter(Millis(1_000)))
        assert second == first
        assert third == (NameHeld("held by 9f", proven=True), BeatAfter(Millis(1_000)))
        assert session.phase is Phase.JOINING

    def test_a_holder_without_a_name_is_still_reported(self) -> None:
        _, actions = exchange(fresh(), 0, Status.RETRY, retry_reason=RetryReason.NAME_HELD)

        assert actions[0] == NameHeld("a-m0 is held by another instance", proven=False)


class TestFences:
    @pytest.mark.parametrize("status", [Status.UNKNOWN_MEMBER_ID, Status.FENCED_MEMBER_EPOCH])
    def test_a_disowned_member_drops_all_leaves_when_quiet_and_joins_anew(self, status: Status) -> None:
        session, actions = exchange(reading(0, 1), 3_000, status)
        assert actions == (Drop(S0, Token(10)), Drop(S1, Token(11)))
        assert not session.beats
        assert not may_use(session, S0, Token(10), Instant(3_001))

        session, actions = finished(session, S0, Token(10), Instant(4_000))
        assert actions == ()
        session, actions = finished(session, S1, Token(11), Instant(5_000))
        assert actions == (BeatNow(),)

        session, heartbeat = beat(session, Instant(5_001))
        assert (heartbeat.intent, heartbeat.epoch, heartbeat.seq, heartbeat.holds) == (Intent.LEAVE, 5, 3, ())
        session, actions = hear(session, answer(session, Status.FENCED_MEMBER_EPOCH), Instant(5_002))
        assert actions == (Rejoin(),)

        session, actions = rejoin(session, SECOND)
        assert actions == (BeatNow(),)
        _, heartbeat = beat(session, Instant(5_003))
        assert (heartbeat.intent, heartbeat.epoch, heartbeat.seq, heartbeat.instance) == (Intent.JOIN, 0, 1, SECOND)

    def test_a_disowned_member_with_nothing_running_leaves_at_once(self) -> None:
        session, actions = exchange(reading(), 3_000, Status.FENCED_MEMBER_EPOCH)

        assert (session.phase, actions) == (Phase.FENCED, (BeatNow(),))

    def test_a_lost_leave_is_said_again(self) -> None:
        session, _ = exchange(reading(), 3_000, Status.FENCED_MEMBER_EPOCH)
        session, _ = unanswered(beat(session, Instant(3_001))[0])
        session, _ = exchange(session, 3_100, Status.RETRY)

        _, heartbeat = beat(session, Instant(4_000))

        assert (heartbeat.intent, heartbeat.seq) == (Intent.LEAVE, 5)

    def test_a_newcomer_whose_instance_is_terminal_leaves_before_it_joins_anew(self) -> None:
        session, actions = exchange(fresh(), 0, Status.FENCED_MEMBER_EPOCH)

        assert (session.phase, actions) == (Phase.FENCED, (BeatNow(),))

    def test_a_newcomer_to_a_missing_group_asks_again_later(self) -> None:
        session, actions = exchange(fresh(), 0, Status.UNKNOWN_MEMBER_ID)

        assert (session.phase, actions) == (Phase.JOINING, (BeatAfter(Millis(HEARTBEAT)),))

    def test_a_newcomer_in_a_correction_without_an_epoch_is_no_member_yet(self) -> None:
        session, actions = exchange(fresh(), 0, Status.SYNC_METADATA, epoch=Epoch(0))

        assert (session.phase, session.view, actions) == (Phase.JOINING, "v9", (BeatAfter(Millis(HEARTBEAT)),))

    @pytest.mark.parametrize("access", [Access.FENCED, Access.SEALED])
    def test_a_shard_whose_fence_refuses_us_is_dropped_alone(self, access: Access) -> None:
        session, actions = refused(reading(0, 1), S0, Token(10), access)

        assert actions == (Drop(S0, Token(10)), BeatNow())
        assert not may_use(session, S0, Token(10), Instant(1))
        assert may_use(session, S1, Token(11), Instant(1))
        assert holds(session) == (Hold(S0, Token(10), draining=True), Hold(S1, Token(11)))

        session, actions = finished(session, S0, Token(10), Instant(2))
        assert actions == (BeatNow(),)
        assert holds(session) == (Hold(S1, Token(11)),)

    def test_a_missing_shard_is_kept_and_reported(self) -> None:
        session = reading(0)

        assert refused(session, S0, Token(10), Access.MISSING) == (session, (BeatNow(),))

    def test_a_refusal_under_an_old_token_or_none_at_all_changes_nothing(self) -> None:
        session = reading(0)

        assert refused(session, S0, Token(9), Access.FENCED) == (session, ())
        assert refused(session, S1, Token(11), Access.FENCED) == (session, ())
        assert refused(session, S0, Token(10), Access.OK) == (session, ())

    @pytest.mark.parametrize("status", [Status.UNSUPPORTED_PROTOCOL, Status.INVALID_REQUEST])
    def test_a_rejected_client_stops_for_good(self, status: Status) -> None:
        session, actions = exchange(reading(0), 3_000, status, message="upgrade to 0.2")

        assert actions == (Drop(S0, Token(10)), Reject("upgrade to 0.2"))
        assert (session.phase, session.beats) == (Phase.REJECTED, False)

    def test_a_rejection_without_words_says_its_status(self) -> None:
        _, actions = exchange(fresh(), 0, Status.INVALID_REQUEST)

        assert actions == (Reject("INVALID_REQUEST"),)

    def test_the_last_run_of_a_rejected_client_is_no_reason_to_beat(self) -> None:
        session, _ = exchange(reading(0), 3_000, Status.INVALID_REQUEST)

        assert finished(session, S0, Token(10), Instant(4_000))[1] == ()


class TestOutage:
    def test_what_ran_out_stops_and_stays_listed(self) -> None:
        session, actions = expire(reading(0), Instant(USABLE))

        assert actions == (Drop(S0, Token(10)),)
        assert holds(session) == (Hold(S0, Token(10)),)
        assert session.phase is Phase.MEMBER

    def test_before_that_nothing_happens(self) -> None:
        session = reading(0)

        assert session.next_deadline == USABLE
        assert expire(session, Instant(USABLE - 1)) == (session, ())

    def test_a_renewal_after_the_outage_starts_it_again_under_the_same_token(self) -> None:
        session, _ = expire(reading(0), Instant(USABLE))
        session, actions = finished(session, S0, Token(10), Instant(USABLE))
        assert (actions, session.next_deadline) == ((), None)

        session, actions = exchange(session, 60_000, grants={0: 10}, extended={0: 10})

        assert actions == (Start(S0, Token(10), GEN), BeatAfter(Millis(HEARTBEAT)))

    def test_a_handler_that_outlived_the_outage_holds_the_start_back(self) -> None:
        session, _ = expire(reading(0), Instant(USABLE))
        session, actions = exchange(session, 60_000, grants={0: 10}, extended={0: 10})
        assert actions == (BeatAfter(Millis(HEARTBEAT)),)
        assert may_use(session, S0, Token(10), Instant(60_001))

        _, actions = finished(session, S0, Token(10), Instant(60_002))

        assert actions == (Start(S0, Token(10), GEN),)

    def test_what_was_given_away_meanwhile_is_drained(self) -> None:
        session, _ = expire(reading(0), Instant(USABLE))
        session, actions = exchange(session, 60_000)

        assert actions == (Drain(S0, Token(10)), BeatAfter(Millis(HEARTBEAT)))
        assert holds(session) == (Hold(S0, Token(10), draining=True),)


class TestStopping:
    def test_before_the_first_heartbeat_there_is_nothing_to_leave(self) -> None:
        session, actions = stop(fresh())

        assert (session.phase, actions) == (Phase.LEFT, ())

    def test_a_join_that_may_have_arrived_is_taken_back(self) -> None:
        session, actions = stop(beat(fresh(), Instant(0))[0])
        assert actions == (BeatNow(),)

        session, heartbeat = beat(session, Instant(1))
        assert (heartbeat.intent, heartbeat.seq) == (Intent.LEAVE, 2)

        session, actions = hear(session, answer(session, Status.UNKNOWN_MEMBER_ID), Instant(2))
        assert (session.phase, actions) == (Phase.LEFT, ())

    def test_a_member_leaves_while_it_drains_and_is_gone_when_it_lists_nothing(self) -> None:
        session, actions = stop(reading(0))
        assert actions == (Drain(S0, Token(10)), BeatNow())

        session, heartbeat = beat(session, Instant(3_000))
        assert (heartbeat.intent, heartbeat.holds) == (Intent.LEAVE, (Hold(S0, Token(10), draining=True),))
        session, actions = hear(session, answer(session, grants={1: 11}, extended={0: 10}), Instant(3_001))
        assert actions == (BeatAfter(Millis(HEARTBEAT)),)
        assert may_use(session, S0, Token(10), Instant(3_000 + USABLE - 1))

        session, actions = finished(session, S0, Token(10), Instant(4_000))
        assert actions == (BeatNow(),)
        session, actions = exchange(session, 4_001)
        assert (session.phase, session.beats, actions) == (Phase.LEFT, False, ())

    def test_the_answer_to_a_beat_sent_before_the_stop_starts_nothing(self) -> None:
        session, _ = beat(reading(), Instant(3_000))
        reply = answer(session, grants={0: 10})
        session, _ = stop(session)

        session, actions = hear(session, reply, Instant(3_001))

        assert (session.phase, actions) == (Phase.LEAVING, (BeatAfter(Millis(HEARTBEAT)),))
        assert holds(session) == ()

    def test_a_leaving_member_that_is_fenced_drops_all_and_does_not_come_back(self) -> None:
        session, _ = stop(reading(0))
        session, actions = exchange(session, 3_000, Status.FENCED_MEMBER_EPOCH)
        assert actions == (Drop(S0, Token(10)),)

        session, actions = finished(session, S0, Token(10), Instant(4_000))
        assert actions == (BeatNow(),)
        session, _ = exchange(session, 4_001, Status.FENCED_MEMBER_EPOCH)

        assert session.phase is Phase.LEFT

    def test_a_fenced_member_that_is_stopped_does_not_join_again(self) -> None:
        session, _ = exchange(reading(0), 3_000, Status.FENCED_MEMBER_EPOCH)
        session, actions = stop(session)
        assert actions == ()

        session, _ = finished(session, S0, Token(10), Instant(4_000))
        session, actions = exchange(session, 4_001, Status.FENCED_MEMBER_EPOCH)

        assert (session.phase, actions) == (Phase.LEFT, ())

    def test_what_waits_for_an_old_handler_is_released_at_once(self) -> None:
        session, _ = exchange(reading(0), 3_000, grants={0: 20})

        session, actions = stop(session)

        assert actions == (BeatNow(),)
        assert holds(session) == (Hold(S0, Token(10), draining=True),)

    def test_an_old_handler_that_ends_while_leaving_starts_nothing(self) -> None:
        session, _ = stop(reading(0))
        session, _ = finished(session, S0, Token(10), Instant(1))

        assert holds(session) == ()

    @pytest.mark.parametrize("phase", [Phase.LEAVING, Phase.LEFT, Phase.REJECTED])
    def test_stopping_again_changes_nothing(self, phase: Phase) -> None:
        session = Session(ME, FIRST, phase=phase, seq=Seq(3))

        assert stop(session) == (session, ())

    def test_nothing_is_said_after_the_end(self) -> None:
        with pytest.raises(AssertionError, match=r"nothing to say while LEFT"):
            beat(Session(ME, FIRST, phase=Phase.LEFT), Instant(0))
