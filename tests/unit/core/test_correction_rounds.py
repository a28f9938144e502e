"""How a group gets back after its store lost writes: who waits, who is fenced, who goes on."""

from typing import Any

import attrs

from streamshard.core import correction
from streamshard.core.group import Quarantine
from streamshard.core.ids import (
    Token,
    WallMillis,
)
from streamshard.core.outcome import LostWrites
from streamshard.core.replies import Status
from tests.unit.core.builders import (
    A1,
    B1,
    S0,
    S1,
    WAIT,
    WALL,
    A,
    B,
    Bench,
    client,
    row,
    settled,
)

QUARANTINE = Quarantine("lost", WallMillis(WALL))


def test_an_adopted_hold_blocks_and_is_not_prolonged() -> None:
    bench, (a,) = settled(A, shards=1)
    bench.commit(attrs.evolve(bench.record, holdings={}, last_tokens={}))

    reply = bench.hear(a.attempt())

    assert (reply.assigned, reply.pending, reply.extended) == ((), (S0,), ())
    assert bench.holders() == {0: A1}


def after_a_loss() -> tuple[Bench, Any, Any]:
    """a and b have settled; the store lost b's grant and everything since, and a new lineage has begun."""
    bench, (a, b) = settled(A, B)
    without_b = {S0: bench.record.holdings[S0]}
    before = attrs.evolve(bench.record, holdings=without_b, last_tokens={S0: bench.record.last_tokens[S0]})
    marks = {S1: bench.record.last_tokens[S1]}
    bench.commit(correction.start_lineage(before, marks, LostWrites("lost"), bench.context()))
    return bench, a, b


def test_members_catch_up_then_wait_then_go_on() -> None:
    bench, a, _ = after_a_loss()

    seen = [bench.hear(a.attempt())]
    a.take(seen[0])
    seen.append(bench.hear(a.attempt()))
    bench.wait(WAIT + 1_000, a)
    seen.append(bench.hear(a.attempt()))

    assert [reply.status for reply in seen] == [Status.SYNC_METADATA, Status.REVOKE_PENDING, Status.OK]


def test_what_a_member_holds_and_is_assigned_it_keeps_through_a_discontinuity() -> None:
    bench, a, b = after_a_loss()
    before = dict(a.held)

    bench.wait(WAIT + 5_000, a, b)

    assert a.held == before


def test_whose_grant_was_lost_blocks_the_shard_until_it_has_let_go() -> None:
    bench, a, b = after_a_loss()
    bench.talk(b)
    assert bench.holders() == {0: A1, 1: B1}

    b.finish(S1)
    bench.talk(a, b)

    assert bench.holders() == {0: A1}


def test_nothing_is_granted_in_quarantine() -> None:
    bench, a, b = after_a_loss()
    bench.talk(b)
    b.finish(S1)

    bench.wait(WAIT - 1_000, a, b)

    assert (bench.record.quarantine is not None, bench.holders(), b.held) == (True, {0: A1}, {})


def test_after_quarantine_it_is_granted_under_a_token_above_the_lost_one() -> None:
    bench, a, b = after_a_loss()
    lost = b.held[S1]
    bench.talk(b)
    b.finish(S1)

    bench.wait(WAIT + 2_000, a, b)

    assert (bench.record.quarantine, b.held[S1] > lost) == (None, True)


def test_one_of_two_who_list_a_lost_shard_is_fenced_and_neither_is_prolonged() -> None:
    bench, (a, b) = settled(A, B)
    bench.commit(attrs.evolve(bench.record, holdings={}, last_tokens={}, quarantine=QUARANTINE))
    stuck = client(A)
    stuck.epoch, stuck.seq = a.epoch, a.seq
    stuck.held, stuck.draining = {S1: Token(b.held[S1] - 1)}, {S1}

    first, second = bench.hear(stuck.attempt()), bench.hear(b.attempt())

    assert (first.extended, second.status, second.extended) == ((), Status.FENCED_MEMBER_EPOCH, ())


def test_a_row_is_not_needed_to_be_caught_up() -> None:
    bench, (a,) = settled(A)
    bench.rows.clear()

    assert bench.hear(a.attempt()).status is Status.OK
    assert bench.rows == {A1: attrs.evolve(row(A1, a.seq), mark=bench.rows[A1].mark)}
