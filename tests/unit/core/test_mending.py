"""Keys and groups that vanished: made again from where they were known to be, and only if they are missing."""

import attrs

from streamshard.core.group import ShardProgress
from streamshard.core.ids import RecordId, ShardIndex
from tests.unit.core.driving import BILLING, ORDERS, S0, S1, Member, Node, Site, scale


def settled() -> tuple[Site, Node, Member]:
    site = Site()
    node, member = site.node(), Member()
    node.beat(member)
    node.beat(member)
    node.tick(2)
    node.coordinator.drain_events()
    return site, node, member


def missing(shard: int, floor: str | None = None) -> ShardProgress:
    return ShardProgress(ShardIndex(shard), read_state="MISSING", ack_floor=None if floor is None else RecordId(floor))


def start_of(site: Site, key: str) -> tuple[int, int]:
    return site.world.streams[key].groups[BILLING].last_delivered


def test_a_key_that_vanished_is_made_again_from_the_start() -> None:
    site, node, member = settled()
    site.world.lose_shard("orders:0")

    node.beat(member, progress=(missing(0, "7-1"),))
    node.tick()

    assert start_of(site, "orders:0") == (0, 0)
    (event,) = node.coordinator.drain_events()
    assert (event.kind, event.shard) == ("recreated", S0)


def test_a_group_that_vanished_goes_on_from_the_floor_of_its_owner() -> None:
    site, node, member = settled()
    site.append(0, 9)
    site.world.lose_group("orders:0", BILLING)

    node.beat(member, progress=(missing(0, "4-0"),))
    node.tick()

    assert start_of(site, "orders:0") == (4, 0)


def test_a_group_whose_owner_knows_no_floor_goes_on_from_the_start() -> None:
    site, node, member = settled()
    site.append(0, 9)
    site.world.lose_group("orders:0", BILLING)

    node.beat(member, progress=(missing(0),))
    node.tick()

    assert start_of(site, "orders:0") == (0, 0)


def test_what_is_there_again_is_not_made_again() -> None:
    site, node, member = settled()
    site.world.lose_shard("orders:0")
    node.beat(member, progress=(missing(0),))
    node.tick()
    node.coordinator.drain_events()
    node.calls()

    node.tick()

    assert "provision" not in node.calls()
    assert node.coordinator.drain_events() == ()


def test_another_coordinator_mends_what_was_reported_to_the_first() -> None:
    site, node, member = settled()
    second = site.node("second")
    site.world.lose_shard("orders:1")
    node.beat(member, progress=(missing(1),))

    second.tick(2)

    assert start_of(site, "orders:1") == (0, 0)


def test_a_report_about_what_its_sender_does_not_hold_is_passed_over() -> None:
    site, node, _ = settled()
    other = Member("b", "2")
    node.beat(other, progress=(missing(0), missing(10**9)))
    node.calls()

    node.tick()

    assert "probe" not in node.calls()
    assert node.desk.vanished == {}


def test_a_shard_that_is_retired_is_not_made_again() -> None:
    site, node, member = settled()
    node.run(node.coordinator.scale(scale(1)))
    for _ in range(12):
        site.pass_time(1_000, node)
        node.beat(member)
    node.desk.vanished[ORDERS] = {S1, ShardIndex(77)}

    node.tick()

    assert sorted(site.world.streams) == ["orders:0"]


def test_what_redis_could_not_make_again_is_asked_for_again() -> None:
    site, node, _ = settled()
    site.world.lose_shard("orders:0")
    node.desk.vanished[ORDERS] = {S0}
    site.world.go_down()
    node.tick()
    site.world.come_back()

    node.tick()

    assert sorted(site.world.streams) == ["orders:0", "orders:1"]
    assert node.desk.vanished == {}


def test_a_key_of_an_earlier_life_is_marked_as_the_present_one() -> None:
    site, node, _ = settled()
    shard = attrs.evolve(site.stream.shards[S0], generation=type(site.stream.shards[S0].generation)(2))
    site.memory._shelf.streams[ORDERS] = attrs.evolve(site.stream, shards={**site.stream.shards, S0: shard})
    node.desk.vanished[ORDERS] = {S0}

    node.tick()

    assert site.world.fences["orders:0"].generation == 2
