"""The judges of a ledger: spoiled ones are flagged, good ones are not."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tests.ledger.checks import (
    MILLI,
    Check,
    duplicates,
    in_order,
    no_old_ack,
    nobody_stranded,
    nothing_invented,
    nothing_lost,
    one_reader,
    one_token,
    stopped_well,
)
from tests.ledger.lines import End, Fault, Id, Ledger, Publish, Remains, Start, Tenure
from tests.ledger.timings import Bounds, failovers, handoffs, pauses_move_nothing, quick_failovers, quick_handoffs, void

A, B = "consumer-a.1", "consumer-b.1"
P = "producer-p.1"
BOUNDS = Bounds(crash_ms=4_000, handoff_ms=1_000)
"""What is promised in these tests."""


def ms(at: int) -> int:
    return at * MILLI


def published(number: int, shard: int = 0, at: int = 10, **spoilt: Any) -> Publish:
    return Publish(P, number, f"order-{number}", shard, (number, 0), 1, ms(at))._replace(**spoilt)


def started(  # noqa: PLR0913
    number: int, token: int = 5, process: str = A, *, at: int = 20, deliveries: int = 1, until: int = 99
) -> Start:
    return Start(0, (number, 0), P, number, deliveries, token, f"i-{process}", process, ms(at), ms(until))


def acked(number: int, token: int = 5, process: str = A, at: int = 25, *, taken: bool = True) -> End:
    return End(0, (number, 0), token, process, ms(at), taken)


def tenure(process: str, token: int, start: int, end: int, until: int | None = None) -> Tenure:
    return Tenure(0, token, f"m-{process}", process, ms(start), ms(end), ms(end if until is None else until))


def fault(name: str = "consumer-kill", began: int = 30, ended: int = 40, **more: Any) -> Fault:
    return Fault(name, ms(began), ms(ended), **more)


LOSS = fault("failover-loss", 1, 90, shards=frozenset({0}), lost_from=2, lost_to=3)
"""A failover that lost what was written to shard 0 in the milliseconds 2 and 3."""

GOOD = Ledger(
    published=(published(1), published(2), published(3, at=30)),
    sent={P: (range(1, 4),)},
    starts=(started(1), started(2, at=21), started(3, 6, B, at=60, deliveries=2)),
    ends=(acked(1), acked(2), acked(3, 6, B, at=65)),
    tenures=(tenure(A, 5, 1, 40), tenure(B, 6, 50, 90)),
    faults=(fault(who=(A,)),),
    story=({"kind": "ended", "at": 1, "who": A, "code": 0},),
    remains=(Remains(0, exists=True, sealed=False, mark=6, ids=frozenset({(1, 0), (2, 0), (3, 0)}), pending=0, lag=0),),
)
"""A consumer died with a record in its hand, and the next one got it."""

CHECKS: tuple[Callable[[Ledger], Check], ...] = (
    nothing_lost,
    nothing_invented,
    duplicates(10),
    in_order,
    one_token,
    no_old_ack,
    one_reader,
    nobody_stranded(1),
    stopped_well,
    pauses_move_nothing,
)


def spoilt(**changes: Any) -> Ledger:
    return attrs.evolve(GOOD, **changes)


def also(*starts: Start) -> Ledger:
    return spoilt(starts=tuple(sorted((*GOOD.starts, *starts), key=lambda start: start.at)))


GOOD_ONES = {
    "a crash with a record in hand": GOOD,
    "a record redelivered under the same token": also(started(2, at=22, deliveries=2)),
    "a record that Redis lost in a failover": spoilt(
        starts=(GOOD.starts[0], GOOD.starts[2]._replace(id=(4, 0), number=4)),
        published=(*GOOD.published[:2], published(4, at=30)),
        sent={P: (range(1, 5),)},
        remains=(attrs.evolve(GOOD.remains[0], ids=frozenset({(1, 0), (4, 0)})),),
        faults=(LOSS,),
    ),
    "a delivery that Redis forgot in a failover": attrs.evolve(also(started(2, at=30)), faults=(LOSS,)),
    "a handler that a pause fell upon": attrs.evolve(
        also(started(2, 5, A, at=75, deliveries=2, until=40)),
        faults=(fault("consumer-stop", 30, 74, who=(A,)),),
    ),
    "a publish in doubt that was written": spoilt(
        published=GOOD.published[:2], maybe=frozenset({(P, 3)})
    ),
    "an acknowledgement that was refused": spoilt(ends=(*GOOD.ends, acked(3, 5, A, taken=False))),
    "a right that was worth nothing when it was heard of": spoilt(
        tenures=(*GOOD.tenures, tenure(A, 5, 60, 61, until=59))
    ),
    "nothing": Ledger(remains=GOOD.remains),
    "a removed shard": spoilt(remains=(*GOOD.remains, Remains(4, exists=False, sealed=True, mark=3))),
}  # fmt: skip

BAD_ONES: dict[str, tuple[str, Ledger]] = {
    "a record that nobody handled": ("nothing-lost", spoilt(starts=GOOD.starts[:2])),
    "a record that is still in Redis, handled by nobody": (
        "nothing-lost",
        spoilt(starts=(GOOD.starts[0], GOOD.starts[2]), faults=(LOSS,)),
    ),
    "a record lost outside of what the failover lost": (
        "nothing-lost",
        spoilt(starts=GOOD.starts[1:], faults=(LOSS,), remains=(attrs.evolve(GOOD.remains[0], ids=frozenset()),)),
    ),
    "a record lost on a shard that failed over nowhere": (
        "nothing-lost",
        spoilt(published=(*GOOD.published, published(2, shard=1)), faults=(LOSS,)),
    ),
    "a record that nobody sent": ("nothing-invented", also(started(9, 6, B, at=70))),
    "a record that its producer was told is not written": ("nothing-invented", spoilt(never=frozenset({(P, 3)}))),
    "a record that is there twice": (
        "nothing-invented",
        also(started(4, 6, B, at=70)._replace(number=3)),
    ),
    "a record delivered as new twice": ("duplicates", also(started(3, 6, B, at=70))),
    "more duplicates than were in hand": (
        "duplicates",
        also(*(started(3, 6, B, at=70, deliveries=n) for n in range(3, 15))),
    ),
    "a duplicate in calm": (
        "duplicates",
        attrs.evolve(also(started(2, at=22, deliveries=2)), story=({"kind": "phase", "at": 0, "name": "calm"},)),
    ),
    "an inversion": ("in-order", spoilt(starts=(started(2), started(1, at=21), GOOD.starts[2]))),
    "an inversion across owners": (
        "in-order",
        spoilt(starts=(started(1), started(3, at=22), started(2, 6, B, at=60))),
    ),
    "a handler under an old token": ("one-token", also(started(2, 5, A, at=70, deliveries=2))),
    "a handler long after the pause that is blamed": (
        "one-token",
        attrs.evolve(
            also(started(2, 5, A, at=200, deliveries=2, until=40)),
            faults=(fault("consumer-stop", 30, 74, who=(A,)),),
        ),
    ),
    "two handlers that one pause is blamed for": (
        "one-token",
        attrs.evolve(
            also(*(started(n, 5, A, at=74 + n, deliveries=2, until=40) for n in (1, 2))),
            faults=(fault("consumer-stop", 30, 74, who=(A,)),),
        ),
    ),
    "a handler under an old token within its lease": (
        "one-token",
        attrs.evolve(
            also(started(2, 5, A, at=75, deliveries=2, until=99)),
            faults=(fault("consumer-stop", 30, 74, who=(A,)),),
        ),
    ),
    "a later record under an earlier token": (
        "one-token",
        spoilt(starts=(started(1, 6), started(2, 5, at=19), started(3, 6, B, at=60))),
    ),
    "an acknowledgement of what a later owner was given": ("no-old-ack", spoilt(ends=(*GOOD.ends, acked(3, 5, A)))),
    "two readers": ("one-reader", spoilt(tenures=(tenure(A, 5, 1, 60), tenure(B, 6, 50, 90)))),
    "two readers, one of whom never stops": (
        "one-reader",
        spoilt(tenures=(tenure(A, 5, 1, 2**40, until=55), tenure(B, 6, 50, 90))),
    ),
    "a token that goes down": ("one-reader", spoilt(tenures=(tenure(A, 7, 1, 40), tenure(B, 6, 50, 90)))),
    "a token that two have": ("one-reader", spoilt(tenures=(tenure(A, 6, 1, 40), tenure(B, 6, 50, 90)))),
    "a record that waits": ("nobody-stranded", spoilt(remains=(attrs.evolve(GOOD.remains[0], lag=1),))),
    "a record that is pending": ("nobody-stranded", spoilt(remains=(attrs.evolve(GOOD.remains[0], pending=1),))),
    "a key of a removed shard": (
        "nobody-stranded",
        spoilt(remains=(*GOOD.remains, Remains(4, exists=True, sealed=False, mark=3))),
    ),
    "a shard that nobody looked at": ("nobody-stranded", spoilt(remains=())),
    "an end that is none": ("stopped-well", spoilt(story=({"kind": "ended", "at": 1, "who": A, "code": 1},))),
    "a shard that moved while coordinators stood still": (
        "pauses-move-nothing",
        spoilt(faults=(fault("coordinators-frozen", 45, 55),)),
    ),
    "a shard that was lost while coordinators stood still": (
        "pauses-move-nothing",
        spoilt(faults=(fault("coordinators-frozen", 35, 45),)),
    ),
}


@pytest.mark.parametrize("ledger", GOOD_ONES.values(), ids=GOOD_ONES)
def test_a_good_ledger_is_not_flagged(ledger: Ledger) -> None:
    assert {check.name: check.wrong for each in CHECKS if not (check := each(ledger)).ok} == {}


@pytest.mark.parametrize(("name", "ledger"), BAD_ONES.values(), ids=BAD_ONES)
def test_a_spoilt_ledger_is_flagged(name: str, ledger: Ledger) -> None:
    flagged = {check.name for each in CHECKS if not (check := each(ledger)).ok}

    assert name in flagged


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_has_a_ledger_that_it_flags(check: Callable[[Ledger], Check]) -> None:
    assert any(not check(ledger).ok for _, ledger in BAD_ONES.values())


def crash(blurred: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
    return {"kind": "crash", "at": ms(30), "who": A, "shards": [0], "blurred": blurred}


def leave() -> dict[str, Any]:
    return {"kind": "leave", "at": ms(30), "who": A, "shards": [0], "blurred": False}


def test_a_failover_lasts_until_another_process_reads() -> None:
    assert failovers(spoilt(story=(crash(),))) == [30.0]
    assert failovers(spoilt(story=(crash(blurred=True),))) == []
    assert quick_failovers(spoilt(story=(crash(),)), BOUNDS).ok
    assert not quick_failovers(spoilt(story=(crash(),), starts=GOOD.starts[:2]), BOUNDS).ok


def test_a_handoff_lasts_from_owner_to_owner() -> None:
    late = spoilt(story=(leave(),), tenures=(GOOD.tenures[0], tenure(B, 6, 5_000, 9_000)))

    assert handoffs(spoilt(story=(leave(),))) == [10.0]
    assert quick_handoffs(spoilt(story=(leave(),)), BOUNDS).ok
    assert not quick_handoffs(late, BOUNDS).ok
    assert not quick_handoffs(spoilt(story=(leave(),), tenures=GOOD.tenures[:1]), BOUNDS).ok


def test_a_run_that_was_not_hard_is_void() -> None:
    calm = ({"kind": "phase", "at": 0, "name": "calm"}, {"kind": "phase", "at": ms(100), "name": "chaos"})

    assert list(void(spoilt(story=(*calm, crash(), leave())), ["consumer-kill"], 1, 10)) == []
    assert list(void(spoilt(story=calm), ["consumer-kill", "scale", "failover-loss"], 2, 500)) == [
        "30 records/s were published in calm: at least 500 are needed",
        "consumer-kill came 1 times: at least 2 are needed",
        "failover-loss came 0 times: at least 2 are needed",
        "scale came 0 times: at least 2 are needed",
        "failover-loss: no acknowledged write was lost",
        "no crash failovers were measured: the machine was too busy, or they did not happen",
        "no graceful handoffs were measured: the machine was too busy, or they did not happen",
    ]


def test_ids_are_pairs_in_their_order() -> None:
    found: Id = (7, 12)

    assert found < (7, 13) < (8, 0)
