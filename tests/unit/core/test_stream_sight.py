"""A coordinator's own memory: what it has seen, and since when."""

from streamshard.core.effects import DropGroup, GuardResult, Provision, ProvisionResult, ShardProbe
from streamshard.core.ids import Generation, Instant, LayoutVersion, ShardIndex
from streamshard.core.stream import ShardPhase
from streamshard.core.stream_events import FencesSeen, GroupsSeen, Probed, ProbeShard, Provisioned, Sealed, Tidied
from streamshard.core.stream_sight import StreamSight, routing_key
from tests.unit.core.stream_bench import BILLING, ORDERS, Desk, Shop, create, opened, rollback, run, scale

NOW = Instant(5_000)
LATER = Instant(6_000)


def draining() -> tuple[Shop, StreamSight]:
    shop, _ = opened(2)
    shop.do(scale(1))
    return shop, StreamSight.first(shop.record, NOW)


def asked(shop: Shop, index: int = 1) -> ProbeShard:
    shard = shop.shard(index)
    return ProbeShard(ORDERS, shard.index, shard.generation, shop.record.layout_version, shard.phase)


def seen(shop: Shop, index: int = 1) -> Probed:
    return Probed(((asked(shop, index), run(shop.backend.probe(ORDERS, [ShardIndex(index)]))[0]),))


def test_the_routing_has_been_seen_since_the_first_look_at_it() -> None:
    shop, sight = draining()

    sight.observe(shop.record, LATER)

    assert (sight.silent_routing_ms(LATER), sight.layout) == (1_000, shop.record.layout_version)


def test_another_routing_starts_its_timer_anew() -> None:
    shop, sight = draining()
    shop.do(rollback())

    sight.observe(shop.record, LATER)

    assert sight.silent_routing_ms(LATER) == 0


def test_a_routing_that_came_back_is_another_one() -> None:
    shop, _ = opened(2)
    shop.do(scale(1, "r1"))
    first = routing_key(shop.record)
    shop.do(rollback("r1"))
    Desk(shop).work()
    shop.do(scale(1, "r2"))

    assert routing_key(shop.record) != first


def test_a_seal_leaves_the_routing_as_it_is() -> None:
    shop, desk = opened(3)
    shop.do(scale(1))
    before = routing_key(shop.record)
    desk.tick(8)

    assert (shop.phases, routing_key(shop.record)) == ("OSS", before)


def test_empty_looks_are_counted_from_the_first_of_an_unbroken_run() -> None:
    shop, sight = draining()
    for moment in (NOW, LATER):
        sight.hear(shop.record, seen(shop), moment)
    look = sight.look_at(shop.shard(1))

    assert look is not None
    assert (look.empty_since, look.seen_at, look.blocker) == (NOW, LATER, None)


def test_a_look_that_finds_something_breaks_the_run() -> None:
    shop, sight = draining()
    sight.hear(shop.record, seen(shop), NOW)
    shop.write(1)
    sight.hear(shop.record, seen(shop), LATER)
    look = sight.look_at(shop.shard(1))

    assert look is not None
    assert look.empty_since is None
    assert look.blocker is not None


def test_a_refused_seal_breaks_the_run() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    (order,) = desk.until_it_would_seal()
    desk.hear(Sealed(((order, GuardResult.NOT_EMPTY),)))

    assert [order.shard for order in desk.until_it_would_seal()] == [1]
    assert desk.sight is not None
    assert desk.sight.look_at(shop.shard(0)) is None


def test_a_refused_seal_of_what_was_never_looked_at_is_harmless() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    (order,) = desk.until_it_would_seal()
    other = StreamSight.first(shop.record, NOW)

    other.hear(shop.record, Sealed(((order, GuardResult.NOT_EMPTY),)), NOW)

    assert other.looks == {}


def test_looks_at_another_life_or_phase_are_not_taken() -> None:
    shop, sight = draining()
    order = asked(shop)
    probe = ShardProbe(ShardIndex(1), False, None, False, 0, ())
    others = (
        ProbeShard(ORDERS, ShardIndex(1), Generation(9), order.layout, order.phase),
        ProbeShard(ORDERS, ShardIndex(1), order.generation, order.layout, ShardPhase.SEALED),
        ProbeShard(ORDERS, ShardIndex(9), order.generation, order.layout, order.phase),
        ProbeShard(ORDERS, ShardIndex(0), order.generation, order.layout, ShardPhase.OPEN),
    )

    sight.hear(shop.record, Probed(tuple((other, probe) for other in others)), NOW)

    assert sight.looks == {}


def test_looks_at_what_is_gone_are_forgotten() -> None:
    shop, sight = draining()
    sight.hear(shop.record, seen(shop), NOW)
    shop.do(rollback())
    Desk(shop).work()
    stale = sight.look_at(shop.shard(1))

    sight.observe(shop.record, LATER)

    assert (stale, sight.looks) == (None, {})


def test_looks_at_indexes_that_a_new_stream_has_not_are_forgotten() -> None:
    shop, sight = draining()
    sight.hear(shop.record, seen(shop), NOW)
    other = Shop()
    other.do(create(1))

    sight.observe(other.record, LATER)

    assert sight.looks == {}


def test_refused_orders_of_the_present_layout_call_for_the_fence() -> None:
    shop, sight = draining()
    layout = shop.record.layout_version
    orders = [DropGroup(ORDERS, ShardIndex(i), Generation(1), LayoutVersion(layout - i), BILLING) for i in (0, 1)]

    sight.hear(shop.record, Tidied(tuple((order, GuardResult.SUPERSEDED) for order in orders)), NOW)
    called = set(sight.superseded)
    sight.hear(shop.record, FencesSeen(run(shop.backend.read_fences(ORDERS, [ShardIndex(0)]))), NOW)

    assert (called, sight.superseded) == ({0}, set())


def test_a_later_life_on_the_fence_calls_for_the_fence() -> None:
    shop, sight = draining()
    probe = ShardProbe(ShardIndex(1), True, Generation(2), False, 0, ())

    sight.hear(shop.record, Probed(((asked(shop), probe),)), NOW)

    assert (sight.superseded, sight.looks) == ({1}, {})


def test_another_layout_clears_what_was_refused() -> None:
    shop, sight = draining()
    sight.superseded = {ShardIndex(1)}
    shop.do(rollback())

    sight.observe(shop.record, LATER)

    assert sight.superseded == set()


def test_what_became_of_each_shard_in_preparation_is_remembered() -> None:
    shop, desk = opened(1)
    shop.do(scale(4))
    desk.work(0)
    sight = StreamSight.first(shop.record, NOW)
    orders = [order for order in desk.look() if isinstance(order, Provision)]
    results = (ProvisionResult.DONE, ProvisionResult.FOREIGN, ProvisionResult.SUPERSEDED)
    stale = Provision(ORDERS, ShardIndex(1), Generation(1), LayoutVersion(1), ())

    sight.hear(shop.record, Provisioned((*zip(orders, results, strict=True), (stale, results[1]))), NOW)

    assert (sight.made, sight.foreign, sight.superseded) == ({1}, {2}, {3})


def test_a_foreign_key_that_went_away_is_forgotten() -> None:
    shop, desk = opened(1)
    shop.do(scale(2))
    shop.world.create_foreign("orders:1", (BILLING, BILLING))
    shop.world.add("orders:1", {b"n": b"1"})
    desk.work(1)
    assert desk.sight is not None
    during = set(desk.sight.foreign)

    shop.world.lose_shard("orders:1")
    desk.work()

    assert (during, desk.sight.foreign) == ({1}, set())


def test_retired_shards_are_known_since_this_coordinator_first_saw_them() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    desk.tick(8)
    sight = StreamSight.first(shop.record, NOW)
    sight.observe(shop.record, LATER)
    sight.hear(shop.record, seen(shop), LATER)
    known = sight.retired[ShardIndex(1)]

    sight.look_again()

    assert (known.since, known.seen_at) == (NOW, LATER)
    assert sight.retired[ShardIndex(1)].seen_at is None


def test_what_only_the_record_cares_about_is_no_news() -> None:
    shop, sight = draining()
    before = dict(sight.looks)

    sight.hear(shop.record, GroupsSeen(()), NOW)

    assert sight.looks == before
