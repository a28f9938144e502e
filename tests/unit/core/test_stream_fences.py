"""Marks in Redis against the record: next lives, and lost writes."""

import pytest

from streamshard.adapters.streams.memory_world import Fence
from streamshard.core.ids import Generation, LayoutVersion, ShardIndex
from streamshard.core.stream import FenceMark, Shard, ShardPhase, StreamState
from streamshard.core.stream_events import FencesSeen, StreamCommand, Undo
from streamshard.core.stream_fences import fences_wanted, highest_layout, next_generation
from tests.unit.core.stream_bench import (
    ORDERS,
    Desk,
    Shop,
    add_group,
    create,
    drop_stream,
    opened,
    rollback,
    run,
    scale,
)


def mark(index: int, generation: int | None, *, sealed: bool = False, layout: int = 1) -> FenceMark:
    life = None if generation is None else Generation(generation)
    return FenceMark(ShardIndex(index), not sealed, life, sealed, LayoutVersion(layout), {})


@pytest.mark.parametrize(
    ("command", "shards"),
    [
        (create(3), (0, 1, 2)),
        (add_group("billing", 1), (0,)),
        (add_group("billing"), (0, 1)),
        (create(10**9), ()),
        (scale(2), ()),
        (Undo(ORDERS), ()),
    ],
)
def test_a_create_needs_the_fences_where_it_will_make_keys(command: StreamCommand, shards: tuple[int, ...]) -> None:
    assert fences_wanted(None, command, 2) == shards


@pytest.mark.parametrize(("command", "shards"), [(scale(4), (2, 3)), (scale(1), ()), (add_group("audit"), ())])
def test_a_scale_needs_the_fences_of_what_it_adds(command: StreamCommand, shards: tuple[int, ...]) -> None:
    shop, _ = opened(2)

    assert fences_wanted(shop.record, command, 2) == shards


def test_the_next_life_is_above_the_record_and_the_fence() -> None:
    assert next_generation(None, None) == 1
    assert next_generation(Generation(3), mark(0, 2)) == 4
    assert next_generation(Generation(3), mark(0, 7)) == 8
    assert next_generation(None, mark(0, None)) == 1


def test_fences_that_were_never_raised_know_no_layout() -> None:
    assert highest_layout([]) == 0
    assert highest_layout([mark(0, 1, layout=4), mark(1, 1, layout=9)]) == 9


def test_marks_at_or_below_the_record_prove_nothing() -> None:
    shop, _ = opened(2)
    marks = run(shop.backend.read_fences(ORDERS, [ShardIndex(0), ShardIndex(1), ShardIndex(9)]))

    outcome = shop.do(FencesSeen((*marks, mark(0, None))))

    assert (outcome.changed, outcome.discontinuity) == (False, None)


def test_a_later_life_on_the_fence_is_caught_up_with_in_a_new_lineage() -> None:
    shop, _ = opened(1)
    before = shop.record

    outcome = shop.do(FencesSeen((mark(0, 3, layout=9),)))

    assert outcome.discontinuity is not None
    assert shop.record.lineage != before.lineage
    assert shop.record.version.revision == before.version.revision + 1
    assert shop.record.ring == (shop.record.version.nonce,)
    assert (shop.phases, shop.generations, shop.record.layout_version) == ("O", [3], 10)


def test_a_layout_above_the_record_is_proof_enough() -> None:
    shop, _ = opened(1)

    outcome = shop.do(FencesSeen((mark(0, 1, layout=9),)))

    assert outcome.discontinuity is not None
    assert (shop.generations, shop.record.layout_version) == ([1], 10)


@pytest.mark.parametrize("generation", [1, 3])
def test_an_open_shard_that_is_sealed_is_made_anew(generation: int) -> None:
    shop, _ = opened(1)

    outcome = shop.do(FencesSeen((mark(0, generation, sealed=True),)))

    assert outcome.discontinuity is not None
    assert (shop.phases, shop.generations) == ("P", [generation + 1])


def test_another_store_starts_a_new_lineage() -> None:
    shop, _ = opened(1)
    shop.store = "store-2"

    outcome = shop.do(FencesSeen(()))

    assert outcome.discontinuity is not None
    assert shop.record.store == "store-2"


def test_a_seal_of_a_removed_shard_that_nobody_recorded_is_no_loss() -> None:
    shop, _ = opened(2)
    shop.do(scale(1))

    outcome = shop.do(FencesSeen((mark(1, 1, sealed=True),)))

    assert (outcome.discontinuity, shop.phases) == (None, "OS")


def test_a_shard_in_preparation_skips_lives_that_the_fence_has_seen() -> None:
    shop, _ = opened(1)
    shop.do(scale(2))

    shop.do(FencesSeen((mark(1, 4),)))

    assert (shop.phases, shop.generations) == ("OP", [1, 5])


def test_a_shard_that_is_taken_back_is_not_ours_in_a_later_life() -> None:
    shop, _ = opened(1)
    shop.do(scale(2))
    shop.do(rollback())

    shop.do(FencesSeen((mark(1, 4),)))

    assert (shop.phases, shop.generations) == ("OS", [1, 4])


@pytest.mark.parametrize(("sealed", "phases"), [(True, "OS"), (False, "OD")])
def test_a_retired_shard_follows_a_life_that_the_store_forgot(phases: str, *, sealed: bool) -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    desk.tick(8)
    shop.groups()

    shop.do(FencesSeen((mark(1, 2, sealed=sealed),)))

    assert (shop.phases, shop.generations) == (phases, [1, 2])


def test_a_store_that_forgot_a_scale_in_makes_the_shards_anew() -> None:
    shop, desk = opened(2)
    before = shop.record
    shop.do(scale(1))
    desk.tick(8)
    shop.stored = before

    shop.do(FencesSeen(run(shop.backend.read_fences(ORDERS, list(before.shards)))))
    Desk(shop).work()

    assert (shop.phases, shop.generations, shop.keys()) == ("OO", [1, 2], ["orders:0", "orders:1"])


def test_a_provision_that_the_fence_refuses_is_cured_by_reading_it() -> None:
    shop = Shop()
    shop.do(create(1))
    shop.world.fences["orders:0"] = Fence(Generation(6), layout=LayoutVersion(40))

    Desk(shop).work()

    assert (shop.record.state, shop.generations) == (StreamState.ACTIVE, [7])
    assert shop.record.layout_version > 40


def test_a_deleted_stream_hears_nothing() -> None:
    shop, _ = opened(1)
    shop.do(drop_stream())

    assert shop.do(FencesSeen((mark(0, 9),))).changed is False


def test_a_marked_key_that_the_record_never_knew_is_drained_in_a_new_lineage() -> None:
    shop, _ = opened(2)

    outcome = shop.do(FencesSeen((mark(2, 1), mark(3, 1, sealed=True), mark(4, None))))

    assert outcome.discontinuity == "shard 2 exists and the store does not know of it: it has lost writes"
    assert {s.index: s.phase for s in shop.record.shards.values()} == {
        0: ShardPhase.OPEN,
        1: ShardPhase.OPEN,
        2: ShardPhase.DRAINING,
        3: ShardPhase.SEALED,
    }


def test_marks_of_retired_shards_alone_prove_no_lost_write() -> None:
    shop, _ = opened(2)

    outcome = shop.do(FencesSeen((mark(2, 3, sealed=True),)))

    assert outcome.discontinuity is None
    assert shop.record.shards[ShardIndex(2)] == Shard(ShardIndex(2), Generation(3), ShardPhase.SEALED)
