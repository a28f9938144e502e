"""What may happen between two states of a group, in one commit and in many."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from streamshard.core.group import GroupRecord, Holding, MemberState, Quarantine
from streamshard.core.ids import (
    LINEAGES_KEPT,
    Epoch,
    Generation,
    LayoutVersion,
    Lineage,
    Millis,
    Nonce,
    Seq,
    Token,
    Version,
    WallMillis,
    next_version,
)
from streamshard.core.invariants import (
    group_step_violations,
)
from tests.unit.core.builders import A1, A2, B1, LEASE, S0, S1, VERSION, WALL, A, B, group, holding, member

END = WallMillis(WALL)
GONE = member(B, B1, 3, state=MemberState.EXPIRED, ended_at=END)
NEXT = next_version(VERSION, Nonce("second"))
LATER = Version(VERSION.lineage, 9, Nonce("ninth"))
BORN = Version(Lineage("newborn"), 2, Nonce("born"))
HELD = holding(A, A1, 10)


def sound(**given: Any) -> GroupRecord:
    """a has both shards and holds the first."""
    fields: dict[str, Any] = {"holdings": {S0: HELD}, "targets": {S0: A, S1: A}, **given}
    return group(member(A, A1), GONE, **fields)


def stepped(before: GroupRecord, after: GroupRecord) -> tuple[str, ...]:
    return group_step_violations(before, after)


def direct(**given: Any) -> GroupRecord:
    """The next version of the sound record, with these differences."""
    fields: dict[str, Any] = {"version": NEXT, "ring": (VERSION.nonce, NEXT.nonce), "metadata_version": 2, **given}
    return sound(**fields)


def test_the_same_record_again_violates_nothing() -> None:
    assert stepped(sound(), sound()) == ()


def test_a_sound_step_violates_nothing() -> None:
    assert stepped(sound(), direct(group_epoch=Epoch(4), last_tokens={S0: Token(11)})) == ()


@pytest.mark.parametrize(
    ("field", "value", "violation"),
    [
        ("metadata_version", 6, "metadata version ran backwards, from 7 to 6"),
        ("group_epoch", Epoch(2), "group epoch ran backwards, from 3 to 2"),
        ("assignment_epoch", Epoch(2), "assignment epoch ran backwards, from 3 to 2"),
        ("layout_version", LayoutVersion(0), "layout version ran backwards, from 1 to 0"),
        ("last_tokens", {S0: Token(9)}, "the last token of shard 0 ran backwards, from 10"),
        ("last_tokens", {}, "the last token of shard 0 ran backwards, from 10"),
        ("longest_leases", {A1: Millis(1), B1: LEASE}, "the longest lease of instance a1 shrank, from 15000 ms"),
    ],
)
def test_a_number_that_runs_backwards_is_named(field: str, value: object, violation: str) -> None:
    after: dict[str, Any] = {"version": LATER, "metadata_version": 8, field: value}

    assert stepped(sound(metadata_version=7), sound(**after)) == (violation,)


def test_a_revision_that_runs_backwards_is_named() -> None:
    assert stepped(sound(version=LATER), sound()) == ("revision ran backwards, from 9 to 1",)


def test_a_revision_that_two_states_share_is_named() -> None:
    other = sound(version=attrs.evolve(VERSION, nonce=Nonce("fork")))

    assert stepped(sound(), other) == ("revision 1 was given to two states",)


def test_a_change_without_a_new_metadata_version_is_named() -> None:
    after = sound(version=LATER, holdings={})

    assert stepped(sound(), attrs.evolve(after, last_tokens={S0: Token(10)})) == (
        "members, targets or holdings changed within metadata version 1",
    )


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(member(A, A1, 3), id="the same instance in another epoch"),
        pytest.param(member(A, A2, 2), id="another instance in the same epoch"),
        pytest.param(member(A, A2, 1), id="another instance in an earlier epoch"),
    ],
)
def test_an_epoch_that_does_not_fit_its_instance_is_named(now: Any) -> None:
    after = sound(version=LATER, metadata_version=8, members={A: now, B: GONE})

    assert stepped(sound(), after) == (f"member a went from epoch 2 to {now.epoch} against its instance",)


def test_a_name_that_changes_hands_is_in_a_later_epoch() -> None:
    after = sound(version=LATER, metadata_version=8, members={A: member(A, A2, 4), B: GONE}, group_epoch=Epoch(4))

    assert stepped(sound(), after) == ()


def test_a_new_lineage_may_know_less() -> None:
    after = group(version=attrs.evolve(BORN, revision=5), past_lineages=(VERSION.lineage,))

    assert stepped(sound(metadata_version=99), after) == ()


def test_a_new_lineage_that_forgets_the_old_is_named() -> None:
    before = sound(past_lineages=(Lineage("old"),))
    after = group(version=attrs.evolve(BORN, revision=5), past_lineages=(Lineage("old"),))

    assert stepped(before, after) == ("lineage newborn does not remember lineage and those before it",)


def test_a_new_lineage_whose_memory_is_full_may_have_forgotten_the_oldest() -> None:
    past = tuple(Lineage(f"l{number}") for number in range(LINEAGES_KEPT - 1))
    before = sound(past_lineages=(Lineage("oldest"), *past))
    after = group(version=attrs.evolve(BORN, revision=5), past_lineages=(*past, VERSION.lineage))

    assert stepped(before, after) == ()


def begun(**given: Any) -> GroupRecord:
    fields: dict[str, Any] = {
        "version": BORN,
        "ring": (BORN.nonce,),
        "past_lineages": (VERSION.lineage,),
        "quarantine": Quarantine("lost", END),
        **given,
    }
    return sound(**fields)


def test_a_new_lineage_that_begins_in_quarantine_violates_nothing() -> None:
    assert stepped(sound(), begun()) == ()


def test_tokens_run_backwards_into_no_new_lineage_either() -> None:
    assert stepped(sound(), begun(holdings={}, last_tokens={})) == ("the last token of shard 0 ran backwards, from 10",)


def to(held: Holding | None, last: int, *, quarantined: bool = False) -> tuple[str, ...]:
    """What is wrong with shard 0 going on from a1's token 10 to this in one commit."""
    quarantine = Quarantine("lost", END) if quarantined else None
    after: dict[str, Any] = {
        "holdings": {S0: held} if held is not None else {},
        "last_tokens": {S0: Token(last)},
        "longest_leases": dict.fromkeys((A1, A2, B1), LEASE),
        "quarantine": quarantine,
    }
    return stepped(sound(quarantine=quarantine), direct(**after))


def test_a_holding_may_end() -> None:
    assert to(None, 10) == ()


@pytest.mark.parametrize("flag", ["draining", "lapsed", "listed"])
def test_a_holding_may_be_further_on_its_way_out(flag: str) -> None:
    assert to(holding(A, A1, 10, **{flag: True}), 10) == ()


@pytest.mark.parametrize("flag", ["draining", "lapsed", "listed"])
def test_it_never_comes_back_from_there(flag: str) -> None:
    before = sound(holdings={S0: holding(A, A1, 10, **{flag: True})})

    assert stepped(before, direct()) == ("the holding of shard 0 under token 10 was rewritten",)


@pytest.mark.parametrize(
    "changed",
    [{"generation": Generation(0)}, {"floor": Token(9)}, {"seq": Seq(7)}, {"member": B}],
    ids=["generation", "floor", "seq", "member"],
)
def test_the_rest_of_a_holding_is_fixed(changed: Mapping[str, Any]) -> None:
    assert to(attrs.evolve(HELD, **changed), 10) == ("the holding of shard 0 under token 10 was rewritten",)


def test_a_shard_may_be_let_go_and_granted_anew_to_the_same_instance() -> None:
    assert to(holding(A, A1, 11, floor=10), 11) == ()


def test_a_shard_never_passes_to_another_instance_in_one_commit() -> None:
    assert to(holding(A, A2, 11, floor=10), 11) == ("shard 0 passed from instance a1 to a2 in one commit",)


def test_a_grant_under_a_token_that_was_out_before_is_named() -> None:
    before = sound(holdings={}, last_tokens={S0: Token(10)})

    assert stepped(before, direct()) == ("shard 0 was given to instance a1 under token 10, which is not new",)


def test_a_grant_of_a_free_shard_violates_nothing() -> None:
    assert stepped(sound(holdings={}, last_tokens={S0: Token(9)}), direct()) == ()


def test_a_grant_in_quarantine_is_named() -> None:
    assert to(holding(A, A1, 11, floor=10), 11, quarantined=True) == (
        "shard 0 was given to instance a1 under token 11, which is not new",
    )


def test_in_quarantine_a_lost_holding_is_adopted_under_whatever_token_it_had() -> None:
    assert to(holding(A, A1, 7, floor=7, draining=True, lapsed=True, listed=True), 10, quarantined=True) == ()


def test_states_that_are_further_apart_may_have_had_anything_in_between() -> None:
    after = sound(version=LATER, metadata_version=8, holdings={S0: holding(A, A2, 30)}, last_tokens={S0: Token(30)})

    assert stepped(sound(), attrs.evolve(after, longest_leases={A1: LEASE, A2: LEASE, B1: LEASE})) == ()
