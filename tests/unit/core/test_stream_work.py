"""Work on a stream's record: decided again after a lost race, carried out in rounds that anybody may go on with."""

from typing import Any

import pytest

from streamshard.adapters.stores.memory import Fault
from streamshard.core.admin import DeleteStream
from streamshard.core.ids import GroupName, LayoutVersion, ShardIndex, StreamPrefix
from streamshard.core.stream import ShardPhase, StreamTombstone
from streamshard.core.stream_events import GroupsSeen, Undo
from streamshard.core.stream_work import MAX_ATTEMPTS, Round, StreamWork
from streamshard.errors import (
    CommitUncertain,
    MetadataCorrupt,
    RevisionConflict,
    SourceChanged,
    StateConflict,
    StoreUnavailable,
    StreamExists,
    StreamUnavailable,
)
from tests.unit.core.driving import ANN, KEY, ORDERS, Member, Node, Site, create, rollback, scale


def started(shards: int = 2) -> tuple[Site, Node, StreamWork]:
    site = Site(shards)
    node = site.node()
    node.tick(2)
    node.calls()
    return site, node, node.coordinator._work


def test_a_command_is_decided_again_after_a_lost_race() -> None:
    site, node, work = started()
    node.store.fail("commit", RevisionConflict("moved on"), SourceChanged("another connection"))

    outcome = node.run(work.command(ORDERS, scale(4)))

    assert outcome.resharding == site.stream.resharding
    assert node.calls().count("commit") == 3


def test_a_stream_that_never_stands_still_is_given_up_after_a_number_of_attempts() -> None:
    site, node, work = started()
    before = site.stream
    node.store.fail("commit", *[RevisionConflict("moved on")] * MAX_ATTEMPTS)

    with pytest.raises(StateConflict, match="kept changing"):
        node.run(work.command(ORDERS, scale(4)))

    assert site.stream is before


def test_a_store_that_keeps_nothing_it_is_given_is_no_conflict() -> None:
    site, node, work = started()
    before = site.stream
    node.store.fail("commit", *[CommitUncertain("disk I/O error")] * MAX_ATTEMPTS)

    with pytest.raises(StoreUnavailable, match="keeps nothing that is written of stream 'orders'"):
        node.run(work.command(ORDERS, scale(4)))

    assert site.stream is before


def test_what_a_decision_refuses_is_raised() -> None:
    _, node, work = started()

    with pytest.raises(StreamExists):
        node.run(work.command(ORDERS, create(2)))


def test_an_observation_that_changes_nothing_is_not_committed() -> None:
    _, node, work = started()

    outcome = node.run(work.command(ORDERS, GroupsSeen(())))

    assert not outcome.changed
    assert node.calls() == ["load_stream"]


def test_giving_up_a_stream_that_is_in_use_changes_nothing() -> None:
    site, node, work = started()
    before = site.stream

    node.run(work.command(ORDERS, Undo(ORDERS)))

    assert site.stream is before


@pytest.mark.parametrize("command", [create(3), scale(4), scale(1)], ids=["create", "scale out", "scale in"])
@pytest.mark.parametrize("fault", [Fault.UNCERTAIN_APPLIED, Fault.UNCERTAIN_LOST])
def test_a_commit_without_an_answer_is_looked_up_and_never_repeated(command: Any, fault: Fault) -> None:
    site = Site(empty=isinstance(command, type(create())))
    node = site.node()
    node.connection.fail_next(fault)

    outcome = node.run(node.coordinator._work.command(ORDERS, command))

    stored = site.stream
    assert outcome.record is not None
    assert outcome.record.version.revision == stored.version.revision
    assert stored.version.revision == (1 if not stored.resharding else 3)


def test_a_look_for_a_commit_waits_for_a_store_that_is_away_for_a_moment() -> None:
    site, node, work = started()
    node.connection.fail_next(Fault.UNCERTAIN_APPLIED)
    errand = node.start(work.command(ORDERS, scale(4))).go_to("> commit")
    node.store.fail("load_stream", StoreUnavailable("away"), StoreUnavailable("away"))

    outcome = errand.finish()

    assert outcome.record == site.stream


def test_a_look_for_a_commit_ends_with_what_a_store_says_that_stays_away() -> None:
    _, node, work = started()
    node.connection.fail_next(Fault.UNCERTAIN_APPLIED)
    errand = node.start(work.command(ORDERS, scale(4))).go_to("> commit")
    node.store.trouble = lambda name, given: StoreUnavailable("away") if name == "load_stream" else None

    with pytest.raises(StoreUnavailable):
        errand.finish()


def test_the_delete_of_a_stream_that_went_unanswered_is_found_in_its_grave() -> None:
    site, node, _ = started()
    errand = node.start(node.coordinator.delete_stream(DeleteStream(ORDERS, ANN))).go_to("> commit")
    node.connection.fail_next(Fault.UNCERTAIN_APPLIED)

    errand.finish()

    assert isinstance(site.memory._shelf.streams[ORDERS], StreamTombstone)


def test_a_group_whose_record_stands_already_is_taken_as_it_is() -> None:
    site = Site(empty=True)
    node = site.node()
    other = Site()
    site.memory._shelf.groups[KEY] = other.group

    node.run(node.coordinator.create_stream(create(2)))

    assert site.group is other.group


def test_a_group_whose_record_is_gone_leaves_no_grave() -> None:
    site, node, _ = started()
    site.memory._shelf.groups.clear()

    node.run(node.coordinator.delete_stream(DeleteStream(ORDERS, ANN)))

    assert site.memory._shelf.groups == {}


def test_a_round_over_nothing_asks_for_nothing() -> None:
    _, node, work = started()

    assert node.run(work.round(StreamPrefix("void"))) == Round(None)
    assert node.calls() == ["load_stream"]


def test_a_round_over_a_stream_at_rest_asks_nothing_of_redis() -> None:
    site, node, work = started()

    assert node.run(work.round(ORDERS)) == Round(site.stream)
    assert node.calls() == ["load_stream"]


def test_the_first_round_reads_the_marks_before_anything_is_believed() -> None:
    site = Site()
    node = site.node()

    turn = node.run(node.coordinator._work.round(ORDERS))

    assert (turn.worked, node.calls()) == (True, ["load_stream"] * 3 + ["read_fences"])


def test_a_new_connection_to_the_store_is_a_first_look_at_every_stream() -> None:
    _, node, work = started()
    node.connection.reconnect()

    node.run(work.round(ORDERS))

    assert "read_fences" in node.calls()


def test_a_sight_of_a_stream_that_is_gone_is_dropped() -> None:
    _, node, work = started()
    node.run(node.coordinator.delete_stream(DeleteStream(ORDERS, ANN)))

    node.run(work.round(ORDERS))

    assert work._sights == {}


def test_a_round_that_redis_breaks_off_is_gone_on_with_by_the_next() -> None:
    site, node, work = started()
    node.run(work.command(ORDERS, scale(4)))
    node.streams.fail("provision", StreamUnavailable("away"))

    with pytest.raises(StreamUnavailable):
        node.run(work.round(ORDERS))
    node.run(work.round(ORDERS))

    assert site.stream.routed_count == 4


def test_an_answer_of_redis_that_makes_the_request_impossible_is_handed_on() -> None:
    site, node, work = started()
    node.run(work.command(ORDERS, scale(4)))
    site.world.create_foreign("orders:3", (GroupName("theirs"),))

    turn = node.run(work.round(ORDERS))

    assert isinstance(turn.refusal, StreamExists)


def test_an_answer_of_redis_that_others_took_in_is_left_to_them() -> None:
    site, node, work = started()
    node.run(work.command(ORDERS, scale(4)))
    node.store.fail("commit", *[RevisionConflict("moved on")] * MAX_ATTEMPTS)

    turn = node.run(work.round(ORDERS))

    assert (turn.refusal, turn.record) == (None, site.stream)


@pytest.mark.parametrize("error", [StoreUnavailable("away"), MetadataCorrupt("bits have flipped")])
def test_a_store_that_fails_is_no_refusal(error: Exception) -> None:
    _, node, work = started()
    node.run(work.command(ORDERS, scale(4)))
    node.store.fail("commit", error)

    with pytest.raises(type(error)):
        node.run(work.round(ORDERS))


def test_a_counter_that_is_off_is_mended_so_that_an_empty_shard_can_go() -> None:
    site, node, _ = started()
    member = Member()
    site.append(1, 3)
    for record in site.world.entries("orders:1")[1:2]:
        site.world.delete_record("orders:1", record.id)
    stream = site.world.streams["orders:1"]
    stream.deliver(KEY.group, "c", 9)
    stream.groups[KEY.group].pending.clear()
    stream.groups[KEY.group].entries_read = None
    node.run(node.coordinator.scale(scale(1)))

    for _ in range(14):
        site.pass_time(1_000, node)
        node.beat(member)

    assert site.stream.shards[ShardIndex(1)].phase is ShardPhase.SEALED


def test_a_shard_that_was_sealed_before_its_rollback_gets_another_life() -> None:
    site, node, work = started()
    node.run(work.command(ORDERS, scale(1)))
    fence = site.world.fences["orders:1"]
    fence.sealed = True
    site.world.lose_shard("orders:1")

    node.run(node.coordinator.rollback(rollback()))
    node.tick(3)

    assert site.stream.shards[ShardIndex(1)].generation == 2
    assert "orders:1" in site.world.streams


def test_a_stream_whose_store_lost_a_layout_catches_up_with_its_marks() -> None:
    site, node, work = started()
    before = site.stream
    site.world.fences["orders:0"].layout = LayoutVersion(site.stream.layout_version + 5)
    fresh = site.node("fresh")

    fresh.run(fresh.coordinator._work.round(ORDERS))

    assert site.stream.lineage != before.lineage
    assert site.stream.layout_version > before.layout_version + 5
    assert [event.kind for event in fresh.coordinator.drain_events()] == ["stream-lineage"]
    assert node.run(work.round(ORDERS)).record is not None


def test_what_was_seen_of_a_stream_is_shown() -> None:
    site, node, work = started()

    fresh = site.node("fresh").coordinator._work

    assert work.sight(site.stream) is work.sight(site.stream)
    assert fresh.sight(site.stream).looks == {}
    assert fresh._sights == {}


def test_what_was_seen_of_streams_that_are_gone_is_dropped() -> None:
    _, _, work = started()

    work.forget_streams({StreamPrefix("other")})

    assert work._sights == {}


def test_what_was_seen_of_present_streams_is_kept() -> None:
    _, _, work = started()

    work.forget_streams({ORDERS})

    assert list(work._sights) == [ORDERS]
