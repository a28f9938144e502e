"""What monitoring reads, and that it only reads."""

import asyncio
from collections.abc import Awaitable, Callable

import attrs
import pytest

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_inspector import MemoryStreamInspector
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.admin import Author, CreateGroup, CreateStream, GroupSpec
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import Epoch, GroupKey, GroupName, InstanceId, MemberId, Seq, ShardIndex, StreamPrefix
from streamshard.core.inspection import Direction, Wanted
from streamshard.core.monitoring import Monitoring
from streamshard.core.queries import FrozenGroup
from streamshard.core.settings import CoordinatorSettings
from streamshard.errors import GroupNotFound, MetadataCorrupt, NotFound, StreamUnavailable
from streamshard.testing.clock import ManualClock, SeededEntropy
from tests.unit.core.driving import AUDIT, BILLING, Member, Site, create, drop_group

KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
ANN = Author("ann", "because")
WEB = InstanceId("0" * 31 + "1")
PAGE = Wanted(Direction.FORWARD, 10)


@attrs.frozen
class Scene:
    """A coordinator with a group of two shards and one member."""

    coordinator: Coordinator
    monitoring: Monitoring
    clock: ManualClock
    world: MemoryStreams


def play(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        world, clock = MemoryStreams(), ManualClock()
        backend, settings = MemoryStreamBackend(world), CoordinatorSettings("c-1")
        coordinator = Coordinator(MemoryStore(), backend, clock, SeededEntropy(), settings)
        monitoring = coordinator.monitoring(MemoryStreamInspector(world))
        await coordinator.create_group(CreateGroup(KEY, ANN, GroupSpec(KEY.group), 2))
        await coordinator.heartbeat(KEY, Heartbeat(MemberId("web"), Intent.JOIN, Epoch(0), WEB, Seq(1)))
        await scenario(Scene(coordinator, monitoring, clock, world))

    asyncio.run(main())


def test_a_group_that_nothing_is_done_to_is_listed_with_why() -> None:
    site = Site(empty=True)
    node = site.node()
    node.run(node.coordinator.create_stream(create(2, BILLING, AUDIT.group)))
    node.store.trouble = lambda name, given: (
        MetadataCorrupt("bits have flipped") if name == "load_group" and given == (KEY,) else None
    )
    views, frozen = node.run(node.coordinator.monitoring().groups())

    assert [view.record.key for view in views] == [AUDIT]
    assert frozen == (FrozenGroup(KEY, "bits have flipped"),)


def test_a_group_that_a_forbidden_step_has_changed_is_listed_as_frozen_too() -> None:
    node = Site().node()
    node.tick()
    node.desk.groups[KEY].broken = ("the group epoch ran backwards",)

    _, frozen = node.run(node.coordinator.monitoring().groups())

    assert frozen == (FrozenGroup(KEY, "the group epoch ran backwards"),)


def test_a_frozen_group_that_can_be_read_can_be_deleted_by_force() -> None:
    site = Site()
    node = site.node()
    node.beat(Member())
    node.tick()
    node.desk.groups[KEY].broken = ("the group epoch ran backwards",)

    node.run(node.coordinator.delete_group(attrs.evolve(drop_group(), force=True)))

    assert node.run(node.coordinator.monitoring().groups()) == ((), ())


def test_every_stream_is_listed_also_one_without_groups() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.coordinator.create_stream(CreateStream(StreamPrefix("alone"), ANN, 1))

        assert [record.prefix for record in await scene.monitoring.streams()] == ["alone", "orders"]

    play(scenario)


def test_a_member_is_present_once_it_was_heard() -> None:
    async def scenario(scene: Scene) -> None:
        heard = scene.clock.wall()
        scene.clock.advance(2_000)
        view = await scene.coordinator.group(KEY)

        assert {i: p.heard_at for i, p in scene.monitoring.presences(view).items()} == {WEB: heard}

    play(scenario)


def test_a_sound_group_breaks_no_rule_and_an_unsound_one_is_told_of() -> None:
    async def scenario(scene: Scene) -> None:
        view = await scene.coordinator.group(KEY)
        unsound = attrs.evolve(view, record=attrs.evolve(view.record, assignment_epoch=Epoch(99)))

        assert scene.monitoring.violations(view) == ()
        assert scene.monitoring.violations(unsound) == ("assignment epoch 99 is ahead of group epoch 2",)

    play(scenario)


def test_offsets_are_of_the_shards_that_are_read() -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.add("orders:1", {b"a": b"1"})
        found = await scene.monitoring.offsets(KEY)

        assert [(s.look.shard, s.owner, s.look.length) for s in found.shards] == [(0, "web", 0), (1, "web", 1)]

    play(scenario)


def test_records_come_from_the_streams_own_shards_alone() -> None:
    async def scenario(scene: Scene) -> None:
        record = scene.world.add("orders:1", {b"a": b"1"})
        pages = await scene.monitoring.messages(KEY, [ShardIndex(1), ShardIndex(0)], PAGE)
        with pytest.raises(NotFound, match="no shard 2"):
            await scene.monitoring.messages(KEY, [ShardIndex(2)], PAGE)

        assert [[entry.id for entry in page.entries] for page in pages] == [[record], []]

    play(scenario)


def test_a_group_that_is_not_there_is_not_looked_at() -> None:
    async def scenario(scene: Scene) -> None:
        nobody = GroupKey(KEY.prefix, GroupName("nobody"))

        for asking in (scene.monitoring.offsets(nobody), scene.monitoring.messages(nobody, [], PAGE)):
            with pytest.raises(GroupNotFound):
                await asking

    play(scenario)


def test_without_an_inspector_shards_stay_dark() -> None:
    async def scenario(scene: Scene) -> None:
        blind = scene.coordinator.monitoring()

        for asking in (blind.offsets(KEY), blind.messages(KEY, [ShardIndex(0)], PAGE)):
            with pytest.raises(StreamUnavailable, match="inspector"):
                await asking

    play(scenario)
