"""What changed between two committed versions, in words."""

from typing import Any

import attrs

from streamshard.core.admin import DeleteGroup, DeleteStream
from streamshard.core.chronicle import Event, alarms, gone, group_events, stream_events
from streamshard.core.commands import Intent
from streamshard.core.ids import Epoch, GroupName, Millis, ShardIndex
from streamshard.core.stream import ShardPhase
from streamshard.core.stream_events import StreamOutcome
from tests.unit.core.driving import (
    ANN,
    BILLING,
    EXPIRY_MS,
    KEY,
    ORDERS,
    S0,
    S1,
    TIMING,
    Member,
    Node,
    Site,
    create,
    rollback,
    scale,
)


def settled(**timing: int) -> tuple[Site, Node, Member]:
    given: dict[str, Any] = {name: Millis(ms) for name, ms in timing.items()}
    site = Site(timing=attrs.evolve(TIMING, **given))
    node, member = site.node(), Member()
    node.beat(member)
    node.beat(member)
    node.tick(2)
    node.coordinator.drain_events()
    return site, node, member


def told(node: Node) -> list[str]:
    return [e.kind if e.shard is None else f"{e.kind} {e.shard}" for e in node.coordinator.drain_events()]


def test_a_stream_and_its_groups_are_told_when_they_are_there() -> None:
    site = Site(empty=True)
    node = site.node()

    node.run(node.coordinator.create_stream(create(2)))

    assert node.coordinator.drain_events() == (
        Event("stream-creating", ORDERS, "2 shards"),
        Event("group-created", ORDERS, "2 shards", BILLING),
        Event("stream-active", ORDERS, "2 shards"),
    )


def test_a_join_and_its_grants_are_told() -> None:
    site = Site()
    node = site.node()
    node.beat(Member())

    tokens = {s: h.token for s, h in site.group.holdings.items()}

    assert node.coordinator.drain_events() == (
        Event("member-joined", ORDERS, "a", BILLING),
        *(Event("granted", ORDERS, f"to a under token {t}", BILLING, s) for s, t in tokens.items()),
    )


def test_the_same_record_tells_nothing() -> None:
    site, _, _ = settled()

    assert group_events(site.group, site.group) == ()


def test_a_renewal_tells_nothing() -> None:
    _, node, member = settled()

    node.beat(member)

    assert told(node) == []


def test_a_goodbye_tells_what_was_released() -> None:
    _, node, member = settled()

    node.beat(member, intent=Intent.LEAVE, epoch=Epoch(-1), holds=())

    assert told(node) == ["member-left", "released 0", "released 1"]


def test_a_goodbye_of_one_that_still_drains_is_told_as_such() -> None:
    _, node, member = settled()

    node.beat(member, intent=Intent.LEAVE, epoch=Epoch(-1))

    assert told(node) == ["member-leaving"]


def test_an_expiry_is_told_with_what_it_frees() -> None:
    site, node, _ = settled()

    site.pass_time(EXPIRY_MS, node)

    assert told(node) == ["member-expired", "released 0", "released 1"]


def test_a_fenced_member_is_told() -> None:
    _, node, member = settled()

    for _ in range(3):
        node.beat(member, view=None, metadata_version=10_000)

    assert told(node)[-1] == "member-fenced"


def test_a_member_that_was_terminal_and_is_forgotten_has_not_left() -> None:
    site, node, _ = settled(terminal_ms=1_000)

    site.pass_time(EXPIRY_MS + 4_000, node)

    assert "member-left" not in told(node)
    assert dict(site.group.members) == {}


def test_another_instance_under_a_name_is_a_join() -> None:
    site, node, _ = settled()
    site.pass_time(7_000, node)

    node.beat(Member("a", "2"))

    assert told(node) == ["member-joined"]


def test_a_lapse_is_told() -> None:
    site, node, member = settled(rebalance_timeout_ms=2_000)
    node.beat(Member("b", "2"))
    node.coordinator.drain_events()

    site.pass_time(3_000, node)

    (kind,) = told(node)
    assert kind in ("lapsed 0", "lapsed 1")


def test_a_quarantine_and_its_end_are_told() -> None:
    site, node, member = settled()
    node.beat(Member("b", "2"))
    site.memory.lose_suffix(1)
    node.coordinator.drain_events()

    site.pass_time(EXPIRY_MS + 3_000, node)

    kinds = told(node)
    assert (kinds[0], "quarantine-over" in kinds) == ("quarantine", True)


def test_a_regrant_under_another_token_is_a_release_and_a_grant() -> None:
    site, _, _ = settled()
    record = site.group
    later = attrs.evolve(record.holdings[S0], token=type(record.holdings[S0].token)(record.holdings[S0].token + 1))

    events = group_events(record, attrs.evolve(record, holdings={**record.holdings, S0: later}))

    assert [(e.kind, e.shard) for e in events] == [("released", 0), ("granted", 0)]


def test_a_scale_out_tells_its_states_and_the_new_routing() -> None:
    _, node, _ = settled()

    node.run(node.coordinator.scale(scale(3)))

    assert node.coordinator.drain_events() == (
        Event("resharding", ORDERS, "2 -> 3: PREPARING (r1)"),
        Event("routing", ORDERS, "2 -> 3 shards"),
        Event("resharding", ORDERS, "2 -> 3: ACTIVE (r1)"),
    )


def test_a_rollback_tells_how_it_ended() -> None:
    _, node, _ = settled()
    node.run(node.coordinator.scale(scale(1)))
    node.coordinator.drain_events()

    node.run(node.coordinator.rollback(rollback()))

    assert told(node) == ["resharding", "routing", "resharding"]


def test_a_seal_is_told_once() -> None:
    site, node, member = settled()
    node.run(node.coordinator.scale(scale(1)))
    for _ in range(12):
        site.pass_time(1_000, node)
        node.beat(member)

    assert told(node).count("sealed 1") == 1


def test_a_shard_that_comes_sealed_into_a_record_is_told() -> None:
    site, _, _ = settled()
    sealed = attrs.evolve(site.stream.shards[S1], index=ShardIndex(5), phase=ShardPhase.SEALED)

    (event,) = stream_events(
        site.stream, attrs.evolve(site.stream, shards={**site.stream.shards, sealed.index: sealed})
    )

    assert (event.kind, event.shard) == ("sealed", 5)


def test_deletes_are_told() -> None:
    _, node, member = settled()
    node.run(node.coordinator.delete_group(DeleteGroup(KEY, ANN, force=True)))

    node.run(node.coordinator.delete_stream(DeleteStream(ORDERS, ANN)))

    events = node.coordinator.drain_events()
    assert [event for event in events if event.kind.endswith("deleted")] == [gone(ORDERS, BILLING), gone(ORDERS)]


def test_a_retired_key_that_came_back_is_an_alarm() -> None:
    outcome = StreamOutcome(None, revived=(S0, S1))

    assert [(e.kind, e.shard) for e in alarms(ORDERS, outcome)] == [("revived", 0), ("revived", 1)]


def test_lost_writes_of_a_stream_are_an_alarm() -> None:
    outcome = StreamOutcome(None, discontinuity="a fence is ahead")

    assert alarms(ORDERS, outcome) == (Event("stream-lineage", ORDERS, "a fence is ahead"),)


def test_a_key_that_came_back_is_told_by_the_coordinator_that_found_it() -> None:
    site, node, member = settled()
    node.run(node.coordinator.scale(scale(1)))
    for _ in range(12):
        site.pass_time(1_000, node)
        node.beat(member)
    fence = site.world.fences["orders:1"]
    site.world.create_foreign("orders:1", (GroupName("billing"),))
    node.coordinator.drain_events()

    site.pass_time(61_000, node)

    assert fence.generation is not None
    assert "revived 1" in told(node)
