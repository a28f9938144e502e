"""Questions about a stream's record."""

import pytest

from streamshard.core.ids import ShardIndex
from streamshard.core.stream import ShardPhase
from streamshard.core.stream_events import Undo
from streamshard.core.stream_shape import (
    goal_count,
    grows,
    in_phase,
    is_drained,
    is_undone,
    key_names,
    readable,
    registered,
    restoring,
    scope,
    taking_back,
    with_shards,
)
from tests.unit.core.stream_bench import BILLING, ORDERS, Shop, create, drop_group, opened, rollback, scale


def test_a_group_that_is_being_deleted_is_not_registered() -> None:
    shop, _ = opened(1, "billing", "audit")
    shop.do(drop_group("audit"))

    assert registered(shop.record) == (BILLING,)


def test_a_removed_shard_is_read_until_it_is_sealed() -> None:
    shop, _ = opened(2)
    shop.do(scale(1))

    assert [shard.index for shard in readable(shop.record)] == [0, 1]
    assert [shard.index for shard in in_phase(shop.record, ShardPhase.DRAINING)] == [1]


@pytest.mark.parametrize(("target", "goal", "grown", "inside"), [(3, 3, True, range(2, 3)), (1, 1, False, range(1, 2))])
def test_the_goal_is_the_count_asked_for(target: int, goal: int, *, grown: bool, inside: range) -> None:
    shop, _ = opened(2)
    resharding = shop.do(scale(target)).resharding

    assert resharding is not None
    assert (goal_count(shop.record), grows(resharding), scope(resharding)) == (goal, grown, inside)


def test_the_goal_of_a_rollback_is_the_count_before() -> None:
    shop, _ = opened(2)
    before = goal_count(shop.record)
    shop.do(scale(1))
    shop.do(rollback())

    assert (before, goal_count(shop.record), taking_back(shop.record)) == (2, 2, True)


def test_only_the_rollback_of_a_scale_in_restores_shards() -> None:
    shop, _ = opened(2)
    shop.do(scale(1))
    going = restoring(shop.record), is_drained(shop.record, shop.shard(1))
    shop.do(rollback())

    assert going == (range(0), True)
    assert (restoring(shop.record), is_drained(shop.record, shop.shard(1))) == (range(1, 2), False)


def test_a_shard_in_preparation_is_undone_with_its_stream_or_its_resharding() -> None:
    unfinished = Shop()
    unfinished.do(create(1))
    wanted = is_undone(unfinished.record, unfinished.shard(0))
    unfinished.do(Undo(ORDERS))
    scaled, _ = opened(1)
    scaled.do(scale(2))
    preparing = is_undone(scaled.record, scaled.shard(1))
    scaled.do(rollback())

    assert (wanted, preparing) == (False, False)
    assert is_undone(unfinished.record, unfinished.shard(0))
    assert is_undone(scaled.record, scaled.shard(1))
    assert not is_undone(scaled.record, scaled.shard(0))


def test_a_record_without_changes_is_the_same_record() -> None:
    shop, _ = opened(1)

    assert with_shards(shop.record, []) is shop.record


def test_keys_are_named_as_redis_names_them() -> None:
    shop, _ = opened(2)

    assert key_names(shop.record, [ShardIndex(0), ShardIndex(1)]) == "orders:0, orders:1"
