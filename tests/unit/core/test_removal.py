"""Deleting groups and streams."""

from streamshard.core.effects import DropGroup, DropShard, GuardResult, Provision, ProvisionResult
from streamshard.core.stream import EntryState, StreamState, StreamTombstone
from streamshard.core.stream_events import Tidied
from streamshard.errors import (
    ActiveMigration,
    GroupHasMembers,
    GroupNotFound,
    IdempotencyKeyReused,
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
    keyed,
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


def test_data_is_dropped_with_whatever_is_on_the_keys_and_the_record_stays_until_it_is() -> None:
    shop, desk = opened(2)
    shop.write(0, 3)

    outcome = shop.do(drop_stream(drop_data=True))
    meanwhile, keys = shop.record.state, shop.keys()
    desk.work()

    assert (outcome.removed_groups, meanwhile, keys) == ((BILLING,), StreamState.REMOVING, ["orders:0", "orders:1"])
    assert (type(shop.stored), shop.keys()) == (StreamTombstone, [])
    assert [fence.sealed for fence in shop.world.fences.values()] == [True, True]


def test_a_stream_that_is_drained_already_has_no_data_to_drop() -> None:
    shop, desk = opened(1)
    shop.do(scale(0))
    desk.tick(3)
    shop.groups()

    shop.do(drop_stream(drop_data=True))

    assert (type(shop.stored), shop.keys()) == (StreamTombstone, [])


def test_another_coordinator_goes_on_with_a_drop_whose_answer_was_lost() -> None:
    shop, desk = opened(2)
    shop.do(drop_stream(drop_data=True))
    orders = [order for order in desk.look() if isinstance(order, DropShard)]
    run(shop.backend.tidy(orders))

    Desk(shop).work()

    assert isinstance(shop.stored, StreamTombstone)
    assert (shop.stored.generations, [o for o in shop.outcomes if o.discontinuity]) == ({0: 1, 1: 1}, [])


def test_a_dropped_stream_can_be_created_anew_only_once_it_is_gone() -> None:
    shop, desk = opened(2)
    shop.do(drop_stream(drop_data=True))

    refusal = shop.do(create(2)).refusal
    desk.work()
    shop.do(create(2))
    desk.work()

    assert isinstance(refusal, StateConflict)
    assert (shop.phases, shop.generations) == ("OO", [2, 2])


def test_a_drop_that_was_decided_before_a_re_creation_does_nothing_after_it() -> None:
    shop, desk = opened(1)
    shop.do(drop_stream(drop_data=True))
    late = [order for order in desk.look() if isinstance(order, DropShard)]
    desk.work()
    shop.do(create(1))
    desk.work()
    shop.write(0)

    results = run(shop.backend.tidy(late))

    assert (results, shop.keys()) == ((GuardResult.SUPERSEDED,), ["orders:0"])


def test_a_repeated_delete_is_answered_alike_over_the_grave() -> None:
    shop, _ = opened(2)
    first = shop.do(drop_stream(author=keyed("k")))

    again = shop.do(drop_stream(author=keyed("k")))

    assert (again.replayed, again.changed, again.answer) == (True, False, first.answer)


def test_a_repeated_delete_does_not_delete_a_successor() -> None:
    shop, desk = opened(2)
    shop.do(drop_stream(author=keyed("k")))
    shop.do(create(3))
    desk.work()

    again = shop.do(drop_stream(author=keyed("k")))

    assert (again.replayed, shop.phases) == (True, "OOO")


def test_a_key_of_a_deleted_stream_is_not_used_for_another_request() -> None:
    shop, _ = opened(2)
    shop.do(drop_stream(author=keyed("k")))

    assert isinstance(shop.do(drop_stream(author=keyed("k", "other"))).refusal, IdempotencyKeyReused)


def test_a_create_that_was_carried_out_does_not_bring_a_deleted_stream_back() -> None:
    shop = Shop()
    shop.do(create(2, author=keyed("k")))
    Desk(shop).work()
    shop.do(drop_stream())

    refusal = shop.do(create(2, author=keyed("k"))).refusal

    assert isinstance(refusal, StreamNotFound)


def test_a_create_that_was_given_up_may_be_tried_again_under_its_key() -> None:
    shop = Shop()
    shop.do(create(2, author=keyed("k")))
    shop.do(drop_stream())
    Desk(shop).work()

    outcome = shop.do(create(2, author=keyed("k")))

    assert (outcome.refusal, shop.record.state) == (None, StreamState.CREATING)
