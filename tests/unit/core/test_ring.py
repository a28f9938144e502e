"""A hash belongs to the first point at or after it, around the circle."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamshard.core.ring import Ring, virtual_points

LAST = 2**64 - 1
hashes = st.integers(0, LAST)


@pytest.mark.parametrize(
    ("drawn", "owner"),
    [(0, 7), (100, 7), (101, 8), (2**63, 8), (2**63 + 1, 9), (LAST - 1, 9), (LAST, 7)],
)
def test_a_point_ends_its_arc(drawn: int, owner: int) -> None:
    ring = Ring([(2**63, 8), (100, 7), (LAST - 1, 9)])

    assert (ring.owner(drawn), ring.finder(int.from_bytes)(drawn.to_bytes(8))) == (owner, owner)


def test_where_points_meet_the_lowest_owner_has_the_hash() -> None:
    assert [Ring(points).owner(5) for points in ([(5, 2), (5, 1)], [(5, 1), (5, 2)])] == [1, 1]


def test_a_ring_without_points_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="a ring without points owns nothing"):
        Ring([])


@given(st.lists(st.tuples(hashes, st.integers(0, 20)), min_size=1, max_size=60), st.lists(hashes, max_size=30))
def test_cells_find_what_a_search_finds(points: list[tuple[int, int]], drawn: list[int]) -> None:
    ring, ordered = Ring(points), sorted(points)

    for wanted in [*drawn, *(point for point, _ in points), 0, LAST]:
        found = ordered[bisect_left(ordered, (wanted, -1)) % len(ordered)]
        assert ring.owner(wanted) == found[1]
        assert ring.finder(int.from_bytes)(wanted.to_bytes(8)) == found[1]


@given(st.lists(st.tuples(hashes, st.integers(0, 5)), min_size=1, max_size=30))
def test_the_shares_make_a_whole(points: list[tuple[int, int]]) -> None:
    assert sum(Ring(points).shares().values()) == pytest.approx(1)


def test_a_share_is_the_length_of_ones_arcs() -> None:
    assert Ring([(2**62, 0), (2**63, 1)]).shares() == {0: 0.75, 1: 0.25}


def test_virtual_points_are_numbered_names() -> None:
    points = virtual_points([b"a", b"b"], [2, 1], int.from_bytes)

    assert [(point.to_bytes(3), owner) for point, owner in points] == [(b"a_0", 0), (b"a_1", 0), (b"b_0", 1)]
