"""Scaling out and scaling in."""

from typing import Any

import attrs
import pytest

from streamshard.core import resharding
from streamshard.core.admin import Scale
from streamshard.core.effects import Provision
from streamshard.core.ids import LayoutVersion, WallMillis
from streamshard.core.resharding import ARROWS, IN_STARTS, OUT_STARTS, Event, advance
from streamshard.core.stream import ENDED, ReshardingState
from streamshard.errors import (
    ActiveMigration,
    InvalidRequest,
    ShardCountUnchanged,
    StateConflict,
    StreamExists,
)
from tests.unit.core.stream_bench import (
    AUDIT,
    add_group,
    drop_group,
    opened,
    run,
    scale,
)

PREPARING, ACTIVE, DRAINING = ReshardingState.PREPARING, ReshardingState.ACTIVE, ReshardingState.DRAINING
DEPRECATED = ReshardingState.DEPRECATED


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


def test_a_count_that_the_protocol_can_not_route_over_is_refused() -> None:
    shop, _ = opened(1)
    wide = attrs.evolve(shop.context(), max_shard_count=2_000)
    record = attrs.evolve(shop.record, routing_protocol="ring-v1")

    outcome = resharding.scale(record, scale(1_025), wide)

    assert isinstance(outcome.refusal, InvalidRequest)
    assert outcome.refusal.message == "shardCount: ring-v1 can't route over 1025 shards, it takes 1 to 1024"
    assert outcome.record == record


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
