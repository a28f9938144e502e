"""Assignments are total, balanced, sticky and independent of order, and no other one moves fewer shards."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamshard.core.assignment import assign, fewest_moves, moves
from streamshard.core.ids import MemberId, ShardIndex
from streamshard.errors import InvalidRequest

A, B, C = MemberId("a"), MemberId("b"), MemberId("c")

Targets = dict[ShardIndex, MemberId]

names = st.integers(0, 39).map(lambda number: MemberId(f"m{number}"))
indexes = st.integers(0, 399).map(ShardIndex)
weightings = st.dictionaries(names, st.integers(1, 9), max_size=40)


def shards(count: int) -> list[ShardIndex]:
    return [ShardIndex(index) for index in range(count)]


def targets(owners: str) -> Targets:
    """``"aab"`` is shards 0 and 1 for a, shard 2 for b; a dot is a shard without an owner."""
    return {ShardIndex(index): MemberId(owner) for index, owner in enumerate(owners) if owner != "."}


def spread(assigned: Targets, members: Iterable[MemberId]) -> int:
    counts = Counter(assigned.values())
    return max(counts[m] for m in members) - min(counts[m] for m in members)


def proportional(assigned: Targets, members: list[MemberId], weights: Mapping[MemberId, int]) -> bool:
    counts = Counter(assigned.values())
    total = sum(weights.get(m, 1) for m in members)
    return all(abs(counts[m] * total - len(assigned) * weights.get(m, 1)) < total for m in members)


def every_assignment(members: list[MemberId], wanted: list[ShardIndex]) -> Iterable[Targets]:
    for owners in itertools.product(members, repeat=len(wanted)):
        yield dict(zip(wanted, owners, strict=True))


def test_nobody_is_assigned_anything_without_members() -> None:
    assert assign(targets("ab"), [], shards(2)) == {}
    assert fewest_moves(targets("ab"), [], shards(2)) == 0


def test_nothing_is_assigned_without_shards() -> None:
    assert assign(targets("ab"), [A, B], []) == {}
    assert fewest_moves(targets("ab"), [A, B], []) == 0


def test_a_first_assignment_deals_shards_in_turn() -> None:
    assert assign({}, [B, A, C], shards(8)) == targets("abcabcab")


def test_more_members_than_shards_leaves_the_last_ids_idle() -> None:
    assert assign({}, [C, B, A], shards(2)) == targets("ab")


def test_a_joining_member_takes_only_its_share_and_the_highest_indexes() -> None:
    assert assign(targets("ababab"), [A, B, C], shards(6)) == targets("ababcc")


def test_only_the_shards_of_a_member_that_left_move() -> None:
    assert assign(targets("abcabc"), [A, C], shards(6)) == targets("aacacc")


def test_an_unchanged_membership_moves_nothing() -> None:
    previous = targets("bbaccab")

    assert assign(previous, [C, A, B], shards(7)) == previous


def test_the_larger_share_stays_with_whoever_has_it() -> None:
    previous = targets("bbbaa")

    assert assign(previous, [A, B], shards(5)) == previous


def test_added_shards_go_to_whoever_has_least() -> None:
    assert assign(targets("aab"), [A, B], shards(6)) == targets("aabbab")


def test_halving_the_shards_of_a_dealt_assignment_moves_nothing() -> None:
    dealt = assign({}, [A, B, C], shards(12))

    halved = assign(dealt, [A, B, C], shards(6))

    assert moves(dealt, halved) == 0
    assert spread(halved, [A, B, C]) == 0


def test_repeated_members_and_shards_count_once() -> None:
    assert assign({}, [A, B, A], [*shards(4), *shards(4)]) == targets("abab")


def test_weights_give_proportional_shares() -> None:
    assigned = assign({}, [A, B, C], shards(12), {A: 3, B: 2})

    assert Counter(assigned.values()) == {A: 6, B: 4, C: 2}


def test_an_odd_shard_goes_to_the_largest_rest() -> None:
    assigned = assign({}, [A, B], shards(4), {A: 1, B: 2})

    assert Counter(assigned.values()) == {A: 1, B: 3}


def test_a_weight_for_somebody_else_changes_nothing() -> None:
    assert assign({}, [A, B], shards(4), {C: 100}) == targets("abab")


@pytest.mark.parametrize("weight", [0, -1])
def test_a_weight_below_one_is_refused(weight: int) -> None:
    with pytest.raises(InvalidRequest, match="weight: member 'b' has"):
        assign({}, [A, B], shards(4), {B: weight})


def test_only_shards_with_another_owner_count_as_moves() -> None:
    assert moves(targets("aab.c"), targets("ab.a")) == 1


@given(st.dictionaries(indexes, names), st.sets(names, min_size=1), st.sets(indexes))
def test_every_shard_has_a_live_target_and_the_spread_is_at_most_one(
    previous: Targets, members: set[MemberId], wanted: set[ShardIndex]
) -> None:
    assigned = assign(previous, members, wanted)

    assert list(assigned) == sorted(wanted)
    assert set(assigned.values()) <= members
    assert spread(assigned, members) <= 1


@given(st.dictionaries(indexes, names), st.sets(names, min_size=1), st.sets(indexes), weightings)
def test_weighted_counts_are_the_proportional_share_rounded_down_or_up(
    previous: Targets, members: set[MemberId], wanted: set[ShardIndex], weights: dict[MemberId, int]
) -> None:
    assigned = assign(previous, members, wanted, weights)

    assert list(assigned) == sorted(wanted)
    assert proportional(assigned, sorted(members), weights)


@given(st.dictionaries(indexes, names), st.sets(names, min_size=1), st.sets(indexes), weightings)
def test_the_moves_equal_the_lower_bound(
    previous: Targets, members: set[MemberId], wanted: set[ShardIndex], weights: dict[MemberId, int]
) -> None:
    assigned = assign(previous, members, wanted, weights)

    assert moves(previous, assigned) == fewest_moves(previous, members, wanted, weights)


@given(st.dictionaries(indexes, names), st.sets(names, min_size=1), st.sets(indexes), weightings)
def test_assigning_again_moves_nothing(
    previous: Targets, members: set[MemberId], wanted: set[ShardIndex], weights: dict[MemberId, int]
) -> None:
    assigned = assign(previous, members, wanted, weights)

    assert assign(assigned, members, wanted, weights) == assigned


@given(st.data(), st.dictionaries(indexes, names), st.lists(names, min_size=1), st.lists(indexes), weightings)
def test_the_order_of_the_arguments_does_not_matter(
    data: st.DataObject,
    previous: Targets,
    members: list[MemberId],
    wanted: list[ShardIndex],
    weights: dict[MemberId, int],
) -> None:
    shuffled = assign(
        dict(data.draw(st.permutations(list(previous.items())))),
        data.draw(st.permutations(members)),
        data.draw(st.permutations(wanted)),
        dict(data.draw(st.permutations(list(weights.items())))),
    )

    assert list(shuffled.items()) == list(assign(previous, members, wanted, weights).items())


@pytest.mark.parametrize("count", range(1, 5))
@pytest.mark.parametrize("members", [[A], [A, B], [A, B, C]])
def test_no_balanced_assignment_of_a_small_group_moves_fewer(members: list[MemberId], count: int) -> None:
    wanted = shards(count)
    balanced = [option for option in every_assignment(members, wanted) if spread(option, members) <= 1]

    for owners in itertools.product("abcx.", repeat=count):
        previous = targets("".join(owners))
        best = min(moves(previous, option) for option in balanced)
        assert moves(previous, assign(previous, members, wanted)) == best
        assert fewest_moves(previous, members, wanted) == best


@pytest.mark.parametrize("weights", [{A: 2}, {B: 3}, {A: 2, B: 3, C: 5}, {A: 9, C: 2}])
def test_no_proportional_assignment_of_a_small_group_moves_fewer(weights: dict[MemberId, int]) -> None:
    members, wanted = [A, B, C], shards(4)
    fair = [option for option in every_assignment(members, wanted) if proportional(option, members, weights)]

    for owners in itertools.product("abcx", repeat=len(wanted)):
        previous = targets("".join(owners))
        best = min(moves(previous, option) for option in fair)
        assert moves(previous, assign(previous, members, wanted, weights)) == best
        assert fewest_moves(previous, members, wanted, weights) == best


def test_ten_thousand_shards_and_a_thousand_members_are_assigned() -> None:
    members = [MemberId(f"m{number}") for number in range(1000)]
    settled = assign({}, members, shards(10_000))

    joined = assign(settled, [*members, A], shards(10_000))

    assert spread(joined, [*members, A]) == 1
    assert moves(settled, joined) == fewest_moves(settled, [*members, A], shards(10_000)) == 9
