"""The coordinator as everybody outside sees it: settings that can work, events, health as measured."""

import asyncio
from collections.abc import Sequence

import attrs
import pytest

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.coordinator import STALLED_TICKS, Coordinator
from streamshard.core.ids import Millis, ShardIndex, StreamPrefix
from streamshard.core.invariants import group_violations, reader_violations
from streamshard.core.queries import Health
from streamshard.core.replies import Status
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.stream import FenceMark
from streamshard.core.timing import Timing
from streamshard.errors import (
    ConfigurationError,
    MetadataCorrupt,
    StoreUnavailable,
    StreamPermissionMissing,
    StreamUnavailable,
)
from streamshard.testing.clock import ManualClock, SeededEntropy
from tests.unit.core.driving import KEY, TIMING, Member, Node, Site, scale


def measured(node: Node) -> Health:
    return node.run(node.coordinator.health())


def test_durations_that_can_not_work_are_refused_at_once() -> None:
    settings = CoordinatorSettings("c", Timing(heartbeat_ms=Millis(14_000)))

    with pytest.raises(ConfigurationError, match="lease_ms"):
        Coordinator(MemoryStore(), MemoryStreamBackend(MemoryStreams()), ManualClock(), SeededEntropy(), settings)


def test_a_coordinator_that_ticks_over_a_store_and_a_redis_is_up() -> None:
    node = Site().node("c1")
    node.tick()

    assert measured(node) == Health("c1", "UP", "UP", "UP")


def test_a_coordinator_that_has_not_ticked_yet_is_not_running() -> None:
    assert measured(Site().node()).loop == "STALLED"


def test_a_loop_may_be_late_by_some_ticks_and_a_heartbeat() -> None:
    node = Site().node()
    node.tick()

    node.clock.advance(STALLED_TICKS * TIMING.tick_ms + TIMING.heartbeat_ms)
    late = measured(node).loop
    node.clock.advance(1)

    assert (late, measured(node).loop) == ("UP", "STALLED")


def test_a_store_that_does_not_answer_is_down() -> None:
    node = Site().node()
    node.tick()
    node.store.fail("prefixes", StoreUnavailable("away"))

    health = measured(node)

    assert (health.store, health.redis, health.status) == ("DOWN", "UP", "DOWN")


def test_a_store_that_answers_reads_alone_is_told_apart_until_it_takes_a_write() -> None:
    node = Site().node("c1")
    node.tick()
    member = Member()
    node.store.fail("commit", StoreUnavailable("the disk is full"))
    node.beat(member)
    full = measured(node)
    node.beat(member)

    assert [(seen.store, seen.status) for seen in (full, measured(node))] == [("READ_ONLY", "DEGRADED"), ("UP", "UP")]


def test_a_refused_write_is_forgotten_after_a_lease_without_another() -> None:
    node = Site().node("c1")
    node.store.fail("commit", StoreUnavailable("the disk is full"))
    node.beat(Member())

    node.clock.advance(TIMING.lease_ms + 1)
    node.tick()

    assert measured(node) == Health("c1", "UP", "UP", "UP")


def test_a_redis_that_does_not_answer_is_down_and_the_coordinator_degraded() -> None:
    node = Site().node()
    node.tick()
    node.streams.fail("read_fences", StreamUnavailable("away"))

    health = measured(node)

    assert (health.store, health.redis, health.status) == ("UP", "DOWN", "DEGRADED")


def test_to_be_refused_a_stream_that_is_there_is_as_bad_as_no_answer() -> None:
    node = Site().node()
    node.tick()
    node.streams.fail("read_fences", StreamPermissionMissing("NOPERM"))

    assert measured(node).redis == "DOWN"


def test_to_be_refused_while_there_is_no_stream_is_an_answer() -> None:
    class Guarded(MemoryStreamBackend):
        async def read_fences(self, prefix: StreamPrefix, shards: Sequence[ShardIndex]) -> tuple[FenceMark, ...]:
            raise StreamPermissionMissing(f"NOPERM {prefix}")

    settings = CoordinatorSettings("c", TIMING)
    coordinator = Coordinator(MemoryStore(), Guarded(MemoryStreams()), ManualClock(), SeededEntropy(), settings)

    assert asyncio.run(coordinator.health()).redis == "UP"


@pytest.mark.parametrize(
    ("away", "seen"),
    [((), ("UP", "UP")), (("10.0.0.2:7000",), ("PARTLY_DOWN", "DEGRADED")), (None, ("DOWN", "DEGRADED"))],
    ids=["none", "some", "all"],
)
def test_nodes_that_are_away_degrade_the_coordinator(away: tuple[str, ...] | None, seen: tuple[str, str]) -> None:
    class Nodes(MemoryStreamBackend):
        async def away(self) -> tuple[str, ...]:
            if away is None:
                raise StreamUnavailable("all of them")
            return away

    clock = ManualClock()
    coordinator = Coordinator(
        MemoryStore(), Nodes(MemoryStreams()), clock, SeededEntropy(), CoordinatorSettings("c", TIMING)
    )

    async def scenario() -> Health:
        await coordinator.tick()
        return await coordinator.health()

    health = asyncio.run(scenario())

    assert (health.redis, health.status) == seen


def test_a_frozen_group_degrades_health_and_names_itself() -> None:
    node = Site().node()
    node.store.trouble = lambda name, given: MetadataCorrupt("bits have flipped") if name == "load_group" else None
    node.tick()

    health = measured(node)

    assert (health.status, health.invariant_violations) == (
        "DEGRADED",
        ("orders/billing: frozen: bits have flipped",),
    )


def test_events_are_drained_once() -> None:
    node = Site().node()
    node.beat(Member())

    first, second = node.coordinator.drain_events(), node.coordinator.drain_events()

    assert ([event.kind for event in first], second) == (["member-joined", "granted", "granted"], ())


def test_a_shard_moves_once_its_holder_has_given_it_up() -> None:
    site = Site()
    node, one, other = site.node(), Member("a", "1"), Member("b", "2")
    node.beat(one)
    node.beat(one)

    waiting = node.beat(other)
    asked = node.beat(one)
    released = node.beat(one)
    granted = node.beat(other)

    assert (waiting.assigned, len(waiting.pending)) == ((), 1)
    assert asked.assigned == released.assigned
    assert granted.assigned == waiting.pending
    assert not set(granted.assigned) & set(released.assigned)


@pytest.mark.parametrize("coordinators", [1, 2, 3])
def test_members_that_ask_coordinators_in_turn_share_the_shards_and_no_two_read_one(coordinators: int) -> None:
    site = Site(shards=12)
    nodes = [site.node(f"c{i}") for i in range(coordinators)]
    members = [Member(f"m{i}", str(i)) for i in range(5)]

    for turn in range(8):
        for number, member in enumerate(members):
            assert nodes[(turn + number) % coordinators].beat(member).status is Status.OK
            readers = [(s, m.instance, t) for m in members for s, t in m.holds.items()]
            assert reader_violations(readers) == ()
        site.pass_time(1_000, *nodes)

    assert sorted(len(member.holds) for member in members) == [2, 2, 2, 3, 3]
    assert group_violations(site.group) == ()


def test_an_outage_of_the_coordinators_moves_nothing() -> None:
    site = Site(shards=6)
    members = [Member(f"m{i}", str(i)) for i in range(3)]
    first = site.node("first")
    for _ in range(4):
        for member in members:
            first.beat(member)
    before = {member.name: dict(member.holds) for member in members}
    site.pass_time(300_000)

    second = site.node("second")
    second.tick(3)
    for member in members:
        second.beat(member)

    assert {member.name: dict(member.holds) for member in members} == before


def test_a_coordinator_with_a_longer_lease_makes_the_others_wait_for_it() -> None:
    site = Site()
    long = site.node("long", attrs.evolve(TIMING, lease_ms=Millis(60_000)))
    short, member = site.node("short"), Member()
    long.beat(member)
    short.tick(2)

    site.pass_time(30_000, short)

    assert site.group.members[member.name].live
    site.pass_time(32_000, short)
    assert not site.group.members[member.name].live


def test_everything_goes_on_while_another_coordinator_stands_in_a_tick() -> None:
    site = Site()
    first, second, member = site.node("first"), site.node("second"), Member()
    second.beat(member)
    standing = first.start(first.coordinator.tick()).go_to("> load_group")
    second.run(second.coordinator.scale(scale(3)))
    second.tick()
    second.beat(member)
    second.beat(member)

    standing.finish()
    second.tick(2)

    assert site.group.quarantine is None
    assert (len(member.holds), site.stream.resharding) == (3, None)
    assert KEY in first.desk.groups
