"""Reads: what is there, and nothing changed by looking."""

import pytest

from streamshard.core.admin import CreateGroup, CreateStream, GroupSpec
from streamshard.core.ids import GroupKey, GroupName, ReshardingId, StreamPrefix
from streamshard.core.replies import Routing
from streamshard.core.stream import EntryState, StreamState
from streamshard.errors import GroupNotFound, MetadataCorrupt, MigrationNotFound, StreamNotFound
from tests.unit.core.driving import ANN, KEY, ORDERS, Member, Node, Site, create, rollback, scale

VOID = StreamPrefix("void")
AUDIT = GroupKey(ORDERS, GroupName("audit"))


def started() -> tuple[Site, Node]:
    site = Site()
    node = site.node()
    node.tick(2)
    return site, node


def test_a_stream_is_shown_as_it_is_stored() -> None:
    site, node = started()

    assert node.run(node.coordinator.stream(ORDERS)) is site.stream


def test_routing_comes_from_the_streams_record_alone() -> None:
    site, node = started()
    node.calls()

    routing = node.run(node.coordinator.routing(KEY))

    assert node.calls() == ["load_stream"]
    assert routing == Routing(
        key=KEY,
        shard_count=2,
        layout_version=site.stream.layout_version,
        lineage=site.stream.lineage,
        metadata_version=site.stream.version.revision,
        protocol="murmur3-v1",
        lease_ms=site.timing.routing_lease_ms,
    )


def test_routing_says_that_a_resharding_is_active() -> None:
    _, node = started()
    node.run(node.coordinator.scale(scale(1)))

    routing = node.run(node.coordinator.routing(KEY))

    assert (routing.shard_count, routing.resharding_active) == (1, True)


def test_there_is_no_routing_for_a_group_that_does_not_exist() -> None:
    _, node = started()

    with pytest.raises(GroupNotFound):
        node.run(node.coordinator.routing(AUDIT))


def test_there_is_no_routing_for_a_stream_that_does_not_exist() -> None:
    _, node = started()

    with pytest.raises(StreamNotFound):
        node.run(node.coordinator.routing(GroupKey(VOID, GroupName("g"))))


def test_a_stream_that_is_being_created_is_not_shown_to_members_and_producers() -> None:
    site = Site(empty=True)
    node = site.node()
    node.start(node.coordinator.create_stream(create())).go_to("> provision").kill()
    node.let_run()

    with pytest.raises(StreamNotFound):
        node.run(node.coordinator.routing(KEY))

    assert site.stream.state is StreamState.CREATING


def test_a_group_is_shown_with_its_stream_and_its_renewals() -> None:
    site, node = started()
    member = Member()
    node.beat(member)

    view = node.run(node.coordinator.group(KEY))

    assert (view.stream, view.record, list(view.rows)) == (site.stream, site.group, [member.instance])


def test_a_group_whose_record_is_gone_is_not_found() -> None:
    site, node = started()
    site.memory._shelf.groups.clear()

    with pytest.raises(GroupNotFound):
        node.run(node.coordinator.group(KEY))


def test_every_group_is_listed_by_stream_and_name() -> None:
    _, node = started()
    for name in ("zebra", "alarms"):
        node.run(node.coordinator.create_stream(CreateStream(StreamPrefix(name), ANN, 1, create().groups)))

    keys = [str(view.record.key) for view in node.run(node.coordinator.groups())]

    assert keys == ["alarms/billing", "orders/billing", "zebra/billing"]


def test_a_corrupt_group_hides_nobody_but_itself() -> None:
    site = Site(empty=True)
    node = site.node()
    node.run(node.coordinator.create_stream(create(1, "audit", "billing")))
    node.store.trouble = lambda name, given: MetadataCorrupt("bits") if given == (AUDIT,) else None

    assert [view.record.key for view in node.run(node.coordinator.groups())] == [KEY]


def test_a_corrupt_stream_hides_nobody_but_itself() -> None:
    _, node = started()
    node.run(node.coordinator.create_stream(CreateStream(StreamPrefix("alarms"), ANN, 1, create().groups)))
    node.store.trouble = lambda name, given: MetadataCorrupt("bits") if given == ("alarms",) else None

    assert [view.record.key for view in node.run(node.coordinator.groups())] == [KEY]


def test_a_group_that_is_being_created_is_not_listed() -> None:
    site, node = started()
    node.start(node.coordinator.create_group(CreateGroup(AUDIT, ANN, GroupSpec(AUDIT.group)))).go_to(
        "> provision"
    ).kill()
    node.let_run()

    assert site.stream.groups[AUDIT.group].state is EntryState.CREATING
    assert [view.record.key for view in node.run(node.coordinator.groups())] == [KEY]


def test_a_running_resharding_says_what_it_waits_for() -> None:
    site, node = started()
    site.append(1, 3)
    node.run(node.coordinator.scale(scale(1)))
    node.tick(2)

    view = node.run(node.coordinator.migration(ORDERS, ReshardingId("r1")))

    assert (view.rollback_eligible, view.provisioned, view.to_provision) == (True, 0, 0)
    assert [(look.shard, look.group, look.lag) for look in view.draining] == [(1, "billing", 3)]


def test_an_ended_resharding_waits_for_nothing() -> None:
    _, node = started()
    node.run(node.coordinator.scale(scale(4)))
    node.tick(2)

    view = node.run(node.coordinator.migration(ORDERS, ReshardingId("r1")))

    assert (view.rollback_eligible, view.provisioned, view.to_provision, view.draining) == (False, 2, 2, ())


def test_reshardings_are_listed_oldest_first_with_the_active_one_last() -> None:
    _, node = started()
    node.run(node.coordinator.scale(scale(1)))
    node.run(node.coordinator.rollback(rollback()))
    node.run(node.coordinator.scale(scale(1, "r2")))

    ids = [view.resharding.id for view in node.run(node.coordinator.migrations(ORDERS))]

    assert ids == ["r1", "r2"]


def test_a_resharding_that_is_not_on_record_is_not_found() -> None:
    _, node = started()

    with pytest.raises(MigrationNotFound):
        node.run(node.coordinator.migration(ORDERS, ReshardingId("r9")))


def test_reads_ask_redis_for_nothing_and_write_nothing() -> None:
    _, node = started()
    node.calls()

    node.run(node.coordinator.stream(ORDERS))
    node.run(node.coordinator.group(KEY))
    node.run(node.coordinator.groups())
    node.run(node.coordinator.migrations(ORDERS))

    assert set(node.calls()) == {"prefixes", "load_stream", "load_group"}
