"""Taking a resharding back, and amending one."""

from streamshard.core.effects import GuardResult, Provision, RaiseLayout
from streamshard.core.ids import GroupName
from streamshard.core.stream import HISTORY_SIZE, ReshardingState
from streamshard.core.stream_events import LayoutRaised, Sealed
from streamshard.errors import (
    MigrationNotFound,
    RollbackNotAllowed,
    StreamExists,
)
from tests.unit.core.stream_bench import (
    BILLING,
    Desk,
    amend,
    opened,
    rollback,
    run,
    scale,
)

PREPARING = ReshardingState.PREPARING
ROLLING_BACK, ROLLED_BACK = ReshardingState.ROLLING_BACK, ReshardingState.ROLLED_BACK


def test_taking_back_a_scale_out_drains_the_added_shards_like_removed_ones() -> None:
    shop, desk = opened(1)
    shop.do(scale(2))
    desk.work()
    shop.write(1)

    shop.do(rollback())
    at_once = (shop.resharding.state, shop.phases, shop.record.routed_count)
    desk.tick(8)
    waiting = shop.phases
    shop.consume(1)
    desk.tick(3)
    shop.groups()

    assert at_once == (ROLLING_BACK, "OD", 1)
    assert waiting == "OD"
    assert (shop.resharding.state, shop.phases, shop.keys()) == (ROLLED_BACK, "OS", ["orders:0"])


def test_taking_back_a_scale_out_that_was_never_routed_seals_at_once() -> None:
    shop, desk = opened(1)
    shop.do(scale(3))
    run(shop.backend.provision([order for order in desk.look() if isinstance(order, Provision)]))

    shop.do(rollback())
    desk.work()
    shop.groups()

    assert (shop.resharding.state, shop.phases, shop.keys()) == (ROLLED_BACK, "OSS", ["orders:0"])


def test_taking_back_a_scale_in_raises_the_layout_before_anything_is_routed_again() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    layout = shop.record.layout_version

    shop.do(rollback())
    waiting = (shop.resharding.state, shop.record.routed_count, shop.record.layout_version)
    orders = [order for order in desk.look() if isinstance(order, RaiseLayout)]
    desk.work()

    assert waiting == (ROLLING_BACK, 1, layout + 1)
    assert [(order.shard, order.layout) for order in orders] == [(1, layout + 1)]
    assert (shop.resharding.state, shop.phases, shop.record.routed_count) == (ROLLED_BACK, "OO", 2)


def test_a_paused_coordinator_cannot_seal_what_was_taken_back() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    (late,) = desk.until_it_would_seal()
    shop.do(rollback())
    Desk(shop).work()

    result = run(shop.backend.seal(late))

    assert result is GuardResult.SUPERSEDED
    assert (shop.phases, shop.keys()) == ("OO", ["orders:0", "orders:1"])


def test_a_raise_of_an_earlier_rollback_opens_nothing() -> None:
    shop, desk = opened(2)
    shop.do(scale(1, "r1"))
    shop.do(rollback("r1"))
    (early,) = (order for order in desk.look() if isinstance(order, RaiseLayout))
    desk.work()
    shop.do(scale(1, "r2"))
    shop.do(rollback("r2"))

    outcome = shop.do(LayoutRaised(((early, GuardResult.DONE),)))

    assert (outcome.changed, shop.phases) == (False, "OD")


def test_a_shard_that_was_sealed_before_the_rollback_is_made_anew() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    (late,) = desk.until_it_would_seal()
    shop.do(rollback())

    sealed = run(shop.backend.seal(late))
    desk.work()

    assert sealed is GuardResult.DONE
    assert (shop.resharding.state, shop.phases, shop.generations) == (ROLLED_BACK, "OO", [1, 2])
    assert shop.keys() == ["orders:0", "orders:1"]


def test_a_seal_that_is_heard_of_during_the_rollback_leads_to_the_next_life() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    (late,) = desk.until_it_would_seal()
    shop.do(rollback())

    shop.do(Sealed(((late, run(shop.backend.seal(late))),)))
    heard = (shop.phases, shop.generations)
    desk.work()

    assert heard == ("OP", [1, 2])
    assert (shop.resharding.state, shop.phases) == (ROLLED_BACK, "OO")


def test_what_somebody_wrote_to_an_unrouted_shard_is_read_before_it_goes() -> None:
    shop, desk = opened(1)
    shop.do(scale(2))
    run(shop.backend.provision([order for order in desk.look() if isinstance(order, Provision)]))
    shop.write(1)
    shop.do(rollback())

    desk.tick(8)
    waiting = shop.phases
    shop.consume(1)
    desk.tick(8)
    shop.groups()

    assert waiting == "OD"
    assert (shop.resharding.state, shop.keys()) == (ROLLED_BACK, ["orders:0"])


def test_a_foreign_key_in_the_way_of_a_scale_out_is_left_alone_when_that_is_taken_back() -> None:
    shop, desk = opened(1)
    shop.do(scale(2))
    shop.world.create_foreign("orders:1", (GroupName("theirs"),))
    desk.work()
    waiting = (shop.resharding.state, shop.outcomes[-1].refusal)

    shop.do(rollback())
    desk.work()
    shop.groups()

    assert waiting[0] is PREPARING
    assert isinstance(waiting[1], StreamExists)
    assert (shop.resharding.state, shop.phases, shop.keys()) == (ROLLED_BACK, "OS", ["orders:0", "orders:1"])


def test_a_rollback_that_goes_on_is_answered_as_it_stands() -> None:
    shop, _ = opened(1)
    shop.do(scale(2))
    first = shop.do(rollback()).resharding

    outcome = shop.do(rollback())

    assert (outcome.changed, outcome.refusal, outcome.resharding) == (False, None, first)


def test_the_first_seal_is_the_point_of_no_return() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    desk.tick(8)

    assert isinstance(shop.do(rollback()).refusal, RollbackNotAllowed)


def test_a_rollback_is_refused_for_what_is_unknown_or_over() -> None:
    shop, desk = opened(1)
    shop.do(scale(2, "r1"))
    desk.work()
    shop.groups()

    refusals = [shop.do(rollback(name)).refusal for name in ("nobody", "r1")]

    assert [type(refusal) for refusal in refusals] == [MigrationNotFound, RollbackNotAllowed]


# Amending


def test_foreign_groups_can_be_named_while_a_drain_waits_for_them() -> None:
    shop, desk = opened(2)
    shop.write(1)
    shop.world.create_foreign("orders:1", (GroupName("theirs"),))
    shop.consume(1)
    shop.do(scale(1))
    desk.tick(8)
    waiting = shop.phases

    shop.do(amend("theirs"))
    desk.tick(3)

    assert (waiting, shop.phases, shop.keys()) == ("OD", "OS", ["orders:0"])


def test_an_amendment_that_changes_nothing_is_not_committed() -> None:
    shop, _ = opened(2)
    shop.do(scale(1, ignore_foreign_groups=(GroupName("b"), GroupName("a"))))

    outcome = shop.do(amend("a", "b"))

    assert (outcome.changed, shop.resharding.ignore_foreign_groups) == (False, ("a", "b"))


def test_only_a_running_resharding_is_amended() -> None:
    shop, _ = opened(1)

    assert isinstance(shop.do(amend("theirs")).refusal, MigrationNotFound)


def test_only_the_last_reshardings_are_remembered() -> None:
    shop, desk = opened(1)
    for number in range(HISTORY_SIZE + 2):
        shop.do(scale(2, f"r{number}"))
        shop.do(rollback(f"r{number}"))
        desk.work()
        shop.groups(shop.summary(BILLING, live_members=0))

    assert [known.id for known in shop.record.history] == [f"r{n}" for n in range(2, HISTORY_SIZE + 2)]
