"""What a look into a shard says, and what it can't say."""

from typing import Any

import attrs

from streamshard.core.ids import RecordId, ShardIndex
from streamshard.core.inspection import GroupLook, ShardLook, milliseconds

NOW = 1_700_000_000_000
ID = RecordId(f"{NOW - 1_500}-3")
OLD = RecordId(f"{NOW - 9_000}-0")
EMPTY = GroupLook(RecordId("0-0"), 0, 0, None, None)


def look(**group: Any) -> ShardLook:
    return ShardLook(ShardIndex(0), exists=True, group=attrs.evolve(EMPTY, **group), now_ms=NOW)


def test_a_shard_with_nothing_left_is_zero_whatever_the_counter_says() -> None:
    seen = look(lag=5)

    assert (seen.lag, seen.pending, seen.waiting, seen.oldest_unacked_ms) == (0, 0, 0, 0)


def test_a_counter_that_was_lost_is_unknown_and_still_one_record_waits() -> None:
    assert [(s.lag, s.waiting) for s in (look(lag=None, first_undelivered=ID), look(lag=0, first_undelivered=ID))] == [
        (None, 1),
        (None, 1),
    ]


def test_the_oldest_of_pending_and_undelivered_counts() -> None:
    seen = look(lag=2, pending=1, oldest_pending=OLD, first_undelivered=ID)

    assert (seen.lag, seen.pending, seen.waiting, seen.oldest_unacked_ms) == (2, 1, 3, 9_000)


def test_a_record_from_the_future_has_no_age() -> None:
    assert look(first_undelivered=RecordId(f"{NOW + 5}-0")).oldest_unacked_ms == 0


def test_an_id_that_no_clock_made_has_an_unknown_age() -> None:
    assert look(pending=1, oldest_pending=RecordId("7-0")).oldest_unacked_ms is None


def test_without_the_group_or_the_servers_clock_nobody_can_tell() -> None:
    nobody = ShardLook(ShardIndex(0), exists=False, now_ms=NOW)

    assert (nobody.lag, nobody.pending, nobody.waiting, nobody.oldest_unacked_ms) == (None, None, 0, None)
    assert attrs.evolve(look(), now_ms=None).oldest_unacked_ms is None


def test_an_id_says_its_time() -> None:
    assert milliseconds(ID) == NOW - 1_500
