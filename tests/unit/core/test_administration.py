"""Operators' commands: committed once, carried out by whoever is there, and answered as what they are."""

from collections.abc import Callable, Coroutine
from typing import Any

import attrs
import pytest

from streamshard.adapters.stores.memory import Fault
from streamshard.core.admin import Amend, CreateGroup, DeleteGroup, DeleteStream, GroupSpec
from streamshard.core.coordinator import Coordinator
from streamshard.core.group import GroupTombstone
from streamshard.core.ids import GroupKey, GroupName, ReshardingId, StreamPrefix
from streamshard.core.stream import EntryState, ReshardingState, StreamState, StreamTombstone
from streamshard.errors import (
    GroupNotFound,
    MetadataCorrupt,
    ProvisioningFailed,
    ShardCountUnchanged,
    StateConflict,
    StoreUnavailable,
    StreamExists,
    StreamNotFound,
    StreamUnavailable,
)
from tests.unit.core.driving import ANN, BILLING, KEY, ORDERS, Member, Node, Site, create, keyed, rollback, scale

AUDIT = GroupKey(ORDERS, GroupName("audit"))
Call = Callable[[Coordinator], Coroutine[Any, Any, object]]


def add_group(**more: Any) -> CreateGroup:
    return CreateGroup(AUDIT, ANN, GroupSpec(AUDIT.group), **more)


def drop_group() -> DeleteGroup:
    return DeleteGroup(KEY, ANN)


def drop_stream() -> DeleteStream:
    return DeleteStream(ORDERS, ANN)


def started() -> tuple[Site, Node]:
    site = Site()
    node = site.node()
    node.tick(2)
    node.calls()
    return site, node


def shape(site: Site) -> tuple[object, ...]:
    """What a stream has come to, without the numbers that count attempts."""
    stored = site.memory._shelf.streams.get(ORDERS)
    keys = sorted(site.world.streams)
    if stored is None or isinstance(stored, StreamTombstone):
        return None, keys
    phases = "".join(shard.phase.value[0] for shard in stored.shards.values())
    ended = [(r.from_count, r.to_count, r.state.value) for r in stored.history]
    running = stored.resharding is not None
    groups = {name: entry.state.value for name, entry in stored.groups.items()}
    return stored.state.value, stored.routed_count, phases, ended, running, groups, keys


def live_on(site: Site, node: Node, member: Member, seconds: int = 14) -> None:
    """A coordinator ticks and a member beats until everything that can end has ended."""
    for _ in range(seconds):
        site.pass_time(1_000, node)
        if KEY in node.desk.groups or ORDERS in node.desk.layouts:
            node.beat(member)


def test_a_stream_is_there_with_its_keys_and_groups_once_it_is_answered() -> None:
    site = Site(empty=True)
    node = site.node()

    record = node.run(node.coordinator.create_stream(create(2)))

    assert record == site.stream
    assert shape(site) == ("ACTIVE", 2, "OO", [], False, {"billing": "ACTIVE"}, ["orders:0", "orders:1"])


def test_a_repeated_create_with_its_key_is_answered_with_the_stream() -> None:
    site = Site(empty=True)
    node = site.node()
    first = node.run(node.coordinator.create_stream(create(2, author=keyed("k"))))

    again = node.run(node.coordinator.create_stream(create(2, author=keyed("k"))))

    assert again == first


def test_a_stream_is_not_made_over_keys_of_others() -> None:
    site = Site(empty=True)
    site.world.create_foreign("orders:1", (GroupName("theirs"),))
    node = site.node()

    with pytest.raises(StreamExists):
        node.run(node.coordinator.create_stream(create(2)))

    assert shape(site) == (None, ["orders:1"])


def test_a_create_that_meets_a_key_made_meanwhile_is_taken_back() -> None:
    site = Site(empty=True)
    node = site.node()
    errand = node.start(node.coordinator.create_stream(create(2))).go_to("> provision")
    site.world.create_foreign("orders:1", (GroupName("theirs"),))

    with pytest.raises(StreamExists):
        errand.finish()

    assert shape(site) == (None, ["orders:1"])


def test_a_create_that_redis_breaks_off_is_taken_back() -> None:
    site = Site(empty=True)
    node = site.node()
    node.streams.fail("provision", StreamUnavailable("away"))

    with pytest.raises(ProvisioningFailed):
        node.run(node.coordinator.create_stream(create(2)))
    node.tick(3)

    assert shape(site) == (None, [])


def test_a_create_that_can_not_be_taken_back_now_is_taken_back_by_a_tick() -> None:
    site = Site(empty=True)
    node = site.node()
    errand = node.start(node.coordinator.create_stream(create(2))).go_to("> provision")
    node.streams.trouble = lambda name, given: StreamUnavailable("away")

    with pytest.raises(ProvisioningFailed):
        errand.finish()
    node.let_run()
    node.streams.trouble = lambda name, given: None
    node.tick(4)

    assert shape(site) == (None, [])


def test_a_take_back_that_the_store_does_not_write_down_ends() -> None:
    site = Site(empty=True)
    node = site.node()
    errand = node.start(node.coordinator.create_stream(create(2))).go_to("< provision")
    node.let_run()
    site.memory._shelf.streams[ORDERS] = attrs.evolve(site.stream, state=StreamState.REMOVING)
    node.streams.fail("probe", StreamUnavailable("away"))
    node.store.trouble = lambda name, given: StoreUnavailable("read-only") if name == "commit" else None

    with pytest.raises((ProvisioningFailed, StateConflict, StoreUnavailable)):
        errand.finish()

    assert site.stream.state is StreamState.REMOVING


def test_a_stream_that_is_stuck_while_it_is_created_can_be_deleted() -> None:
    site = Site(empty=True)
    node = site.node()
    node.start(node.coordinator.create_stream(create(2))).go_to("> provision").kill()
    node.let_run()

    node.run(node.coordinator.delete_stream(drop_stream()))
    node.tick(3)

    assert shape(site) == (None, [])


def test_a_group_is_created_on_a_stream_that_exists() -> None:
    site, node = started()

    view = node.run(node.coordinator.create_group(add_group()))

    assert view.record.key == AUDIT
    assert sorted(site.world.streams["orders:0"].groups) == ["audit", "billing"]


def test_a_group_is_created_with_its_stream() -> None:
    site = Site(empty=True)
    node = site.node()

    view = node.run(node.coordinator.create_group(add_group(shard_count=3)))

    assert (view.stream.routed_count, list(view.stream.groups)) == (3, ["audit"])


def test_a_repeated_create_of_a_group_with_its_key_is_answered_with_the_group() -> None:
    _, node = started()
    command = CreateGroup(AUDIT, keyed("k"), GroupSpec(AUDIT.group))
    first = node.run(node.coordinator.create_group(command))

    again = node.run(node.coordinator.create_group(command))

    assert again == first


def test_a_group_that_redis_kept_from_being_made_is_made_by_a_tick() -> None:
    site, node = started()
    node.streams.fail("provision", StreamUnavailable("away"))

    with pytest.raises(ProvisioningFailed):
        node.run(node.coordinator.create_group(add_group()))
    node.tick()

    assert site.stream.groups[AUDIT.group].state is EntryState.ACTIVE


def test_a_create_that_another_operator_gave_up_says_so() -> None:
    site = Site(empty=True)
    node, other = site.node(), site.node("other")
    errand = node.start(node.coordinator.create_stream(create(2))).go_to("> provision")
    other.run(other.coordinator.delete_stream(drop_stream()))
    other.tick(3)

    with pytest.raises(StateConflict, match="repeat the request"):
        errand.finish()

    assert shape(site) == (None, [])


def test_a_corrupt_group_stops_nobody_from_creating_and_deleting_others() -> None:
    _, node = started()
    node.run(node.coordinator.create_group(add_group()))
    node.store.trouble = _corrupt(KEY)

    node.run(node.coordinator.delete_group(DeleteGroup(AUDIT, ANN)))
    view = node.run(node.coordinator.create_group(add_group()))

    assert view.record.key == AUDIT


def test_a_stream_with_a_corrupt_group_is_not_scaled() -> None:
    site, node = started()
    before = site.stream
    node.store.trouble = _corrupt(KEY)

    with pytest.raises(MetadataCorrupt):
        node.run(node.coordinator.scale(scale(4)))

    assert site.stream == before


def _corrupt(key: GroupKey) -> Callable[[str, tuple[Any, ...]], Exception | None]:
    return lambda name, given: MetadataCorrupt("bits") if name == "load_group" and given == (key,) else None


def test_a_scale_out_routes_to_its_shards_as_soon_as_they_are_made() -> None:
    site, node = started()

    view = node.run(node.coordinator.scale(scale(4)))

    assert (view.resharding.state, view.provisioned, view.to_provision) == (ReshardingState.ACTIVE, 2, 2)
    assert shape(site)[1:3] == (4, "OOOO")


def test_a_scale_that_is_committed_is_answered_as_such_while_redis_is_away() -> None:
    site, node = started()
    node.streams.fail("provision", StreamUnavailable("away"))

    view = node.run(node.coordinator.scale(scale(4)))

    assert (view.resharding.state, view.provisioned) == (ReshardingState.PREPARING, 0)
    assert site.stream.resharding == view.resharding


def test_a_scale_that_is_committed_is_answered_as_such_if_the_store_goes_away_then() -> None:
    site, node = started()
    errand = node.start(node.coordinator.scale(scale(4))).go_to("< commit")
    node.store.trouble = lambda name, given: StoreUnavailable("away")

    view = errand.finish()

    assert (view.resharding.id, view.resharding.state) == ("r1", ReshardingState.PREPARING)
    assert site.stream.resharding == view.resharding


def test_a_scale_to_the_present_count_is_refused() -> None:
    _, node = started()

    with pytest.raises(ShardCountUnchanged):
        node.run(node.coordinator.scale(scale(2)))


def test_a_running_resharding_can_be_amended() -> None:
    site, node = started()
    site.append(1)
    node.run(node.coordinator.scale(scale(1)))

    view = node.run(node.coordinator.amend(Amend(ORDERS, ANN, ReshardingId("r1"), (GroupName("old"),))))

    assert view.resharding.ignore_foreign_groups == ("old",)


def test_a_scale_in_that_is_rolled_back_at_once_has_every_shard_again() -> None:
    site, node = started()
    node.run(node.coordinator.scale(scale(1)))

    view = node.run(node.coordinator.rollback(rollback()))

    assert view.resharding.state is ReshardingState.ROLLED_BACK
    assert shape(site)[1:3] == (2, "OO")


def test_a_group_is_deleted_with_its_redis_groups() -> None:
    site, node = started()

    node.run(node.coordinator.delete_group(drop_group()))

    assert isinstance(site.memory._shelf.groups[KEY], GroupTombstone)
    assert (list(site.stream.groups), list(site.world.streams["orders:0"].groups)) == ([], [])


def test_a_group_is_deleted_while_redis_is_away_and_its_redis_groups_follow() -> None:
    site, node = started()
    node.streams.fail("tidy", StreamUnavailable("away"))

    node.run(node.coordinator.delete_group(drop_group()))
    between = site.stream.groups[BILLING].state
    node.tick()

    assert (between, list(site.stream.groups)) == (EntryState.REMOVING, [])


def test_a_group_that_is_being_deleted_is_gone_for_who_asks_without_a_key() -> None:
    _, node = started()
    node.streams.trouble = lambda name, given: StreamUnavailable("away") if name == "tidy" else None
    node.run(node.coordinator.delete_group(drop_group()))

    with pytest.raises(GroupNotFound):
        node.run(node.coordinator.delete_group(drop_group()))


def test_a_group_that_does_not_exist_can_not_be_deleted() -> None:
    _, node = started()

    with pytest.raises(GroupNotFound):
        node.run(node.coordinator.delete_group(DeleteGroup(AUDIT, ANN)))


def test_a_stream_is_deleted_and_its_keys_stay() -> None:
    site, node = started()

    node.run(node.coordinator.delete_stream(drop_stream()))

    assert shape(site) == (None, ["orders:0", "orders:1"])
    assert node.run(node.store.prefixes()) == ()


def test_a_stream_that_does_not_exist_can_not_be_deleted() -> None:
    _, node = started()

    with pytest.raises(StreamNotFound):
        node.run(node.coordinator.delete_stream(DeleteStream(StreamPrefix("void"), ANN)))


@pytest.mark.parametrize("fault", [Fault.UNCERTAIN_APPLIED, Fault.UNCERTAIN_LOST])
def test_a_command_whose_commit_went_unanswered_is_carried_out_once(fault: Fault) -> None:
    site, node = started()
    node.connection.fail_next(fault)

    view = node.run(node.coordinator.scale(scale(1)))

    assert view.resharding.state is ReshardingState.DRAINING
    assert (site.stream.resharding, site.stream.history) == (view.resharding, ())


def _create(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.create_stream(create(2))


def _scale_out(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.scale(scale(4))


def _scale_in(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.scale(scale(1))


def _roll_back(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.rollback(rollback())


def _add_group(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.create_group(add_group())


def _drop_group(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.delete_group(drop_group())


def _drop_stream(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.delete_stream(drop_stream())


CRASHES: list[tuple[str, tuple[Call, ...], Call]] = [
    ("create", (), _create),
    ("scale out", (_create,), _scale_out),
    ("scale in", (_create,), _scale_in),
    ("rollback out", (_create, _scale_out), _roll_back),
    ("rollback in", (_create, _scale_in), _roll_back),
    ("create group", (_create,), _add_group),
    ("delete group", (_create,), _drop_group),
    ("delete stream", (_create,), _drop_stream),
]


@pytest.mark.parametrize(("before", "crashing"), [case[1:] for case in CRASHES], ids=[case[0] for case in CRASHES])
def test_a_coordinator_may_die_at_any_call_and_another_finishes_what_was_committed(
    before: tuple[Call, ...], crashing: Call
) -> None:
    undisturbed, died, ends = _ends(before, crashing, None), 0, []
    unchanged = _ends(before, None, None)

    while (end := _ends(before, crashing, died)) is not None:
        ends.append(end)
        died += 1

    assert died > 4
    assert undisturbed not in (None, unchanged)
    assert [end for end in ends if end not in (undisturbed, unchanged)] == []
    assert ends[0] == unchanged
    assert ends[-1] == undisturbed
    assert sorted(ends, key=lambda end: end == undisturbed) == ends


def _ends(before: tuple[Call, ...], crashing: Call | None, steps: int | None) -> tuple[object, ...] | None:
    """What the stream comes to if a coordinator dies after so many calls; None if it was done before that."""
    site = Site(empty=True)
    first, second = site.node("first"), site.node("second")
    for call in before:
        first.run(call(first.coordinator))
    if crashing is not None and steps is None:
        first.run(crashing(first.coordinator))
    elif crashing is not None and steps is not None:
        errand = first.start(crashing(first.coordinator))
        for _ in range(steps + 1):
            errand.step()
            if errand.done:
                return None
        errand.kill()
    live_on(site, second, Member())
    return shape(site)


@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_a_coordinator_may_die_at_any_call_of_a_tick_that_seals(steps: int) -> None:
    site = Site()
    first, second = site.node("first"), site.node("second")
    first.run(first.coordinator.scale(scale(1)))
    site.pass_time(6_000, first)
    for node in site.nodes:
        node.clock.advance(1_000)
    errand = first.start(first.coordinator.tick())
    for _ in range(steps):
        if not errand.done:
            errand.step()
    errand.kill()

    live_on(site, second, Member(), 20)

    assert shape(site)[:4] == ("ACTIVE", 1, "OS", [(2, 1, "DEPRECATED")])
