"""What comes of a command: what an acceptance commits unless it says otherwise."""

from streamshard.core.outcome import Accepted, LostWrites, Standing, TickOutcome
from tests.unit.core.builders import A1, group, row


def test_an_acceptance_compares_no_other_rows_and_answers_in_full_unless_it_says_so() -> None:
    record, renewal = group(), row()

    assert Accepted(record, A1, renewal) == Accepted(
        record, A1, renewal, standing=Standing.PRESENT, force_row=False, refusal=None, same_rows={}
    )


def test_a_tick_compares_and_drops_no_rows_unless_it_says_so() -> None:
    record = group()

    assert TickOutcome(record) == TickOutcome(record, same_rows={}, drop_rows=())


def test_a_proof_that_names_no_lineage_gives_none_to_remember() -> None:
    assert LostWrites("a reason").lineage is None
