"""Scaling out, scaling in, and the ways back."""

from typing import Any

import pytest

from streamshard.core.admin import Scale
from streamshard.core.effects import GuardResult, Provision, RaiseLayout
from streamshard.core.ids import GroupName, LayoutVersion, WallMillis
from streamshard.core.resharding import ARROWS, IN_STARTS, OUT_STARTS, Event, advance
from streamshard.core.stream import ENDED, HISTORY_SIZE, ReshardingState
from streamshard.core.stream_events import LayoutRaised, Sealed
from streamshard.errors import (
    ActiveMigration,
    InvalidRequest,
    MigrationNotFound,
    RollbackNotAllowed,
    ShardCountUnchanged,
    StateConflict,
    StreamExists,
)
from tests.unit.core.stream_bench import (
    AUDIT,
    BILLING,
    Desk,
    add_group,
    amend,
    drop_group,
    opened,
    rollback,
    run,
    scale,
)

PREPARING, ACTIVE, DRAINING = ReshardingState.PREPARING, ReshardingState.ACTIVE, ReshardingState.DRAINING
DEPRECATED = ReshardingState.DEPRECATED
ROLLING_BACK, ROLLED_BACK = ReshardingState.ROLLING_BACK, ReshardingState.ROLLED_BACK


def test_every_state_leads_from_a_start_to_an_end() -> None:
    reached = {OUT_STARTS, IN_STARTS}
    for _ in ARROWS:
        reached |= {to for (at, _), to in ARROWS.items() if at in reached}

    assert reached == set(ReshardingState)
    assert {at for at, _ in ARROWS} == set(ReshardingState) - ENDED


def test_every_event_leads_somewhere() -> None:
    assert {event for _, event in ARROWS} == set(Event)


def test_an_event_without_an_arrow_changes_nothing() -> None:
    shop, _ = opened(1)
    idle = shop.record
    shop.do(scale(2))

    assert advance(idle, Event.MADE, WallMillis(1)) is idle
    assert advance(shop.record, Event.RESTORED, WallMillis(1)) is shop.record


# Out


def test_scaling_out_prepares_new_shards_and_routes_nothing_to_them_yet() -> None:
    shop, _ = opened(2)

    outcome = shop.do(scale(4))

    assert outcome.resharding == shop.record.resharding
    assert (shop.resharding.state, shop.resharding.from_count, shop.resharding.to_count) == (PREPARING, 2, 4)
    assert (shop.phases, shop.record.routed_count) == ("OOPP", 2)


def test_new_shards_are_routed_once_all_of_them_were_made_from_the_start() -> None:
    shop, desk = opened(2)
    shop.do(scale(4))
    layout = shop.record.layout_version

    orders = [order for order in desk.look() if isinstance(order, Provision)]
    desk.work()

    assert [(order.shard, [group.start_id for group in order.groups]) for order in orders] == [(2, ["0"]), (3, ["0"])]
    assert (shop.resharding.state, shop.phases, shop.record.routed_count) == (ACTIVE, "OOOO", 4)
    assert shop.record.layout_version == layout + 1


def test_a_scale_out_prepares_on_while_redis_is_away() -> None:
    shop, desk = opened(2)
    shop.do(scale(3))

    desk.look()
    desk.look()
    before = shop.resharding.state
    desk.work()

    assert (before, shop.resharding.state) == (PREPARING, ACTIVE)


@pytest.mark.parametrize("state", [{"handover": True}, {"layout_version": LayoutVersion(1)}])
def test_a_scale_out_waits_for_a_live_group(state: dict[str, Any]) -> None:
    shop, desk = opened(2)
    shop.do(scale(3))
    desk.work()

    shop.groups(shop.summary(**state))

    assert shop.resharding.state is ACTIVE


def test_a_scale_out_ends_when_live_groups_have_settled() -> None:
    shop, desk = opened(2, "billing", "audit")
    shop.do(scale(3))
    desk.work()
    layout = shop.record.layout_version

    shop.groups(shop.summary(), shop.summary(AUDIT, live_members=0, handover=True, layout_version=LayoutVersion(1)))

    assert (shop.record.resharding, [known.state for known in shop.record.history]) == (None, [DEPRECATED])
    assert shop.record.layout_version == layout


def test_a_group_that_nobody_has_looked_at_is_waited_for() -> None:
    shop, desk = opened(2, "billing", "audit")
    shop.do(scale(3))
    desk.work()

    shop.groups(shop.summary())

    assert shop.resharding.state is ACTIVE


def test_an_index_that_was_sealed_is_used_again_in_its_next_life() -> None:
    shop, desk = opened(2)
    for target, name in ((1, "in"), (2, "out")):
        shop.do(scale(target, name))
        desk.tick(8)
        shop.groups()

    assert (shop.phases, shop.generations, shop.keys()) == ("OO", [1, 2], ["orders:0", "orders:1"])


def test_a_provisioner_that_wakes_after_the_seal_makes_nothing() -> None:
    shop, desk = opened(1)
    shop.do(scale(2, "out"))
    late = [order for order in desk.look() if isinstance(order, Provision)]
    desk.work()
    shop.groups()
    shop.do(scale(1, "in"))
    desk.tick(8)

    run(shop.backend.provision(late))

    assert (shop.phases, shop.keys()) == ("OS", ["orders:0"])


def test_a_key_of_somebody_else_stops_a_scale_out_before_it_begins() -> None:
    shop, _ = opened(1)
    shop.world.create_foreign("orders:1")

    outcome = shop.do(scale(2))

    assert isinstance(outcome.refusal, StreamExists)
    assert shop.record.resharding is None


# In


def test_scaling_in_takes_shards_out_of_the_routing_at_once_and_reads_on() -> None:
    shop, _ = opened(3)

    shop.do(scale(1))

    assert (shop.resharding.state, shop.record.routed_count, shop.phases) == (DRAINING, 1, "ODD")
    assert list(shop.record.layout().shards) == [0, 1, 2]


def test_removed_shards_are_sealed_one_by_one_as_they_run_dry() -> None:
    shop, desk = opened(3)
    shop.write(1)
    shop.do(scale(1))

    desk.tick(8)
    halfway = (shop.phases, shop.resharding.any_sealed)
    shop.consume(1)
    desk.tick(3)

    assert halfway == ("ODS", True)
    assert (shop.phases, shop.keys(), shop.resharding.state) == ("OSS", ["orders:0"], DRAINING)


def test_a_scale_in_ends_when_no_live_member_holds_a_removed_shard() -> None:
    shop, desk = opened(2)
    shop.do(scale(1))
    desk.tick(8)

    shop.groups(shop.summary(held_by_live=(1,)))
    holding = shop.resharding.state
    shop.groups(shop.summary(layout_version=LayoutVersion(1)))
    behind = shop.resharding.state
    shop.groups(shop.summary(held_by_live=(0,)))

    assert (holding, behind, shop.resharding.state) == (DRAINING, DRAINING, DEPRECATED)


def test_a_scale_in_never_ends_without_a_seal() -> None:
    shop, desk = opened(2)
    shop.write(1)
    shop.do(scale(1))
    desk.tick(20)

    shop.groups(shop.summary(live_members=0))

    assert (shop.resharding.state, shop.phases) == (DRAINING, "OD")


def test_a_full_drain_keeps_producers_until_every_shard_is_sealed() -> None:
    shop, desk = opened(2)
    shop.write(1)
    shop.do(scale(0))
    desk.tick(3)
    halfway = (shop.phases, shop.record.routed_count)

    shop.consume(1)
    desk.tick(3)

    assert halfway == ("SD", 2)
    assert (shop.phases, shop.record.routed_count, shop.resharding.state) == ("SS", 0, DRAINING)


def test_a_full_drain_can_stop_producers_at_once() -> None:
    shop, _ = opened(2)

    shop.do(scale(0, stop_producers=True))

    assert (shop.phases, shop.record.routed_count) == ("DD", 0)


def test_a_stream_without_shards_can_grow_again() -> None:
    shop, desk = opened(1)
    shop.do(scale(0, "in"))
    desk.tick(3)
    shop.groups()

    shop.do(scale(2, "out"))
    desk.work()

    assert (shop.phases, shop.generations, shop.record.routed_count) == ("OO", [2, 1], 2)


# What is refused


@pytest.mark.parametrize("target", [-1, 17])
def test_a_count_out_of_range_names_the_field(target: int) -> None:
    shop, _ = opened(1)

    refusal = shop.do(scale(target)).refusal

    assert isinstance(refusal, InvalidRequest)
    assert refusal.message.startswith("targetShardCount: must be between 0 and 16")


def test_the_present_count_is_refused() -> None:
    shop, _ = opened(2)

    assert isinstance(shop.do(scale(2)).refusal, ShardCountUnchanged)


def test_a_scale_that_still_prepares_the_same_count_is_gone_on_with() -> None:
    shop, _ = opened(1)
    first = shop.do(scale(2, "r1")).resharding

    outcome = shop.do(scale(2, "r2"))

    assert (outcome.changed, outcome.refusal, outcome.resharding) == (False, None, first)


@pytest.mark.parametrize("second", [scale(3, "r2"), scale(1, "r2")])
def test_one_resharding_at_a_time(second: Scale) -> None:
    shop, _ = opened(2)
    shop.do(scale(4, "r1"))

    assert isinstance(shop.do(second).refusal, ActiveMigration)


def test_a_scale_waits_for_groups_that_come_or_go() -> None:
    shop, desk = opened(1, "billing", "audit")
    shop.do(drop_group("audit"))
    going = shop.do(scale(2)).refusal
    desk.work()
    shop.do(add_group("audit"))
    coming = shop.do(scale(2)).refusal

    assert isinstance(going, StateConflict)
    assert isinstance(coming, StateConflict)
    assert ("deleted" in going.message, "created" in coming.message) == (True, True)


# Back


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
