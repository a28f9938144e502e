"""What seals and looks make of a stream's record."""

import attrs

from streamshard.core.effects import GuardResult, RaiseLayout, Seal, ShardProbe
from streamshard.core.ids import Generation, GroupName, LayoutVersion, ShardIndex
from streamshard.core.stream import ShardPhase
from streamshard.core.stream_events import LayoutRaised, Probed, ProbeShard, Sealed
from tests.unit.core.stream_bench import BILLING, ORDERS, Desk, Shop, drop_stream, opened, rollback, run, scale


def sealed_one() -> tuple[Shop, Desk]:
    """A stream of two shards, scaled in to one."""
    shop, desk = opened(2)
    shop.do(scale(1))
    desk.tick(8)
    shop.groups()
    assert shop.phases == "OS"
    return shop, desk


def probe_of(shop: Shop, index: int) -> ProbeShard:
    shard = shop.shard(index)
    return ProbeShard(ORDERS, shard.index, shard.generation, shop.record.layout_version, shard.phase)


def look(shop: Shop, index: int) -> ShardProbe:
    return run(shop.backend.probe(ORDERS, [ShardIndex(index)]))[0]


def test_a_seal_is_true_whichever_layout_asked_for_it() -> None:
    shop, desk = opened(3)
    shop.do(scale(1))
    first, second = desk.until_it_would_seal()

    shop.do(Sealed(((first, run(shop.backend.seal(first))),)))
    shop.do(Sealed(((second, run(shop.backend.seal(second))),)))

    assert (shop.phases, shop.resharding.any_sealed) == ("OSS", True)


def test_a_refused_seal_changes_nothing() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    (order,) = desk.until_it_would_seal()
    shop.write(1)

    outcome = desk.hear(Sealed(((order, run(shop.backend.seal(order))),)))

    assert (outcome.changed, shop.phases) == (False, "OD")


def test_a_seal_of_another_life_says_nothing() -> None:
    shop, _ = opened(1)
    old = Seal(ORDERS, ShardIndex(0), Generation(9), shop.record.layout_version, (BILLING,))
    unknown = attrs.evolve(old, shard=ShardIndex(7))

    outcome = shop.do(Sealed(((old, GuardResult.DONE), (unknown, GuardResult.DONE))))

    assert outcome.changed is False


def test_a_seal_of_what_is_wanted_leads_to_its_next_life() -> None:
    shop, _ = opened(1)
    order = Seal(ORDERS, ShardIndex(0), Generation(1), shop.record.layout_version, (BILLING,))

    shop.do(Sealed(((order, GuardResult.DONE),)))

    assert (shop.phases, shop.generations) == ("P", [2])


def test_a_raised_layout_opens_only_what_a_rollback_brings_back() -> None:
    shop, _ = opened(2)
    shop.do(scale(1))
    order = RaiseLayout(ORDERS, ShardIndex(1), Generation(1), shop.record.layout_version)

    outcome = shop.do(LayoutRaised(((order, GuardResult.DONE),)))

    assert (outcome.changed, shop.phases) == (False, "OD")


def test_a_refused_raise_is_asked_again() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    shop.do(rollback())
    (order,) = (order for order in desk.look() if isinstance(order, RaiseLayout))

    outcome = desk.hear(LayoutRaised(((order, GuardResult.SUPERSEDED),)))

    assert (outcome.changed, shop.phases) == (False, "OD")


def test_a_look_finds_a_seal_that_nobody_recorded() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    (order,) = desk.until_it_would_seal()
    run(shop.backend.seal(order))

    desk.hear(Probed(((probe_of(shop, 1), look(shop, 1)),)))

    assert (shop.phases, shop.resharding.any_sealed) == ("OS", True)


def test_a_key_that_a_failover_brought_back_is_read_and_sealed_again() -> None:
    shop, desk = opened(2)
    shop.write(1)
    before = shop.world.checkpoint()
    shop.consume(1)
    shop.do(scale(1))
    desk.tick(8)
    shop.groups()
    shop.world.roll_back(before)

    desk.tick(11)
    waiting = (shop.phases, shop.generations, [o.revived for o in shop.outcomes if o.revived])
    shop.consume(1)
    desk.tick(3)

    assert waiting == ("OD", [1, 2], [(1,)])
    assert (shop.phases, shop.keys()) == ("OS", ["orders:0"])


def test_what_somebody_wrote_to_a_retired_key_is_read_before_it_goes() -> None:
    shop, desk = sealed_one()
    shop.world.create_foreign("orders:1")
    shop.write(1)

    desk.tick(11)
    waiting = shop.phases
    shop.consume(1)
    desk.tick(3)

    assert waiting == "OD"
    assert (shop.phases, shop.keys()) == ("OS", ["orders:0"])


def test_a_look_from_before_the_seal_brings_nothing_back() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    early = (probe_of(shop, 1), look(shop, 1))
    desk.tick(8)

    outcome = shop.do(Probed((early,)))

    assert (outcome.changed, outcome.revived, shop.phases) == (False, (), "OS")


def test_a_key_under_other_marks_is_not_ours_to_bring_back() -> None:
    shop, _ = sealed_one()
    shop.world.forget_fence("orders:1")
    shop.world.create_foreign("orders:1", (GroupName("theirs"),))

    outcome = shop.do(Probed(((probe_of(shop, 1), look(shop, 1)),)))

    assert outcome.changed is False


def test_what_comes_back_while_a_scale_out_is_taken_back_waits_for_its_end() -> None:
    shop, desk = opened(1)
    shop.do(scale(2))
    desk.work()
    checkpoint = shop.world.checkpoint()
    shop.do(rollback())
    desk.tick(8)
    shop.world.roll_back(checkpoint)

    during = shop.do(Probed(((probe_of(shop, 1), look(shop, 1)),))).revived
    shop.groups()
    after = shop.do(Probed(((probe_of(shop, 1), look(shop, 1)),))).revived

    assert (during, after) == ((), (1,))


def test_a_left_over_shard_is_read_on_in_its_next_life_when_its_index_is_used_again() -> None:
    shop, desk = sealed_one()
    shop.world.create_foreign("orders:1")
    shop.write(1)
    desk.tick(11)

    shop.do(scale(2, "r2"))
    desk.work()

    assert (shop.phases, shop.generations, len(shop.world.entries("orders:1"))) == ("OO", [1, 3], 1)


def test_what_an_earlier_life_left_is_rescued_when_its_next_one_is_taken_back() -> None:
    shop, desk = sealed_one()
    shop.world.create_foreign("orders:1")
    shop.write(1)
    desk.tick(11)
    shop.do(scale(2, "r2"))

    shop.do(rollback("r2"))
    desk.tick(8)
    waiting = shop.phases
    shop.consume(1)
    desk.tick(8)
    shop.groups()

    assert waiting == "OD"
    assert (shop.phases, shop.keys(), shop.resharding.state.value) == ("OS", ["orders:0"], "ROLLED_BACK")


def test_a_look_under_another_layout_decides_nothing_about_what_is_taken_back() -> None:
    shop, desk = opened(1)
    shop.do(scale(2))
    desk.work(0)
    shop.do(rollback())
    late = attrs.evolve(probe_of(shop, 1), layout=LayoutVersion(1))
    foreign = ShardProbe(ShardIndex(1), True, None, False, 1, ())

    outcome = shop.do(Probed(((late, foreign),)))

    assert (outcome.changed, shop.shard(1).phase) == (False, ShardPhase.PREPARING)


def test_answers_about_a_stream_that_is_gone_are_dropped() -> None:
    shop, desk = opened(1)
    order, seen = probe_of(shop, 0), look(shop, 0)
    shop.do(drop_stream())

    outcome = desk.hear(Probed(((order, seen),)))

    assert outcome.changed is False
