"""Streams and groups come into being whole, or not at all."""

import pytest

from streamshard.core.admin import CreateStream, GroupSpec
from streamshard.core.effects import GroupStart, Provision, ProvisionResult
from streamshard.core.ids import Generation, GroupName, ShardIndex, StreamPrefix
from streamshard.core.stream import EntryState, StreamState, StreamTombstone
from streamshard.core.stream_events import Provisioned, Undo
from streamshard.errors import (
    ActiveMigration,
    GroupExists,
    InvalidRequest,
    ShardCountMismatch,
    StateConflict,
    StreamExists,
)
from tests.unit.core.stream_bench import (
    ANN,
    AUDIT,
    BILLING,
    ORDERS,
    Desk,
    Shop,
    add_group,
    at_layout,
    create,
    drop_group,
    drop_stream,
    opened,
    run,
    scale,
)


def test_a_stream_is_invisible_until_every_shard_was_made() -> None:
    shop = Shop()

    outcome = shop.do(create(2))

    assert (outcome.changed, outcome.refusal, outcome.created_groups) == (True, None, ())
    assert (shop.record.state, shop.phases, shop.record.layout().shards) == (StreamState.CREATING, "PP", {})


def test_a_stream_opens_with_its_groups_once_one_round_made_every_shard() -> None:
    shop = Shop()
    desk = Desk(shop)
    shop.do(create(2, "billing", "audit"))

    desk.work()

    assert (shop.record.state, shop.phases, shop.record.routed_count) == (StreamState.ACTIVE, "OO", 2)
    assert {entry.state for entry in shop.record.groups.values()} == {EntryState.ACTIVE}
    assert shop.outcomes[-1].created_groups == (AUDIT, BILLING)
    assert shop.keys() == ["orders:0", "orders:1"]


def test_a_round_that_made_only_some_shards_opens_nothing() -> None:
    shop = Shop()
    desk = Desk(shop)
    shop.do(create(2))
    first, second = (order for order in desk.look() if isinstance(order, Provision))

    shop.do(Provisioned(((first, ProvisionResult.DONE), (second, ProvisionResult.SUPERSEDED))))

    assert (shop.record.state, shop.phases) == (StreamState.CREATING, "PP")


def test_answers_to_orders_of_another_layout_or_life_open_nothing() -> None:
    shop = Shop()
    desk = Desk(shop)
    shop.do(create(1))
    (order,) = (order for order in desk.look() if isinstance(order, Provision))

    late = shop.do(Provisioned(((at_layout(order, 7), ProvisionResult.DONE),)))
    unknown = Provision(ORDERS, ShardIndex(9), Generation(1), order.layout, ())
    strange = shop.do(Provisioned(((unknown, ProvisionResult.DONE),)))

    assert (late.changed, strange.changed) == (False, False)


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (create(0), "initialShardCount"),
        (create(17), "initialShardCount"),
        (CreateStream(ORDERS, ANN, 1, routing_protocol="md5"), "routingProtocol"),
        (CreateStream(StreamPrefix("a{b}"), ANN, 1), "streamPrefix"),
        (create(1, "a/b"), "consumerGroup"),
        (create(1, "a", "a"), "consumerGroups"),
        (CreateStream(ORDERS, ANN, 1, (GroupSpec(BILLING, "yesterday"),)), "startFrom"),
    ],
)
def test_a_create_that_makes_no_sense_names_the_field(command: CreateStream, field: str) -> None:
    shop = Shop()

    outcome = shop.do(command)

    assert isinstance(outcome.refusal, InvalidRequest)
    assert outcome.refusal.message.startswith(f"{field}: ")
    assert shop.stored is None


def test_a_stream_in_use_is_not_created_again() -> None:
    shop, _ = opened(2)

    assert isinstance(shop.do(create(2)).refusal, StreamExists)


def test_a_repeated_create_goes_on_with_the_unfinished_one() -> None:
    shop = Shop()
    shop.do(create(2))

    outcome = shop.do(create(2))

    assert (outcome.changed, outcome.refusal) == (False, None)


@pytest.mark.parametrize("other", [create(3), create(2, "audit")])
def test_another_create_waits_for_the_unfinished_one(other: CreateStream) -> None:
    shop = Shop()
    shop.do(create(2))

    assert isinstance(shop.do(other).refusal, StateConflict)


def test_a_key_of_somebody_else_stops_a_create_before_it_begins() -> None:
    shop = Shop()
    shop.world.create_foreign("orders:1", (GroupName("theirs"),))

    outcome = shop.do(create(2))

    assert isinstance(outcome.refusal, StreamExists)
    assert outcome.refusal.message.startswith("orders:1: not made by this stream: ")
    assert "--adopt" in outcome.refusal.message
    assert shop.stored is None


def test_records_that_a_deleted_stream_left_stop_a_create() -> None:
    shop, _ = opened(2)
    shop.write(1)
    shop.do(drop_stream())

    refusal = shop.do(create(2)).refusal

    assert isinstance(refusal, StreamExists)
    assert refusal.message == (
        "orders:1: left behind with what is in it by a stream of this name that was deleted: "
        "go on with it by adopt (--adopt), or delete the key"
    )


def test_empty_keys_that_a_deleted_stream_left_are_taken_over_in_a_later_life() -> None:
    shop, desk = opened(2)
    shop.do(drop_stream())
    grave = shop.stored
    assert isinstance(grave, StreamTombstone)

    shop.do(create(1))
    desk.work()

    assert (shop.phases, shop.generations) == ("OS", [2, 2])
    assert shop.record.layout_version > grave.layout_version
    assert shop.record.lineage != grave.version.lineage


def test_adopting_takes_over_what_is_there() -> None:
    shop = Shop()
    desk = Desk(shop)
    shop.world.create_foreign("orders:0")
    shop.write(0)

    shop.do(create(1, adopt=True))
    desk.work()

    assert (shop.phases, len(shop.world.entries("orders:0"))) == ("O", 1)


def test_a_foreign_key_that_comes_in_between_undoes_the_create() -> None:
    shop = Shop()
    desk = Desk(shop)
    shop.do(create(2))
    shop.world.create_foreign("orders:1", (GroupName("theirs"),))

    desk.work(1)
    refusals = [outcome.refusal for outcome in shop.outcomes if outcome.refusal is not None]
    desk.work()

    assert [type(refusal) for refusal in refusals] == [StreamExists]
    assert isinstance(shop.stored, StreamTombstone)
    assert shop.stored.generations == {0: 1, 1: 1}
    assert shop.keys() == ["orders:1"]


def test_an_undone_create_seals_what_it_made_and_leaves_a_grave() -> None:
    shop = Shop()
    desk = Desk(shop)
    shop.do(create(2))
    first, late = (order for order in desk.look() if isinstance(order, Provision))
    run(shop.backend.provision([first]))

    shop.do(Undo(ORDERS))
    desk.work()

    assert isinstance(shop.stored, StreamTombstone)
    assert run(shop.backend.provision([late])) == (ProvisionResult.SUPERSEDED,)
    assert shop.keys() == []


def test_only_an_unfinished_create_can_be_undone() -> None:
    shop, _ = opened(1)

    assert shop.do(Undo(ORDERS)).changed is False


def test_an_undo_waits_where_somebody_wrote_and_a_repeated_create_goes_on() -> None:
    shop = Shop()
    desk = Desk(shop)
    shop.do(create(2))
    run(shop.backend.provision([order for order in desk.look() if isinstance(order, Provision)]))
    shop.write(0)
    shop.do(Undo(ORDERS))
    desk.work()
    waiting = (shop.record.state, shop.phases)

    shop.do(create(2))
    desk.work()

    assert waiting == (StreamState.REMOVING, "PS")
    assert (shop.record.state, shop.phases, shop.generations) == (StreamState.ACTIVE, "OO", [1, 2])


def test_an_answer_says_nothing_about_a_stream_that_is_being_removed() -> None:
    shop = Shop()
    shop.do(create(1))
    shop.do(Undo(ORDERS))
    order = Provision(ORDERS, ShardIndex(0), Generation(1), shop.record.layout_version, ())

    assert shop.do(Provisioned(((order, ProvisionResult.DONE),))).changed is False


def test_a_group_comes_to_every_shard_before_anybody_sees_it() -> None:
    shop, desk = opened(2)
    layout = shop.record.layout_version

    begun = shop.do(add_group("audit", start="$"))
    orders = [order for order in desk.look() if isinstance(order, Provision)]
    desk.work()

    assert begun.created_groups == ()
    assert {order.groups for order in orders} == {(GroupStart(AUDIT, "$"),)}
    assert [outcome.created_groups for outcome in shop.outcomes if outcome.created_groups][-1] == (AUDIT,)
    assert shop.record.groups[AUDIT].state is EntryState.ACTIVE
    assert shop.record.layout_version == layout + 1
    assert all(AUDIT in stream.groups for stream in shop.world.streams.values())


def test_a_group_is_not_shown_while_a_shard_is_without_it() -> None:
    shop, desk = opened(2)
    shop.do(add_group("audit"))
    first, second = (order for order in desk.look() if isinstance(order, Provision))

    shop.do(Provisioned(((first, ProvisionResult.DONE), (second, ProvisionResult.SUPERSEDED))))

    assert shop.record.groups[AUDIT].state is EntryState.CREATING


def test_a_group_of_a_stream_without_shards_is_there_at_once() -> None:
    shop, desk = opened(1)
    shop.do(scale(0))
    desk.tick(3)
    shop.groups()

    assert shop.do(add_group("audit")).created_groups == (AUDIT,)


def test_a_stranger_on_a_shard_in_use_is_reported() -> None:
    shop, desk = opened(1)
    shop.do(add_group("audit"))
    (order,) = (order for order in desk.look() if isinstance(order, Provision))

    outcome = shop.do(Provisioned(((order, ProvisionResult.FOREIGN),)))

    assert isinstance(outcome.refusal, StreamExists)
    assert shop.record.groups[AUDIT].state is EntryState.CREATING


def test_a_repeated_create_of_a_group_goes_on_with_the_unfinished_one() -> None:
    shop, _ = opened(1)
    shop.do(add_group("audit"))

    outcome = shop.do(add_group("audit"))

    assert (outcome.changed, outcome.refusal) == (False, None)


def test_a_group_is_refused_for_what_stands_in_its_way() -> None:
    shop, _ = opened(2, "billing", "audit")
    shop.do(drop_group("audit"))

    refusals = [shop.do(command).refusal for command in (add_group("billing"), add_group("new", 3), add_group("audit"))]
    shop.do(drop_group("audit", keep=True))
    nameless = shop.do(add_group("a/b")).refusal

    assert [type(refusal) for refusal in refusals] == [GroupExists, ShardCountMismatch, StateConflict]
    assert isinstance(nameless, InvalidRequest)


def test_a_group_waits_for_a_resharding() -> None:
    shop, _ = opened(2)
    shop.do(scale(3))

    assert isinstance(shop.do(add_group("audit")).refusal, ActiveMigration)


def test_a_group_brings_its_stream_along() -> None:
    shop = Shop()
    desk = Desk(shop)

    shop.do(add_group("billing"))
    desk.work()

    assert (shop.phases, list(shop.record.groups)) == ("OO", [BILLING])


def test_a_group_goes_on_with_the_unfinished_stream_it_brought_along() -> None:
    shop = Shop()
    shop.do(add_group("billing", 3))

    outcome = shop.do(add_group("billing"))

    assert (outcome.refusal, outcome.changed, shop.phases) == (None, False, "PPP")


def test_a_create_continues_above_the_fences_of_a_store_that_is_gone() -> None:
    shop, _ = opened(1)
    again = Shop()
    again.world, again.backend = shop.world, shop.backend
    marked = shop.world.fences["orders:0"].layout

    again.do(add_group("billing", 1))

    assert again.generations == [2]
    assert again.record.layout_version == (marked or 0) + 1
