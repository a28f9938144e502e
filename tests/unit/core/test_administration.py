"""Operators' commands: committed once, carried out by whoever is there, and answered as what they are."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from streamshard.adapters.stores.memory import Fault
from streamshard.core.admin import Amend, CreateGroup, DeleteGroup, DeleteStream, GroupSpec
from streamshard.core.group import GroupTombstone
from streamshard.core.ids import GroupKey, GroupName, ReshardingId, StreamPrefix
from streamshard.core.stream import EntryState, ReshardingState, StreamState
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
from tests.unit.core.driving import (
    ANN,
    AUDIT,
    BILLING,
    KEY,
    ORDERS,
    Node,
    Site,
    add_group,
    create,
    drop_group,
    drop_stream,
    keyed,
    rollback,
    scale,
    shape,
)


def started() -> tuple[Site, Node]:
    site = Site()
    node = site.node()
    node.tick(2)
    node.calls()
    return site, node


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
