"""What is wanted of Redis, at which pace, and what an operator is told meanwhile."""

from streamshard.core.effects import GroupStart, MendLag, Provision, Seal
from streamshard.core.ids import GroupName, Instant, RecordId, ShardIndex
from streamshard.core.stream_events import ProbeShard, ReadFences
from streamshard.core.stream_wants import drain_looks, held_looks, mend_order
from tests.unit.core.builders import group, holding, member
from tests.unit.core.stream_bench import (
    BILLING,
    LEASE,
    PACE,
    TICK,
    Desk,
    Shop,
    create,
    drop_group,
    opened,
    rollback,
    scale,
)


def kinds(desk: Desk) -> set[str]:
    return {type(order).__name__ for order in desk.look()}


def after(shop: Shop, duration: int) -> None:
    shop.now = Instant(shop.now + duration)


def test_a_stream_at_rest_wants_nothing() -> None:
    _, desk = opened(2)

    assert desk.look() == ()


def test_a_draining_shard_is_looked_at_once_a_tick() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    before = kinds(desk)
    desk.work(1)
    soon = kinds(desk)
    after(shop, TICK)

    assert (before, soon, kinds(desk)) == ({"ProbeShard"}, set(), {"ProbeShard"})


def test_a_seal_waits_until_this_coordinator_has_seen_the_routing_for_a_lease() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    desk.look()
    begun = shop.now

    desk.until_it_would_seal()

    assert shop.now - begun == LEASE


def test_a_coordinator_that_starts_late_waits_for_its_own_lease() -> None:
    shop, first = opened(2)
    shop.do(scale(1))
    first.until_it_would_seal()
    second = Desk(shop)
    second.look()
    begun = shop.now

    second.until_it_would_seal()

    assert shop.now - begun == LEASE


def test_a_seal_waits_for_two_empty_looks_a_tick_apart() -> None:
    shop, desk = opened(2)
    shop.write(1)
    shop.do(scale(1))
    desk.tick(10)
    shop.consume(1)
    desk.tick()
    once = shop.phases
    desk.tick()

    assert (once, shop.phases) == ("OD", "OS")


def test_a_full_drain_waits_for_no_routing_lease() -> None:
    shop, desk = opened(1)
    shop.do(scale(0))
    begun = shop.now

    (seal,) = desk.until_it_would_seal()

    assert shop.now - begun < LEASE
    assert (seal.registered, seal.ignored, seal.layout) == ((BILLING,), (), shop.record.layout_version)


def test_a_seal_names_the_groups_to_be_ignored() -> None:
    shop, desk = opened(2)
    shop.do(scale(1, ignore_foreign_groups=(GroupName("theirs"),)))

    (seal,) = desk.until_it_would_seal()

    assert seal.ignored == ("theirs",)


def test_nothing_is_sealed_while_a_scale_in_is_taken_back() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    desk.until_it_would_seal()
    shop.do(rollback())

    assert kinds(desk) == {"RaiseLayout"}


def test_a_counter_that_stays_off_is_mended_and_the_shard_is_sealed() -> None:
    shop, desk = opened(2)
    shop.write(1, 3)
    shop.consume(1)
    shop.world.streams["orders:1"].groups[BILLING].entries_read = 1
    shop.do(scale(1))
    desk.work(1)
    once = [order for order in desk.look() if isinstance(order, MendLag)]
    after(shop, TICK)
    desk.work(1)
    twice = [order.group for order in desk.look() if isinstance(order, MendLag)]
    desk.tick(8)

    assert (once, twice, shop.phases) == ([], [BILLING], "OS")


def test_a_retired_shard_is_looked_at_slowly_and_not_for_ever() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    desk.tick(8)
    shop.groups()
    desk.work()
    at_once = kinds(desk)
    after(shop, PACE.retired_probe_ms)
    in_a_while = kinds(desk)
    after(shop, PACE.retired_watch_ms)

    assert (at_once, in_a_while, kinds(desk)) == (set(), {"ProbeShard"}, set())


def test_a_refused_order_gives_way_to_a_look_at_the_fence() -> None:
    shop, desk = opened(1)
    shop.do(scale(2))
    desk.look()
    assert desk.sight is not None
    desk.sight.superseded.add(ShardIndex(1))

    assert desk.look() == (ReadFences(shop.record.prefix, (ShardIndex(1),)),)


def test_a_seal_gives_way_to_a_look_at_the_fence() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    desk.until_it_would_seal()
    assert desk.sight is not None
    desk.sight.superseded.add(ShardIndex(1))

    assert [order for order in desk.look() if isinstance(order, Seal)] == []


def test_later_lives_take_over_what_earlier_ones_left_and_first_ones_do_not() -> None:
    shop, desk = opened(2)
    shop.do(scale(1, "in"))
    desk.tick(8)
    shop.groups()
    shop.do(scale(3, "out"))

    orders = [order for order in desk.look() if isinstance(order, Provision)]

    assert [(order.shard, order.generation, order.adopt) for order in orders] == [(1, 2, True), (2, 1, False)]


def test_groups_of_a_new_stream_begin_where_they_were_told_to() -> None:
    shop = Shop()
    shop.do(create(1))

    (order,) = Desk(shop).look()

    assert isinstance(order, Provision)
    assert order.groups == (GroupStart(BILLING, "0"),)


def test_a_vanished_group_is_made_again_from_its_floor() -> None:
    shop, _ = opened(1, "audit", "billing")

    order = mend_order(shop.record, ShardIndex(0), {BILLING: RecordId("5-0")})

    assert order is not None
    assert order.groups == (GroupStart(GroupName("audit"), "0"), GroupStart(BILLING, "5-0"))
    assert (order.generation, order.layout) == (1, shop.record.layout_version)


def test_only_a_shard_that_is_read_is_made_again() -> None:
    shop, _ = opened(1)
    shop.do(scale(2))

    assert mend_order(shop.record, ShardIndex(1), {}) is None
    assert mend_order(shop.record, ShardIndex(7), {}) is None


def test_a_drain_says_what_it_waits_for() -> None:
    shop, desk = opened(3)
    shop.write(1, 3)
    shop.do(scale(1))
    desk.look()
    assert desk.sight is not None
    before = [look.reason for look in drain_looks(shop.record, desk.sight)]
    desk.work(1)

    assert before == ["not looked at yet", "not looked at yet"]
    assert [look.reason for look in drain_looks(shop.record, desk.sight)] == [
        "3 records not yet read by billing, from 1-0",
        "nothing is left on it: it is sealed once no producer may use the old routing any more",
    ]


def test_a_scale_in_with_everything_sealed_says_who_still_holds_a_removed_shard() -> None:
    shop, _ = opened(3)
    shop.do(scale(1))
    assert shop.record.resharding is not None
    reader = group(member(), holdings={ShardIndex(0): holding(), ShardIndex(2): holding()})

    looks = held_looks(shop.record.resharding, [reader])

    assert [(look.shard, look.group, look.reason) for look in looks] == [
        (1, None, "sealed: it is over once every group was seen to have let it go"),
        (2, reader.key.group, f"sealed: {member().id} of {reader.key.group} is to let it go"),
    ]


def test_a_scale_out_says_which_key_is_in_its_way() -> None:
    shop, desk = opened(1)
    shop.do(scale(2))
    shop.world.create_foreign("orders:1", (GroupName("theirs"),))
    desk.work(1)
    assert desk.sight is not None

    (look,) = drain_looks(shop.record, desk.sight)

    assert (look.shard, look.reason) == (
        1,
        "orders:1 was not made by this stream: rename or delete it, or roll back",
    )


def test_a_deleted_group_is_dropped_from_shards_that_are_read() -> None:
    shop, desk = opened(2, "audit", "billing")
    shop.do(drop_group("audit"))

    assert kinds(desk) == {"DropGroup"}
    assert [order.shard for order in desk.look() if not isinstance(order, ProbeShard | ReadFences)] == [0, 1]
