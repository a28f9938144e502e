"""What time alone does to a group, as one coordinator has itself seen it pass."""

import attrs
import pytest

from streamshard.core.decide import decide_tick
from streamshard.core.group import GroupRecord, MemberState
from streamshard.core.ids import (
    Instant,
    Nonce,
    WallMillis,
)
from streamshard.core.outcome import Rows, TickOutcome
from streamshard.core.replies import Status
from tests.unit.core.builders import (
    A1,
    A2,
    B1,
    LEASE,
    LISTED,
    QUARANTINE,
    S0,
    S1,
    TIMEOUT,
    TIMING,
    WAIT,
    WALL,
    A,
    B,
    alone,
    context,
    group,
    layout,
    member,
    row,
    settled,
    sight,
)

H = TIMING.heartbeat_ms
FENCED = Status.FENCED_MEMBER_EPOCH


def tick(record: GroupRecord, first: int, then: int, rows: Rows | None = None) -> TickOutcome:
    """What a coordinator decides that has seen the same thing twice."""
    known = rows or {}
    seen = sight(record, known, now=first)
    seen.observe(record, known, Instant(then))
    return decide_tick(record, known, context(then, shards=layout(*record.layout)), seen)


def test_a_tick_that_finds_nothing_changes_nothing() -> None:
    record = alone()

    outcome = tick(record, 0, 1_000, {A1: row()})

    assert outcome.record is record
    assert outcome == TickOutcome(record)


def test_silence_expires_an_instance_if_its_row_is_still_the_same() -> None:
    record = group(member(A, A1), member(B, B1, 3), holdings={S0: LISTED}, targets={S0: A, S1: B})
    rows = {A1: row(A1, 7), B1: row(B1, 1)}
    seen = sight(record, rows)
    seen.observe(record, {**rows, B1: row(B1, 2)}, Instant(WAIT))

    outcome = decide_tick(record, rows, context(WAIT), seen)

    assert (outcome.record.members[A].state, outcome.record.holdings) == (MemberState.EXPIRED, {})
    assert (dict(outcome.record.targets), outcome.same_rows) == ({S0: B, S1: B}, {A1: Nonce("a1:7")})


def test_a_row_that_was_lost_has_to_be_still_missing() -> None:
    assert tick(alone(), 0, WAIT).same_rows == {A1: None}


def test_rows_of_those_gone_are_dropped() -> None:
    rows = {A1: row(A1), B1: row(B1)}

    assert tick(alone(), 0, 1_000, rows).drop_rows == (B1,)


def test_a_quarantine_ends_when_its_lineage_was_seen_for_a_lease() -> None:
    record = group(quarantine=QUARANTINE)

    ended = [tick(record, 100, 100 + t).record.quarantine for t in (WAIT - 1, WAIT)]

    assert ended == [QUARANTINE, None]


def test_a_tick_adopts_a_newer_layout() -> None:
    record = alone()

    after = decide_tick(record, {}, context(shards=layout(0, 1, version=2)), sight(record)).record

    assert (sorted(after.layout), sorted(after.targets)) == ([S0, S1], [S0, S1])


def test_a_stuck_drain_lapses_alone() -> None:
    record = group(member(A, A1), member(B, B1, 3), holdings={S0: LISTED, S1: LISTED}, targets={S0: A, S1: B})
    rows = {A1: row(A1), B1: row(B1)}
    seen = sight(record, rows)

    after = decide_tick(record, rows, context(TIMEOUT), seen).record

    assert after.holdings == {S0: LISTED, S1: attrs.evolve(LISTED, lapsed=True)}
    assert after.members[A].state is MemberState.ACTIVE


def test_an_older_client_with_a_stuck_drain_is_fenced_whole() -> None:
    owner = member(A, A1, legacy=True)
    record = group(owner, member(B, B1, 3), holdings={S0: LISTED, S1: LISTED}, targets={S0: A, S1: B})
    seen = sight(record)

    after = decide_tick(record, {}, context(TIMEOUT), seen).record

    lapsed = attrs.evolve(LISTED, lapsed=True)
    assert (after.holdings, after.members[A].state) == ({S0: lapsed, S1: lapsed}, MemberState.FENCED)
    assert dict(after.targets) == {S0: B, S1: B}


def test_what_an_older_clients_earlier_life_left_stuck_does_not_fence_the_present_one() -> None:
    record = group(member(A, A2, 3, legacy=True), holdings={S0: LISTED}, targets={S0: A}, shards=1)

    after = decide_tick(record, {}, context(TIMEOUT, shards=layout(0)), sight(record)).record

    assert (after.members[A].state, after.holdings[S0].lapsed) == (MemberState.ACTIVE, True)


@pytest.mark.parametrize("duration", [WAIT, 100 * WAIT])
def test_an_outage_of_any_length_moves_nothing(duration: int) -> None:
    bench, (a, b) = settled(A, B)
    before = (bench.record, dict(a.held), dict(b.held))
    bench.now += duration
    bench.sight.restart(Instant(bench.now))

    bench.wait(H, step=H)
    bench.talk(a, b)
    bench.wait(3 * WAIT, a, b)

    assert (bench.record, a.held, b.held) == before


def test_a_pause_between_reading_and_deciding_expires_nobody() -> None:
    record, rows = alone(), {A1: row()}

    assert decide_tick(record, rows, context(10 * WAIT), sight(record, rows)).record is record


def test_a_member_that_dies_is_replaced_and_its_shards_move_once() -> None:
    bench, (a, b) = settled(A, B)
    kept = b.held[S1]

    bench.wait(WAIT + 2_000, b)

    assert (sorted(b.held), b.held[S1], bench.holders()) == ([S0, S1], kept, {0: B1, 1: B1})


def test_forgotten_members_leave_no_trace_in_the_assignment() -> None:
    gone = member(A, A1, state=MemberState.EXPIRED, ended_at=WallMillis(WALL - TIMING.terminal_ms))
    record = group(gone, longest_leases={A1: LEASE})

    after = tick(record, 0, 0).record

    assert (dict(after.members), after.departed) == ({}, (A1,))
