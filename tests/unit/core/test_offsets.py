"""Sums that don't hide what is unknown, and advice for autoscalers."""

import attrs
import pytest

from streamshard.core.group import Row, ShardProgress
from streamshard.core.ids import Millis, Nonce, RecordId, Seq, ShardIndex
from streamshard.core.inspection import GroupLook, ShardLook
from streamshard.core.offsets import Advice, Offsets, advise, offsets
from streamshard.core.queries import GroupView
from tests.unit.core.builders import A1, S0, S1, A, group, holding, member
from tests.unit.core.stream_bench import opened

NOW = 1_700_000_000_000
FIRST = RecordId(f"{NOW - 100}-0")


def look(shard: ShardIndex, waiting: int, pending: int = 0) -> ShardLook:
    seen = GroupLook(RecordId("1-0"), pending, waiting, FIRST if pending else None, FIRST if waiting else None)
    return ShardLook(shard, True, waiting + pending, group=seen, memory_bytes=10, now_ms=NOW)


def a_view() -> GroupView:
    progress = ShardProgress(S0, RecordId("5-0"))
    row = Row(A1, Seq(1), Nonce("m"), Millis(15_000), progress=(progress,))
    return GroupView(opened(2)[0].record, group(member(A, A1), holdings={S0: holding(A, A1)}), {A1: row})


def found(*looks: ShardLook) -> Offsets:
    return offsets(a_view(), looks)


def test_what_redis_shows_stands_beside_what_the_owner_reports() -> None:
    owned, free = found(look(S0, 1), look(S1, 2)).shards

    assert (owned.owner, owned.progress) == (A, ShardProgress(S0, RecordId("5-0")))
    assert (free.owner, free.progress) == (None, None)


def test_sums_are_over_all_shards() -> None:
    seen = found(look(S0, 3, 1), look(S1, 2))

    assert (seen.length, seen.pending, seen.lag, seen.memory_bytes) == (6, 1, 5, 20)
    assert (seen.backlog, seen.oldest_unacked_ms) == (6, 100)


def test_one_unknown_makes_a_sum_unknown_and_the_backlog_a_lower_bound() -> None:
    lost = attrs.evolve(look(S1, 2), group=GroupLook(RecordId("1-0"), 0, None, None, FIRST), memory_bytes=None)

    seen = found(look(S0, 3), lost)

    assert (seen.lag, seen.memory_bytes, seen.pending) == (None, None, 0)
    assert seen.backlog == 4


def test_a_missing_shard_makes_everything_unknown() -> None:
    seen = found(look(S0, 3), ShardLook(S1, exists=False))

    assert (seen.length, seen.pending, seen.lag, seen.oldest_unacked_ms) == (None, None, None, None)


def test_no_shards_are_no_backlog() -> None:
    seen = found()

    assert (seen.length, seen.pending, seen.lag, seen.oldest_unacked_ms, seen.backlog) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(("waiting", "per_replica", "suggested"), [(0, 10, 0), (1, 10, 1), (11, 10, 2), (999, 10, 2)])
def test_as_many_members_as_there_is_work_for_and_never_more_than_shards(
    waiting: int, per_replica: int, suggested: int
) -> None:
    advice = advise(found(look(S0, waiting), look(S1, 0)), per_replica)

    assert advice == Advice(waiting, waiting, 0, 2, suggested)
