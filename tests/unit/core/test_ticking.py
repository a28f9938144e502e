"""A tick looks at everything; the trouble of one stream or group stays its own."""

from typing import Any

import attrs
import pytest

from streamshard.core.admin import CreateStream, DeleteGroup, DeleteStream
from streamshard.core.group import MemberState
from streamshard.core.ids import Epoch, GroupKey, GroupName, ShardIndex, StreamPrefix, next_version
from streamshard.core.replies import Status
from streamshard.core.stream import ReshardingState, StreamState
from streamshard.errors import MetadataCorrupt, RevisionConflict, StoreUnavailable, StreamUnavailable
from tests.unit.core.driving import (
    ANN,
    BILLING,
    EXPIRY_MS,
    KEY,
    ORDERS,
    S0,
    Member,
    Node,
    Site,
    create,
    rollback,
    scale,
)

AUDIT = GroupName("audit")


def settled(*groups: str) -> tuple[Site, Node, Member]:
    site = Site(empty=True)
    node, member = site.node(), Member()
    node.run(node.coordinator.create_stream(create(2, *(groups or (BILLING,)))))
    node.beat(member)
    node.beat(member)
    node.tick(2)
    node.calls()
    return site, node, member


def corrupt(node: Node, key: GroupKey = KEY) -> None:
    def trouble(name: str, given: tuple[Any, ...]) -> Exception | None:
        return MetadataCorrupt("bits have flipped") if name == "load_group" and given == (key,) else None

    node.store.trouble = trouble


def heal(node: Node) -> None:
    node.store.trouble = lambda name, given: None


def rewrite(site: Site, **changes: Any) -> None:
    """Commit what no coordinator would."""
    version = next_version(site.group.version, site.nodes[0].entropy.nonce())
    ring = (*site.group.ring, version.nonce)
    site.memory._shelf.groups[KEY] = attrs.evolve(site.group, version=version, ring=ring, **changes)


def test_a_tick_with_nothing_to_do_writes_nothing_and_asks_nothing_of_redis() -> None:
    _, node, _ = settled()

    node.tick()

    assert set(node.calls()) == {"prefixes", "load_stream", "load_group"}


def test_a_tick_fails_if_the_streams_can_not_be_listed_and_expires_nobody_for_it() -> None:
    site, node, member = settled()
    site.pass_time(EXPIRY_MS - 1_000, node)
    node.store.fail("prefixes", StoreUnavailable("away"))

    with pytest.raises(StoreUnavailable):
        node.tick()
    site.pass_time(4_000, node)

    assert site.group.members[member.name].state is MemberState.ACTIVE


def test_a_late_tick_expires_nobody() -> None:
    site, node, member = settled()
    node.clock.advance(600_000)

    node.tick()
    site.pass_time(EXPIRY_MS - 2_000, node)

    assert site.group.members[member.name].state is MemberState.ACTIVE


def test_a_late_tick_expires_nobody_although_heartbeats_went_on_reading() -> None:
    site, node, member = settled()
    site.pass_time(EXPIRY_MS - 3_000, node)
    for _ in range(3):
        node.clock.advance(1_000)
        node.run(node.desk.load_group(KEY))

    node.tick()

    assert site.group.members[member.name].state is MemberState.ACTIVE


def test_a_read_that_fails_expires_nobody() -> None:
    site, node, member = settled()
    site.pass_time(EXPIRY_MS - 1_000, node)
    node.store.fail("load_group", StoreUnavailable("away"))

    site.pass_time(4_000, node)

    assert site.group.members[member.name].state is MemberState.ACTIVE


def test_two_coordinators_expire_a_silent_member_once() -> None:
    site, first, member = settled()
    second = site.node("second")
    second.tick(2)

    site.pass_time(EXPIRY_MS + 2_000, first, second)

    assert site.group.members[member.name].state is MemberState.EXPIRED
    assert site.group.group_epoch == 3


def test_a_renewal_at_the_last_moment_saves_a_member() -> None:
    site, node, member = settled()
    other = site.node("other")
    other.beat(member)
    site.pass_time(EXPIRY_MS, node)
    node.clock.advance(1_000)
    tick = node.start(node.coordinator.tick())
    expiring = tick.go_to("> commit")
    other.beat(member)

    expiring.finish()

    assert site.group.members[member.name].state is MemberState.ACTIVE


def test_a_corrupt_group_is_frozen_and_the_others_go_on() -> None:
    site, node, member = settled(BILLING, "audit")
    corrupt(node, GroupKey(ORDERS, AUDIT))

    site.pass_time(EXPIRY_MS + 2_000, node)

    assert site.group.members[member.name].state is MemberState.EXPIRED
    assert node.run(node.coordinator.health()).invariant_violations == ("orders/audit: frozen: bits have flipped",)


def test_a_corrupt_stream_is_frozen_and_the_others_go_on() -> None:
    site, node, _ = settled()
    other = CreateStream(StreamPrefix("alarms"), ANN, 1)
    node.run(node.coordinator.create_stream(other))

    def trouble(name: str, given: tuple[Any, ...]) -> Exception | None:
        return MetadataCorrupt("bits have flipped") if name == "load_stream" and given == ("alarms",) else None

    node.store.trouble = trouble
    site.pass_time(EXPIRY_MS + 2_000, node)

    assert site.group.members[Member().name].state is MemberState.EXPIRED
    assert node.coordinator._ticking.violations() == ("alarms: frozen: bits have flipped",)


def test_a_group_is_told_to_be_frozen_once() -> None:
    _, node, _ = settled()
    node.coordinator.drain_events()
    corrupt(node)

    node.tick(3)

    assert [(e.kind, e.text) for e in node.coordinator.drain_events()] == [
        ("frozen", "orders/billing: bits have flipped")
    ]


def test_a_group_that_was_repaired_is_not_frozen_any_more() -> None:
    _, node, member = settled()
    corrupt(node)
    node.tick()
    heal(node)

    node.tick()

    assert node.coordinator._ticking.violations() == ()
    assert node.beat(member).status is Status.OK


def test_a_group_that_was_deleted_while_it_was_frozen_leaves_health_alone() -> None:
    site, node, _ = settled(BILLING, "audit")
    corrupt(node, GroupKey(ORDERS, AUDIT))
    node.tick()
    site.memory._shelf.streams[ORDERS] = attrs.evolve(site.stream, groups={BILLING: site.stream.groups[BILLING]})

    node.tick()

    assert node.coordinator._ticking.violations() == ()


def test_what_is_known_of_a_group_that_another_coordinator_deleted_is_dropped() -> None:
    site, node, _ = settled(BILLING, "audit")
    other = site.node("other")
    other.run(other.coordinator.delete_group(DeleteGroup(KEY, ANN, force=True)))

    node.tick()

    assert list(node.desk.groups) == [GroupKey(ORDERS, AUDIT)]


def test_what_is_known_of_a_stream_that_another_coordinator_deleted_is_dropped() -> None:
    site, node, _ = settled()
    other = site.node("other")
    other.run(other.coordinator.delete_stream(DeleteStream(ORDERS, ANN, force=True)))

    node.tick()

    assert (node.desk.groups, node.desk.layouts, node.coordinator._work._sights) == ({}, {}, {})


def test_redis_being_away_stops_nothing_that_only_needs_the_store() -> None:
    site, node, member = settled()
    node.run(node.coordinator.scale(scale(4)))
    site.world.go_down()

    site.pass_time(EXPIRY_MS + 2_000, node)

    assert site.group.members[member.name].state is MemberState.EXPIRED
    assert site.group.layout_version == site.stream.layout_version


def test_a_stream_that_another_coordinator_works_on_is_left_to_the_next_tick() -> None:
    site, node, _ = settled()
    node.run(node.coordinator.scale(scale(4)))
    node.store.trouble = lambda name, given: RevisionConflict("moved on") if name == "commit" else None

    node.tick()
    heal(node)
    node.tick(2)

    assert node.coordinator._ticking.ended == node.clock.boot()


def test_a_group_that_changes_under_the_look_is_left_to_the_next_tick() -> None:
    site, node, member = settled()
    site.pass_time(EXPIRY_MS - 1_000, node)
    node.clock.advance(1_000)
    node.store.fail("commit", RevisionConflict("moved on"))

    node.tick()
    site.pass_time(1_000, node)

    assert site.group.members[member.name].state is MemberState.EXPIRED


def test_a_new_connection_in_the_middle_of_a_tick_makes_the_next_one_a_first_load() -> None:
    site, node, member = settled()
    site.pass_time(EXPIRY_MS - 1_000, node)
    node.clock.advance(1_000)
    tick = node.start(node.coordinator.tick()).go_to("> commit")
    node.connection.reconnect()

    tick.finish()

    assert node.desk.groups == {}
    assert site.group.members[member.name].state is MemberState.ACTIVE


def test_a_stream_that_is_being_created_is_finished_by_a_tick_but_has_no_groups_yet() -> None:
    site = Site(empty=True)
    first, second = site.node("first"), site.node("second")
    first.start(first.coordinator.create_stream(create())).go_to("> provision").kill()

    second.tick(2)

    assert site.stream.state is StreamState.ACTIVE
    assert site.group.layout.keys() == {S0, ShardIndex(1)}


def test_a_scale_out_ends_when_its_shards_are_held() -> None:
    site, node, member = settled()
    node.run(node.coordinator.scale(scale(3)))

    node.tick(2)
    before = site.stream.resharding
    node.beat(member)
    node.beat(member)
    node.tick(2)

    assert before is not None
    assert (before.state, site.stream.history[-1].state) == (ReshardingState.ACTIVE, ReshardingState.DEPRECATED)


def test_a_scale_in_seals_what_is_empty_once_no_producer_may_route_to_it() -> None:
    site, node, member = settled()
    node.run(node.coordinator.scale(scale(1)))

    for _ in range(12):
        site.pass_time(1_000, node)
        node.beat(member)

    assert site.stream.history[-1].state is ReshardingState.DEPRECATED
    assert "orders:1" not in site.world.streams


def test_a_scale_in_waits_for_a_record_that_nobody_has_read() -> None:
    site, node, member = settled()
    site.append(1)
    node.run(node.coordinator.scale(scale(1)))

    for _ in range(12):
        site.pass_time(1_000, node)
        node.beat(member)

    assert site.stream.resharding is not None
    assert len(site.world.entries("orders:1")) == 1


def test_a_record_that_breaks_an_invariant_by_itself_is_told_once_and_served() -> None:
    site, node, member = settled()
    rewrite(site, members={m.id: attrs.evolve(m, epoch=Epoch(99)) for m in site.group.members.values()})
    fresh = site.node("fresh")
    fresh.tick(3)

    assert fresh.coordinator._ticking.violations() == (
        "orders/billing: member a is in epoch 99, ahead of group epoch 2",
    )
    assert [event.text for event in fresh.coordinator.drain_events()] == [
        "member a is in epoch 99, ahead of group epoch 2"
    ]
    member.epoch = Epoch(99)
    assert fresh.beat(member).status is Status.OK


def test_a_step_that_no_coordinator_may_take_freezes_its_group() -> None:
    site, node, member = settled()
    rewrite(site, last_tokens={s: t - 1 for s, t in site.group.last_tokens.items()})
    broken = site.group

    node.tick(2)
    reply = node.beat(member)
    site.pass_time(EXPIRY_MS + 2_000, node)

    assert site.group is broken
    assert reply.status is Status.RETRY
    (violation,) = node.run(node.coordinator.health()).invariant_violations
    assert violation.startswith("orders/billing: frozen: group orders/billing is frozen: the last token of shard 0")


def test_a_broken_group_stays_frozen_over_a_new_connection() -> None:
    site, node, member = settled()
    rewrite(site, last_tokens={s: t - 1 for s, t in site.group.last_tokens.items()})
    node.tick()
    node.connection.reconnect()

    node.tick(2)

    assert node.beat(member).status is Status.RETRY


def test_a_new_lineage_ends_a_freeze() -> None:
    site, node, member = settled()
    rewrite(site, last_tokens={s: t - 1 for s, t in site.group.last_tokens.items()})
    node.tick()
    site.node("fresh").tick()

    node.tick()

    assert site.group.quarantine is not None
    assert node.coordinator._ticking.violations() == ()
    assert node.beat(member).status is Status.SYNC_METADATA


def test_lost_writes_are_mended_and_not_taken_for_a_breach() -> None:
    site, node, _ = settled()
    node.beat(Member("b", "2"))
    node.tick()
    site.memory.lose_suffix(1)

    node.tick(2)

    assert node.coordinator._ticking.violations() == ()


def test_a_rolled_back_scale_in_goes_on_where_redis_came_back() -> None:
    site, node, _ = settled()
    node.run(node.coordinator.scale(scale(1)))
    node.streams.fail("raise_layouts", StreamUnavailable("away"))
    node.run(node.coordinator.rollback(rollback()))

    node.tick(2)

    assert site.stream.history[-1].state is ReshardingState.ROLLED_BACK
    assert site.stream.routed_count == 2
