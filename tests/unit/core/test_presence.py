"""When members were last heard of, as one coordinator saw it."""

import attrs

from streamshard.core.group import Row
from streamshard.core.ids import Instant, Millis, Nonce, Seq, WallMillis
from streamshard.core.presence import Presence, presences
from streamshard.core.queries import GroupView
from streamshard.core.timing import expiry_wait_ms
from tests.unit.core.builders import A1, B1, LEASE, S0, TIMEOUT, TIMING, WAIT, WALL, A, B, group, holding, member, sight
from tests.unit.core.stream_bench import opened


def row(mark: str) -> Row:
    return Row(A1, Seq(1), Nonce(mark), LEASE)


def test_a_row_was_heard_when_it_was_first_seen_and_expires_a_wait_later() -> None:
    record = group(member(A, A1))
    seen = sight(record, {A1: row("one")}, now=1_000)
    view = GroupView(opened(1)[0].record, record, {A1: row("one")})

    found = presences(view, seen, TIMING, Instant(4_000), WallMillis(WALL + 4_000))

    assert found == {A1: Presence(WallMillis(WALL + 1_000), WallMillis(WALL + 1_000 + WAIT))}


def test_a_renewal_that_the_coordinator_has_not_watched_yet_is_from_just_now() -> None:
    record = group(member(A, A1))
    seen = sight(record, {A1: row("one")}, now=1_000)
    view = GroupView(opened(1)[0].record, record, {A1: row("two")})

    assert presences(view, seen, TIMING, Instant(4_000), WallMillis(WALL))[A1].heard_at == WALL


def test_the_longest_lease_that_was_answered_counts() -> None:
    record = attrs.evolve(group(member(A, A1)), longest_leases={A1: Millis(60_000)})
    view = GroupView(opened(1)[0].record, record, {})

    found = presences(view, sight(record, now=0), TIMING, Instant(0), WallMillis(WALL))

    assert found[A1].expires_at == WALL + expiry_wait_ms(Millis(60_000))


def test_a_holding_that_has_to_be_given_up_has_a_deadline_until_it_lapses() -> None:
    held = {S0: holding(A, A1)}
    record = group(member(A, A1), member(B, B1, 3), holdings=held, targets={S0: B})
    lapsed = attrs.evolve(record, holdings={S0: attrs.evolve(held[S0], lapsed=True)})
    stream = opened(1)[0].record

    waiting, over = (
        presences(GroupView(stream, r, {}), sight(r, now=2_000), TIMING, Instant(2_000), WallMillis(WALL))
        for r in (record, lapsed)
    )

    assert (waiting[A1].drain_by, waiting[B1].drain_by, over[A1].drain_by) == (WALL + TIMEOUT, None, None)
