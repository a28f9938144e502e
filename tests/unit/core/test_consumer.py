"""What a reader knows of the records it took."""

import pytest

from streamshard.core.consumer import FIRST, Ledger, Unsettled, id_order, just_above, just_below
from streamshard.core.ids import Instant, RecordId
from streamshard.core.records import Record

ONE, TWO, TEN = (Record(RecordId(text), {}) for text in ("1-0", "2-0", "10-0"))
NOW, LATER = Instant(0), Instant(100)


def seen() -> Ledger:
    """One that knows of everything pending: there is nothing."""
    ledger = Ledger()
    ledger.missed([], FIRST, None)
    return ledger


def test_ids_are_ordered_as_numbers() -> None:
    assert sorted(["10-0", "9-2", "9-10", "9"], key=lambda text: id_order(RecordId(text))) == [
        "9",
        "9-2",
        "9-10",
        "10-0",
    ]


@pytest.mark.parametrize(
    ("record", "below"), [("5-3", "5-2"), ("5-0", "4-18446744073709551615"), ("0-1", "0-0"), ("0-0", "0-0")]
)
def test_the_id_just_below(record: str, below: str) -> None:
    assert just_below(RecordId(record)) == below


def test_unknown_records_are_handed_over() -> None:
    assert Ledger().fresh([ONE, TWO], NOW) == (ONE, TWO)


def test_a_record_under_a_handler_is_not_handed_over_again() -> None:
    ledger = Ledger()
    ledger.begin(ONE)

    assert ledger.fresh([ONE, TWO], LATER) == (TWO,)
    assert ledger.due(LATER) is None


def test_an_unsettled_record_comes_again_when_it_is_due() -> None:
    ledger = Ledger()
    for record in (TEN, TWO):
        ledger.begin(record)
        ledger.end([record.id], LATER)

    assert ledger.fresh([TWO], Instant(99)) == ()
    assert ledger.fresh([TWO], LATER) == (TWO,)
    assert (ledger.due(Instant(99)), ledger.due(LATER)) == (None, TWO.id)


def test_deliveries_count_on_from_what_the_claim_said() -> None:
    ledger = Ledger()
    claimed = Record(RecordId("1-0"), {}, deliveries=3)

    assert [ledger.begin(claimed), ledger.begin(claimed)] == [3, 4]
    assert ledger.unsettled == {"1-0": Unsettled(4, None)}


def test_what_is_settled_does_not_come_again() -> None:
    ledger = Ledger()
    ledger.begin(ONE)
    ledger.settle([ONE.id])
    ledger.end([ONE.id], LATER)

    assert (ledger.pending, ledger.due(LATER), ledger.last_acked) == (0, None, "1-0")


def test_the_last_acknowledged_is_the_highest() -> None:
    ledger = Ledger()
    ledger.settle([TEN.id, TWO.id])

    assert ledger.last_acked == "10-0"


def test_the_floor_is_just_below_the_lowest_unsettled_record() -> None:
    ledger = seen()
    assert ledger.floor(None) is None
    assert ledger.floor(TEN.id) == "10-0"

    ledger.begin(TEN)
    ledger.begin(TWO)

    assert ledger.floor(TEN.id) == just_below(TWO.id)


def test_the_floor_is_below_what_is_in_hand() -> None:
    assert [seen().floor(TEN.id, record.id) for record in (ONE, TEN)] == [just_below(ONE.id), just_below(TEN.id)]


def test_the_floor_is_below_what_may_be_pending_unseen() -> None:
    ledger = Ledger()
    assert (ledger.floor(TEN.id), ledger.clear) == (FIRST, False)

    ledger.missed([ONE], FIRST, TWO.id)
    assert (ledger.floor(TEN.id), ledger.clear) == (just_below(TWO.id), False)

    ledger.missed([], TEN.id, None)
    assert ledger.floor(TEN.id) == just_below(TWO.id)

    ledger.missed([], TWO.id, None)
    assert (ledger.floor(TEN.id), ledger.clear) == (TEN.id, True)


def test_what_may_have_been_delivered_in_a_lost_answer_does_not_lower_the_floor() -> None:
    ledger = seen()
    ledger.lose_sight(just_above(TWO.id))
    ledger.lose_sight(TEN.id)

    assert (ledger.floor(TWO.id), ledger.floor(TEN.id)) == (TWO.id, TWO.id)


def test_what_a_claimed_page_should_have_held_was_settled_unseen() -> None:
    ledger = Ledger()
    for record in (ONE, TWO, TEN):
        ledger.begin(record)
        ledger.end([record.id], LATER)

    ledger.missed([ONE], ONE.id, TEN.id)
    assert list(ledger.unsettled) == ["1-0", "10-0"]

    ledger.missed([], TWO.id, None)
    assert list(ledger.unsettled) == ["1-0"]


def test_a_record_that_somebody_else_settled_is_forgotten() -> None:
    ledger = Ledger()
    ledger.begin(ONE)
    ledger.begin(TWO)

    ledger.forget([ONE.id, TEN.id])

    assert (list(ledger.unsettled), ledger.last_acked) == ([TWO.id], None)
