"""A stream's layout is what may be read; its mappings are sorted and can't be changed."""

from typing import Any

import pytest

from streamshard.core.ids import (
    Generation,
    GroupName,
    LayoutVersion,
    Lineage,
    Nonce,
    ShardIndex,
    StreamPrefix,
    Version,
    WallMillis,
)
from streamshard.core.stream import EntryState, GroupEntry, Layout, Shard, ShardPhase, StreamRecord, StreamState


def shard(index: int, phase: ShardPhase, generation: int = 1) -> Shard:
    return Shard(ShardIndex(index), Generation(generation), phase)


def entry(name: str) -> GroupEntry:
    return GroupEntry(GroupName(name), EntryState.ACTIVE, start_from="0")


def stream(*shards: Shard, groups: tuple[GroupEntry, ...] = ()) -> StreamRecord:
    return StreamRecord(
        prefix=StreamPrefix("orders"),
        version=Version(Lineage("l1"), 1, Nonce("n1")),
        ring=(Nonce("n1"),),
        store="memory",
        mac_key="00",
        state=StreamState.ACTIVE,
        routed_count=len(shards),
        layout_version=LayoutVersion(3),
        shards={s.index: s for s in shards},
        groups={g.name: g for g in groups},
        routing_protocol="murmur3-v1",
        created_at=WallMillis(0),
    )


def test_a_layout_has_the_open_and_the_draining_shards_with_their_generations() -> None:
    record = stream(
        shard(0, ShardPhase.OPEN, generation=4),
        shard(1, ShardPhase.DRAINING, generation=2),
        shard(2, ShardPhase.SEALED),
        shard(3, ShardPhase.PREPARING),
    )

    assert record.layout() == Layout(LayoutVersion(3), {ShardIndex(0): Generation(4), ShardIndex(1): Generation(2)})


def test_shards_and_groups_are_sorted_whatever_the_order_they_came_in() -> None:
    record = stream(shard(10, ShardPhase.OPEN), shard(2, ShardPhase.OPEN), groups=(entry("shipping"), entry("billing")))

    assert list(record.shards) == [2, 10]
    assert list(record.groups) == ["billing", "shipping"]
    assert list(record.layout().shards) == [2, 10]


def test_a_record_can_not_be_changed_through_its_mappings() -> None:
    shards: Any = stream(shard(0, ShardPhase.OPEN)).shards

    with pytest.raises(TypeError):
        shards[ShardIndex(1)] = shard(1, ShardPhase.OPEN)


def test_a_record_is_of_the_lineage_of_its_version() -> None:
    assert stream().lineage == "l1"
