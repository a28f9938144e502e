"""A shard is empty only if nothing says otherwise, and what says otherwise is told in words."""

from typing import Any

import attrs
import pytest

from streamshard.core.effects import GroupProbe, ShardProbe
from streamshard.core.ids import Generation, GroupName, RecordId, ShardIndex
from streamshard.core.proof import Verdict, judge
from streamshard.core.stream import DrainLook
from tests.unit.core.stream_bench import AUDIT, BILLING, ORDERS

EMPTY = GroupProbe(BILLING, 0, 0, RecordId("9-0"), None, None)
THEIRS = GroupName("theirs")


def probe(*groups: GroupProbe, **more: Any) -> ShardProbe:
    stated = {"exists": True, "generation": Generation(1), "sealed": False, "length": 9, **more}
    return ShardProbe(ShardIndex(5), groups=groups, **stated)


def look(group: GroupName | None, pending: int, lag: int | None, first: str | None, reason: str) -> DrainLook:
    return DrainLook(ShardIndex(5), group, pending, lag, RecordId(first) if first else None, reason)


def group(name: GroupName, **state: Any) -> GroupProbe:
    return attrs.evolve(EMPTY, name=name, **state)


@pytest.mark.parametrize(
    "seen",
    [
        probe(EMPTY),
        probe(attrs.evolve(EMPTY, lag=None), lag_known=False),
        probe(EMPTY, group(THEIRS, lag=None)),
        probe(exists=False, length=0),
    ],
)
def test_nothing_left_for_anybody_is_empty(seen: ShardProbe) -> None:
    assert judge(ORDERS, seen, (BILLING,), ()) == Verdict(None)


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (
            group(BILLING, lag=3, first_undelivered=RecordId("1712-0")),
            look(BILLING, 0, 3, "1712-0", "3 records not yet read by billing, from 1712-0"),
        ),
        (
            group(BILLING, lag=None, first_undelivered=RecordId("1712-0")),
            look(BILLING, 0, None, "1712-0", "records not yet read by billing, from 1712-0"),
        ),
        (
            group(BILLING, pending=1, oldest_pending=RecordId("1700-0")),
            look(BILLING, 1, 0, "1700-0", "1 record read and not acknowledged by billing, from 1700-0"),
        ),
        (
            group(THEIRS, pending=2, oldest_pending=RecordId("1-0")),
            look(THEIRS, 2, 0, "1-0", "foreign group theirs has 2 pending, from 1-0: "
                 "name it in ignoreForeignGroups to go on without it"),
        ),
        (
            group(THEIRS, lag=4, first_undelivered=RecordId("2-0")),
            look(THEIRS, 0, 4, "2-0", "foreign group theirs has 4 records not yet read, from 2-0: "
                 "name it in ignoreForeignGroups to go on without it"),
        ),
    ],
)  # fmt: skip
def test_what_is_left_is_said_with_its_group_count_and_first_id(left: GroupProbe, expected: DrainLook) -> None:
    groups = (left,) if left.name == BILLING else (EMPTY, left)

    assert judge(ORDERS, probe(*groups), (BILLING,), ()) == Verdict(expected)


@pytest.mark.parametrize(("lag", "word"), [(None, "unknown"), (2, "off")])
def test_a_counter_that_is_off_is_named_to_be_mended(lag: int | None, word: str) -> None:
    said = look(BILLING, 0, lag, None, f"lag of billing {word}: its counter is being set right")

    assert judge(ORDERS, probe(attrs.evolve(EMPTY, lag=lag)), (BILLING,), ()) == Verdict(said, (BILLING,))


def test_a_registered_group_that_is_missing_comes_first() -> None:
    left = group(THEIRS, pending=2, oldest_pending=RecordId("1-0"))

    verdict = judge(ORDERS, probe(left), (BILLING, AUDIT), ())

    assert verdict == Verdict(look(AUDIT, 0, None, None, "group audit is missing on orders:5"))


def test_an_ignored_foreign_group_stands_in_nobodys_way() -> None:
    left = group(THEIRS, pending=2, oldest_pending=RecordId("1-0"))

    assert judge(ORDERS, probe(EMPTY, left), (BILLING,), (THEIRS,)) == Verdict(None)


def test_a_registered_group_cannot_be_ignored() -> None:
    left = group(BILLING, pending=2, oldest_pending=RecordId("1-0"))

    assert judge(ORDERS, probe(left), (BILLING,), (BILLING,)).look is not None


@pytest.mark.parametrize("groups", [(), (group(THEIRS),)])
def test_records_without_any_group_that_counts_are_not_drained(groups: tuple[GroupProbe, ...]) -> None:
    said = look(None, 0, 9, None, "9 records on orders:5 and no group to read them: create one, or delete them")

    assert judge(ORDERS, probe(*groups), (), (THEIRS,)) == Verdict(said)
