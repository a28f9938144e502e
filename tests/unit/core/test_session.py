"""The member's side of the protocol: what is sent, what answers count, grants and drains."""

import attrs
import pytest

from streamshard.core.actions import BeatAfter, BeatNow, Drain, Drop, Start
from streamshard.core.commands import Hold, Intent
from streamshard.core.ids import Epoch, Instant, MemberId, Millis, Token
from streamshard.core.replies import Status
from streamshard.core.session import (
    Held,
    Phase,
    Use,
    beat,
    finished,
    hear,
    may_use,
    unanswered,
)
from tests.unit.core.exchanges import FIRST, GEN, HEARTBEAT, S0, S1, USABLE, answer, exchange, fresh, holds, reading


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

        assert (session.phase, actions) == (Phase.FENCED, (Drop(S0, Token(10), fenced=True),))

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
