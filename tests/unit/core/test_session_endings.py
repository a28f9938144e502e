"""How the member's rights end: retries, fences, outages and stops."""

from typing import Any

import pytest

from streamshard.core.actions import BeatAfter, BeatNow, Drain, Drop, NameHeld, Reject, Rejoin, Start
from streamshard.core.commands import Hold, Intent
from streamshard.core.ids import Epoch, Instant, Millis, Seq, Token
from streamshard.core.records import Access
from streamshard.core.replies import RetryReason, Status
from streamshard.core.session import (
    Phase,
    Session,
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
from tests.unit.core.exchanges import (
    FIRST,
    GEN,
    HEARTBEAT,
    ME,
    S0,
    S1,
    SECOND,
    USABLE,
    answer,
    exchange,
    fresh,
    holds,
    reading,
)


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
        assert actions == (Drop(S0, Token(10), fenced=True), Drop(S1, Token(11), fenced=True))
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

        assert actions == (Drop(S0, Token(10), fenced=access is Access.FENCED), BeatNow())
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
        assert actions == (Drop(S0, Token(10), fenced=True),)

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
