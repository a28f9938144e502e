"""Versions, layout versions and idempotency keys."""

import json

import attrs

from streamshard.core.admin import Amend
from streamshard.core.ids import RING_SIZE, Instant
from streamshard.core.stream_commit import KEPT_ANSWERS, KEPT_MS, find_resharding
from streamshard.core.stream_events import Undo
from streamshard.errors import IdempotencyKeyReused
from tests.unit.core.stream_bench import ORDERS, Desk, Shop, amend, create, keyed, opened, scale


def test_every_commit_has_the_next_revision_and_its_own_nonce() -> None:
    shop = Shop()
    first = shop.do(create(1)).record
    second = shop.do(Undo(ORDERS)).record

    assert first is not None
    assert second is not None
    assert (first.version.revision, second.version.revision) == (1, 2)
    assert first.version.nonce != second.version.nonce
    assert shop.record.ring == (first.version.nonce, second.version.nonce)


def test_the_ring_forgets_what_is_long_ago() -> None:
    shop, _ = opened(2)
    shop.do(scale(1))
    for number in range(RING_SIZE):
        shop.do(amend(f"g{number}"))

    assert len(shop.record.ring) == RING_SIZE


def test_what_no_shard_or_group_notices_leaves_the_layout_version() -> None:
    shop, _ = opened(2)
    shop.do(scale(1))
    layout = shop.record.layout_version

    shop.do(amend("theirs"))

    assert shop.record.layout_version == layout


def test_a_repeated_key_is_answered_alike_and_changes_nothing() -> None:
    shop, _ = opened(1)
    first = shop.do(scale(2, "r1", keyed("k")))

    again = shop.do(scale(2, "r2", keyed("k")))

    assert (again.changed, again.replayed, again.answer) == (False, True, first.answer)
    assert again.resharding == first.resharding
    assert json.loads(first.answer or "") == {
        "action": "SCALE_STREAM",
        "fromShardCount": 1,
        "reshardingId": "r1",
        "shardCount": 1,
        "toShardCount": 2,
    }


def test_a_repeated_key_is_answered_after_the_resharding_has_ended() -> None:
    shop, desk = opened(1)
    shop.do(scale(2, "r1", keyed("k")))
    desk.work()
    shop.groups()

    again = shop.do(scale(2, "r2", keyed("k")))

    assert (again.replayed, again.resharding) == (True, shop.record.history[0])


def test_a_key_stands_for_one_request() -> None:
    shop, _ = opened(1)
    shop.do(scale(2, "r1", keyed("k")))

    assert isinstance(shop.do(scale(3, "r2", keyed("k", "other"))).refusal, IdempotencyKeyReused)


def test_a_refused_request_is_not_remembered() -> None:
    shop, _ = opened(1)
    shop.do(scale(1, "r1", keyed("k")))

    assert shop.do(scale(2, "r2", keyed("k"))).refusal is None


def test_a_repeated_create_goes_on_until_the_stream_is_in_use_and_is_a_replay_then() -> None:
    shop = Shop()
    shop.do(create(1, author=keyed("k")))
    resumed = shop.do(create(1, author=keyed("k")))
    Desk(shop).work()
    replayed = shop.do(create(1, author=keyed("k")))

    assert (resumed.refusal, resumed.replayed) == (None, False)
    assert (replayed.refusal, replayed.replayed, replayed.resharding) == (None, True, None)


def test_only_young_answers_are_kept_and_not_too_many() -> None:
    shop, _ = opened(2)
    shop.do(scale(1))
    for number in range(KEPT_ANSWERS + 1):
        shop.do(add_amendment(number))
    full = [known.key for known in shop.record.idempotency]
    shop.now = Instant(shop.now + KEPT_MS)
    shop.do(add_amendment(999))

    assert full == [f"k{number}" for number in range(1, KEPT_ANSWERS + 1)]
    assert [known.key for known in shop.record.idempotency] == ["k999"]


def add_amendment(number: int) -> Amend:
    return attrs.evolve(amend(f"g{number}"), author=keyed(f"k{number}"))


def test_a_resharding_is_found_active_or_ended() -> None:
    shop, desk = opened(1)
    active = shop.do(scale(2)).resharding
    during = find_resharding(shop.record, shop.resharding.id)
    desk.work()
    shop.groups()

    assert during == active
    assert find_resharding(shop.record, shop.resharding.id) == shop.record.history[0]
    assert find_resharding(shop.record, None) is None
