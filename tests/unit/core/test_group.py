"""The group record: sorted at construction, and indexed by who holds and who is meant."""

import attrs

from streamshard.core.group import LIVE, TERMINAL, MemberState
from streamshard.core.ids import Lineage
from tests.unit.core.builders import A1, B1, S0, S1, S2, A, B, group, holding, member


def test_members_in_assignment_are_starting_or_active() -> None:
    assert {state for state in MemberState if member(state=state).live} == LIVE


def test_no_state_is_both_live_and_terminal() -> None:
    assert LIVE & TERMINAL == frozenset()


def test_the_order_in_which_a_record_was_filled_is_forgotten() -> None:
    one, two = member(A, A1), member(B, B1)
    held = {S0: holding(A, A1), S1: holding(B, B1)}
    record = group(one, two, holdings=held, targets={S0: A, S1: B})

    other = group(two, one, holdings=dict(reversed(held.items())), targets={S1: B, S0: A})

    assert repr(other) == repr(record)


def test_a_record_knows_what_an_instance_holds() -> None:
    record = group(member(A, A1), holdings={S2: holding(A, A1), S0: holding(A, A1), S1: holding(B, B1)}, shards=3)

    assert list(record.held_by(A1)) == [S0, S2]


def test_an_instance_that_is_not_known_holds_nothing() -> None:
    assert group(member(A, A1)).held_by(B1) == {}


def test_a_record_knows_what_is_meant_for_a_member() -> None:
    record = group(member(A, A1), targets={S2: A, S0: A, S1: B}, shards=3)

    assert record.meant_for(A) == (S0, S2)


def test_nothing_is_meant_for_a_name_that_is_not_known() -> None:
    assert group(member(A, A1)).meant_for(B) == ()


def test_a_changed_record_does_not_remember_the_old_ones_indexes() -> None:
    record = group(member(A, A1), holdings={S0: holding(A, A1)}, targets={S0: A})
    assert (list(record.held_by(A1)), record.meant_for(A)) == ([S0], (S0,))

    changed = attrs.evolve(record, holdings={}, targets={})

    assert (list(changed.held_by(A1)), changed.meant_for(A)) == ([], ())


def test_the_lineage_is_the_present_versions() -> None:
    assert group().lineage == Lineage("lineage")
