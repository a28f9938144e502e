"""Assigned and not read: said of whoever could read and does not, and of nobody else."""

from typing import Any

import attrs
import pytest

from streamshard.core.chronicle import Event
from streamshard.core.group import GroupRecord, Row, ShardProgress
from streamshard.core.ids import InstanceId, Millis, Nonce, Seq
from streamshard.core.unread import Unread, UnreadWatch, longest_handling, unread_for, unread_shards
from tests.unit.core.builders import A1, B1, KEY, LEASE, S0, S1, A, B, group, holding, member
from tests.unit.core.driving import Member, Site

BEAT = Millis(3_000)
LONG = Millis(9_001)


def progress(**given: Any) -> ShardProgress:
    return attrs.evolve(ShardProgress(S0, read_ago=LONG), **given)


def row(*progress: ShardProgress, instance: InstanceId = A1, available: int = 1) -> Row:
    return Row(instance, Seq(1), Nonce("m"), LEASE, available, progress)


def held(**given: Any) -> GroupRecord:
    return group(member(A, A1), targets={S0: A}, holdings={S0: holding(A, A1, 10, **given)})


def test_a_shard_that_could_be_read_and_is_not_is_told_with_how_long() -> None:
    assert unread_for(progress(), 1, BEAT) == LONG


@pytest.mark.parametrize(
    ("given", "available"),
    [
        pytest.param({"read_ago": None}, 1, id="a member that does not tell when it read"),
        pytest.param({"read_ago": Millis(9_000)}, 1, id="three heartbeats ago"),
        pytest.param({"in_flight": 1}, 1, id="a handler of it runs"),
        pytest.param({}, 0, id="no worker is free"),
        pytest.param({"read_state": "DRAINING"}, 1, id="it is being given up"),
    ],
)
def test_a_shard_that_is_not_to_be_read_now_is_not_told(given: dict[str, Any], available: int) -> None:
    assert unread_for(progress(**given), available, BEAT) is None


def test_a_group_tells_who_holds_what_is_not_read() -> None:
    assert unread_shards(held(), {A1: row(progress())}, BEAT) == {S0: Unread(A, LONG, "IDLE")}


@pytest.mark.parametrize("given", [{"draining": True}, {"lapsed": True}])
def test_what_is_on_its_way_out_is_not_told(given: dict[str, Any]) -> None:
    assert unread_shards(held(**given), {A1: row(progress())}, BEAT) == {}


def test_what_is_meant_for_somebody_else_is_not_told() -> None:
    record = attrs.evolve(held(), targets={S0: B})

    assert unread_shards(record, {A1: row(progress())}, BEAT) == {}


def test_what_an_instance_says_of_a_shard_that_it_does_not_hold_is_not_told() -> None:
    rows = {B1: row(progress(), instance=B1), A1: row(progress(shard=S1))}

    assert unread_shards(held(), rows, BEAT) == {}


def test_the_handler_that_has_run_longest_is_told() -> None:
    running = row(progress(handling_for=Millis(5)), progress(handling_for=Millis(7)), progress())

    assert (longest_handling(running), longest_handling(row(progress()))) == (7, None)


def told(text: str, kind: str = "unread") -> Event:
    return Event(kind, KEY.prefix, text, KEY.group, S0)


def test_it_is_told_once_when_it_begins_and_once_when_it_is_over() -> None:
    watch, remiss, fine = UnreadWatch(), {A1: row(progress())}, {A1: row(progress(read_ago=Millis(0)))}

    found = [watch.look(held(), rows, BEAT) for rows in (fine, remiss, remiss, fine, fine)]

    began = told("a holds it and has not read it for 9 s: no handler of it runs, so it could")
    assert found == [(), (began,), (), (told("by a, or it is no longer its", "read-again"),), ()]


def test_it_is_told_that_the_key_is_missing() -> None:
    (event,) = UnreadWatch().look(held(), {A1: row(progress(read_state="MISSING"))}, BEAT)

    assert event == told("a holds it and has not read it for 9 s: its key or its group is missing in Redis")


def test_the_next_owner_that_does_not_read_either_is_told_too() -> None:
    watch = UnreadWatch()
    watch.look(held(), {A1: row(progress())}, BEAT)
    record = group(member(B, B1), targets={S0: B}, holdings={S0: holding(B, B1, 11)})

    (event,) = watch.look(record, {B1: row(progress(), instance=B1)}, BEAT)

    assert event.text.startswith("b holds it")
    assert watch.of(KEY) == {S0: Unread(B, LONG, "IDLE")}


def test_groups_that_are_gone_are_forgotten() -> None:
    watch = UnreadWatch()
    watch.look(held(), {A1: row(progress())}, BEAT)

    watch.keep([])

    assert watch.of(KEY) == {}


def test_ticks_tell_of_it_once_until_it_is_read_again() -> None:
    node, one = Site(1).node(), Member()
    for _ in range(2):
        node.beat(one)
    node.tick()
    node.coordinator.drain_events()
    found = []

    for read_ago in (0, 12_000, 15_000, 0):
        node.beat(one, available=1, progress=(ShardProgress(S0, read_ago=Millis(read_ago)),))
        node.tick(2)
        found.append([(event.kind, event.shard) for event in node.coordinator.drain_events()])

    assert found == [[], [("unread", S0)], [], [("read-again", S0)]]
