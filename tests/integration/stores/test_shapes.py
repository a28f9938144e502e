"""Shapes: what came later is stored only where it says something, and reads as its default where it is not."""

from collections.abc import Hashable, Mapping
from typing import cast

import attrs
import pytest

from streamshard.adapters.stores.shapes import Malformed, Newer, Shape, shape_of
from streamshard.core.group import Quarantine


@attrs.frozen
class Leaf:
    name: str
    weight: int = 0
    words: tuple[str, ...] = attrs.field(factory=tuple)


@attrs.frozen
class Tree:
    name: str
    first: Leaf
    more: tuple[Leaf, ...]
    named: Mapping[str, Leaf]
    spare: Leaf | None


def shape(kind: type[object]) -> Shape:
    return shape_of(cast(Hashable, kind))


PLAIN = Leaf("a")
NEW = Leaf("a", 7, ("x",))


@pytest.mark.parametrize(
    ("leaf", "stored"),
    [(PLAIN, {"name": "a"}), (NEW, {"name": "a", "weight": 7, "words": ["x"]})],
)
def test_a_field_with_a_default_is_stored_only_if_it_says_something_else(leaf: Leaf, stored: object) -> None:
    assert shape(Leaf).dump(leaf) == stored
    assert shape(Leaf).load(stored) == leaf


def test_a_default_that_is_stored_all_the_same_is_read() -> None:
    assert shape(Leaf).load({"name": "a", "weight": 0, "words": []}) == PLAIN


@pytest.mark.parametrize(
    ("tree", "later"),
    [
        (Tree("t", PLAIN, (PLAIN,), {"k": PLAIN}, PLAIN), False),
        (Tree("t", PLAIN, (), {}, None), False),
        (Tree("t", NEW, (), {}, None), True),
        (Tree("t", PLAIN, (PLAIN, NEW), {}, None), True),
        (Tree("t", PLAIN, (), {"k": NEW}, None), True),
        (Tree("t", PLAIN, (), {}, NEW), True),
    ],
)
def test_a_record_tells_whether_anything_within_it_came_later(tree: Tree, later: bool) -> None:  # noqa: FBT001
    told = shape(Tree).later

    assert told is not None
    assert told(tree) is later


def test_a_record_whose_every_field_was_there_from_the_first_is_never_looked_through() -> None:
    assert shape(Quarantine).later is None


@pytest.mark.parametrize(
    ("stored", "error", "why"),
    [
        ({}, Malformed, "name: missing"),
        ({"name": "a", "weight": None}, Malformed, "weight: not a whole number"),
        ({"name": "a", "colour": 1}, Newer, "colour: a field that this version does not know"),
    ],
)
def test_what_is_missing_wrong_or_unknown_is_told_by_its_name(stored: object, error: type[Malformed], why: str) -> None:
    with pytest.raises(Malformed) as caught:
        shape(Leaf).load(stored)

    assert (type(caught.value), str(caught.value)[: len(why)]) == (error, why)
