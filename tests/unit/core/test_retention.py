"""Which shards are trimmed when, and what forbids it."""

import attrs
import pytest

from streamshard.core.effects import Trim, Trimmed, TrimVerdict
from streamshard.core.ids import Generation, GroupName, Instant, LayoutVersion, Millis, ShardIndex
from streamshard.core.retention import RECORDS_A_TRIM, SHARDS_A_ROUND, Doubt, TrimSight, doubt, trims
from streamshard.core.stream import EntryState, Retention, Shard, ShardPhase, StreamRecord, StreamState
from streamshard.core.stream_shape import with_shards
from tests.unit.core.stream_bench import AUDIT, BILLING, ORDERS, Shop, create, opened, retain, scale

EVERY = Millis(10_000)
NOBODY = GroupName("nobody")


def kept(count: int = 2, *groups: str) -> StreamRecord:
    """A stream in use whose acknowledged records go."""
    shop, _ = opened(count, *groups)
    shop.do(retain())
    return shop.record


def due(record: StreamRecord, sight: TrimSight, now: int, *doubtful: int) -> list[int]:
    wanted = trims(record, sight, [ShardIndex(shard) for shard in doubtful], Instant(now), EVERY)
    return [order.shard for order in wanted]


def answered(sight: TrimSight, record: StreamRecord, at: int, answer: Trimmed) -> None:
    for order in trims(record, sight, (), Instant(at), EVERY):
        sight.hear(order, answer, Instant(at))


def test_every_open_shard_is_looked_at_with_all_registered_groups_named() -> None:
    record = kept(2, "billing", "audit")

    orders = trims(record, TrimSight(), (), Instant(0), EVERY)

    assert orders == tuple(
        Trim(ORDERS, ShardIndex(shard), Generation(1), record.layout_version, (AUDIT, BILLING), RECORDS_A_TRIM)
        for shard in (0, 1)
    )


def test_a_stream_that_keeps_everything_is_only_counted() -> None:
    shop, _ = opened(1)

    (order,) = trims(shop.record, TrimSight(), (), Instant(0), EVERY)

    assert (shop.record.retention, order.limit) == (Retention.NONE, 0)


def test_a_shard_is_looked_at_again_only_after_a_while() -> None:
    record, sight = kept(2), TrimSight()
    answered(sight, record, 100, Trimmed(TrimVerdict.DONE))

    assert [due(record, sight, now) for now in (100, 10_099, 10_100)] == [[], [], [0, 1]]


def test_where_as_much_went_as_could_the_next_round_goes_on() -> None:
    record, sight = kept(1), TrimSight()

    answered(sight, record, 100, Trimmed(TrimVerdict.DONE, removed=RECORDS_A_TRIM - 60))
    still = due(record, sight, 101)
    answered(sight, record, 101, Trimmed(TrimVerdict.DONE, removed=10))

    assert (still, due(record, sight, 102)) == ([0], [])


def test_a_round_is_bounded_and_begins_with_what_waited_longest() -> None:
    more = [Shard(ShardIndex(n), Generation(1), ShardPhase.OPEN) for n in range(1, SHARDS_A_ROUND + 10)]
    record, sight = with_shards(kept(1), more), TrimSight()

    first = due(record, sight, 0)
    answered(sight, record, 0, Trimmed(TrimVerdict.DONE))
    second = due(record, sight, 1)
    answered(sight, record, 1, Trimmed(TrimVerdict.DONE))

    assert (first, second) == (list(range(SHARDS_A_ROUND)), list(range(SHARDS_A_ROUND, SHARDS_A_ROUND + 10)))
    assert due(record, sight, 10_001) == first


def test_a_group_that_is_new_is_looked_at_without_delay() -> None:
    sight, before, after = TrimSight(), kept(1), kept(1, "billing", "audit")
    sight.observe(before)
    answered(sight, before, 0, Trimmed(TrimVerdict.DONE))

    sight.observe(before)
    same = due(before, sight, 1)
    sight.observe(after)

    assert (same, due(after, sight, 1)) == ([], [0])


@pytest.mark.parametrize("phase", [phase for phase in ShardPhase if phase is not ShardPhase.OPEN])
def test_only_open_shards_are_trimmed(phase: ShardPhase) -> None:
    record = kept(2)
    changed = with_shards(record, [attrs.evolve(record.shards[ShardIndex(1)], phase=phase)])

    assert due(changed, TrimSight(), 0) == [0]


def test_shards_that_a_scale_in_removes_are_left_alone() -> None:
    shop, _ = opened(3)
    shop.do(retain())
    shop.do(scale(1))

    assert due(shop.record, TrimSight(), 0) == [0]


def test_a_shard_whose_fence_knows_more_than_the_record_is_left_alone() -> None:
    assert due(kept(3), TrimSight(), 0, 1) == [0, 2]


def test_the_group_that_holds_a_shard_back_is_remembered_as_last_seen() -> None:
    record, sight = kept(1), TrimSight()

    answered(sight, record, 0, Trimmed(TrimVerdict.DONE, holder=NOBODY))
    seen = dict(sight.holders)
    answered(sight, record, 20_000, Trimmed(TrimVerdict.MISSING))

    assert (seen, sight.holders) == ({ShardIndex(0): NOBODY}, {})


def test_nothing_stands_against_a_stream_whose_groups_are_all_sound() -> None:
    assert doubt(kept(1, "billing", "audit"), [BILLING, AUDIT]) is None


@pytest.mark.parametrize("state", [EntryState.CREATING, EntryState.REMOVING])
def test_a_group_in_the_making_or_going_forbids_it(state: EntryState) -> None:
    record = kept(1, "billing", "audit")
    groups = {**record.groups, AUDIT: attrs.evolve(record.groups[AUDIT], state=state)}

    assert doubt(attrs.evolve(record, groups=groups), [BILLING, AUDIT]) is Doubt.UNSETTLED


@pytest.mark.parametrize("state", [StreamState.CREATING, StreamState.REMOVING])
def test_a_stream_in_the_making_or_going_is_not_touched(state: StreamState) -> None:
    assert doubt(attrs.evolve(kept(1), state=state), [BILLING]) is Doubt.UNSETTLED


def test_a_stream_without_groups_is_not_touched() -> None:
    assert doubt(attrs.evolve(kept(1), groups={}), []) is Doubt.NOBODY


def test_one_group_in_doubt_keeps_the_records_of_all() -> None:
    assert doubt(kept(1, "billing", "audit"), [BILLING]) is Doubt.GROUP


def test_the_retention_is_changed_in_use_without_a_new_layout() -> None:
    shop, _ = opened(1)
    before = shop.record

    shop.do(retain())

    after = shop.record
    assert (after.retention, after.layout_version) == (Retention.ACKNOWLEDGED, before.layout_version)
    assert after.version.revision == before.version.revision + 1
    assert [event.text for event in after.events if event.kind == "retention"] == ["none -> acknowledged"]


def test_what_is_so_already_is_not_written_again() -> None:
    shop, _ = opened(1)

    assert shop.do(retain(Retention.NONE)).changed is False


def test_a_stream_can_be_created_with_a_retention() -> None:
    shop = Shop()

    shop.do(attrs.evolve(create(1), retention=Retention.ACKNOWLEDGED))

    assert shop.record.retention is Retention.ACKNOWLEDGED


def test_a_create_that_is_repeated_with_another_retention_is_another_create() -> None:
    shop = Shop()
    shop.do(create(1))

    outcome = shop.do(attrs.evolve(create(1), retention=Retention.ACKNOWLEDGED))

    assert outcome.refusal is not None
    assert shop.record.retention is Retention.NONE


def test_an_order_names_the_layout_it_was_decided_under() -> None:
    record = attrs.evolve(kept(1), layout_version=LayoutVersion(7))

    (order,) = trims(record, TrimSight(), (), Instant(0), EVERY)

    assert order.layout == LayoutVersion(7)
