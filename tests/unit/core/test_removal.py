"""Deleting groups and streams."""

from streamshard.core.effects import DropGroup, GuardResult, Provision, ProvisionResult
from streamshard.core.ids import GroupName
from streamshard.core.stream import EntryState, StreamState, StreamTombstone
from streamshard.core.stream_events import Tidied
from streamshard.errors import (
    ActiveMigration,
    GroupHasMembers,
    GroupNotFound,
    InvalidRequest,
    StateConflict,
    StreamNotFound,
)
from tests.unit.core.stream_bench import (
    AUDIT,
    BILLING,
    Desk,
    Shop,
    add_group,
    create,
    drop_group,
    drop_stream,
    opened,
    run,
    scale,
)


def test_a_group_is_buried_at_once_and_then_dropped_from_every_shard() -> None:
    shop, desk = opened(2, "billing", "audit")
    layout = shop.record.layout_version

    outcome = shop.do(drop_group("audit"))
    at_once = shop.record.groups[AUDIT].state
    desk.work()

    assert outcome.removed_groups == (AUDIT,)
    assert at_once is EntryState.REMOVING
    assert (list(shop.record.groups), shop.record.layout_version) == ([BILLING], layout + 1)
    assert [list(stream.groups) for stream in shop.world.streams.values()] == [[BILLING], [BILLING]]


def test_a_group_that_was_not_dropped_everywhere_in_one_round_is_asked_for_again() -> None:
    shop, desk = opened(2, "billing", "audit")
    shop.do(drop_group("audit"))
    first, second = (order for order in desk.look() if isinstance(order, DropGroup))

    shop.do(Tidied(((first, GuardResult.DONE), (second, GuardResult.SUPERSEDED))))

    assert shop.record.groups[AUDIT].state is EntryState.REMOVING


def test_a_redis_group_that_is_to_be_kept_stays() -> None:
    shop, desk = opened(1, "billing", "audit")

    outcome = shop.do(drop_group("audit", keep=True))
    desk.work()

    assert outcome.removed_groups == (AUDIT,)
    assert list(shop.record.groups) == [BILLING]
    assert sorted(shop.world.streams["orders:0"].groups) == [AUDIT, BILLING]


def test_a_late_drop_spares_the_group_of_the_same_name_that_came_after() -> None:
    shop, desk = opened(1, "billing", "audit")
    shop.do(drop_group("audit"))
    late = [order for order in desk.look() if isinstance(order, DropGroup)]
    desk.work()
    shop.do(add_group("audit"))
    desk.work()

    assert run(shop.backend.tidy(late)) == (GuardResult.SUPERSEDED,)
    assert sorted(shop.world.streams["orders:0"].groups) == [AUDIT, BILLING]


def test_a_late_provision_does_not_bring_a_deleted_group_back() -> None:
    shop, desk = opened(1)
    shop.do(add_group("audit"))
    late = [order for order in desk.look() if isinstance(order, Provision)]
    desk.work()
    shop.do(drop_group("audit"))
    desk.work()

    assert run(shop.backend.provision(late)) == (ProvisionResult.SUPERSEDED,)
    assert sorted(shop.world.streams["orders:0"].groups) == [BILLING]


def test_an_unfinished_group_can_be_deleted_and_has_no_record_to_bury() -> None:
    shop, desk = opened(1)
    shop.do(add_group("audit"))

    outcome = shop.do(drop_group("audit"))
    desk.work()

    assert (outcome.removed_groups, list(shop.record.groups)) == ((), [BILLING])


def test_a_repeated_delete_of_a_group_goes_on() -> None:
    shop, _ = opened(1, "billing", "audit")
    shop.do(drop_group("audit"))

    outcome = shop.do(drop_group("audit"))

    assert (outcome.changed, outcome.refusal, outcome.removed_groups) == (False, None, ())


def test_live_members_are_in_the_way_unless_forced() -> None:
    shop, _ = opened(1)
    shop.live = {BILLING: 2}

    refused = [shop.do(command).refusal for command in (drop_group("billing"), drop_stream())]
    forced = shop.do(drop_group("billing", force=True))

    assert [type(refusal) for refusal in refused] == [GroupHasMembers, GroupHasMembers]
    assert forced.removed_groups == (BILLING,)


def test_a_delete_waits_for_a_resharding() -> None:
    shop, _ = opened(1)
    shop.do(scale(2))

    refusals = [shop.do(command).refusal for command in (drop_group("billing", force=True), drop_stream(force=True))]

    assert [type(refusal) for refusal in refusals] == [ActiveMigration, ActiveMigration]


def test_what_is_not_there_cannot_be_deleted() -> None:
    shop, _ = opened(1)

    assert isinstance(shop.do(drop_group("nobody")).refusal, GroupNotFound)
    assert isinstance(Shop().do(drop_stream()).refusal, StreamNotFound)
    assert isinstance(Shop().do(drop_group("billing")).refusal, StreamNotFound)


def test_a_group_of_an_unfinished_stream_waits() -> None:
    shop = Shop()
    shop.do(create(1))

    assert isinstance(shop.do(drop_group("billing")).refusal, StateConflict)


def test_a_deleted_stream_leaves_its_numbers_and_its_keys() -> None:
    shop, _ = opened(2, "billing", "audit")
    layout = shop.record.layout_version
    shop.write(0)

    outcome = shop.do(drop_stream())

    assert outcome.removed_groups == (AUDIT, BILLING)
    assert isinstance(shop.stored, StreamTombstone)
    assert (shop.stored.layout_version, shop.stored.generations) == (layout + 1, {0: 1, 1: 1})
    assert shop.keys() == ["orders:0", "orders:1"]


def test_deleting_an_unfinished_stream_undoes_it() -> None:
    shop = Shop()
    desk = Desk(shop)
    shop.do(create(2))
    shop.do(drop_stream())
    shop.do(drop_stream())
    state = shop.record.state
    desk.work()

    assert state is StreamState.REMOVING
    assert isinstance(shop.stored, StreamTombstone)


def test_data_is_dropped_only_after_it_was_proven_empty() -> None:
    shop, desk = opened(1)
    refusal = shop.do(drop_stream(drop_data=True)).refusal
    shop.do(scale(0))
    desk.tick(3)
    shop.groups()

    outcome = shop.do(drop_stream(drop_data=True))

    assert isinstance(refusal, InvalidRequest)
    assert "scale the stream to 0" in refusal.message
    assert (outcome.removed_groups, shop.keys()) == ((GroupName("billing"),), [])
