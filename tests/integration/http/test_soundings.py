"""What Redis showed last: asked in large questions, seldom, and not shown for ever."""

import asyncio
from collections.abc import Sequence

import attrs

from streamshard.adapters.streams.memory_inspector import MemoryStreamInspector
from streamshard.adapters.streams.memory_world import MemoryStreams, Stream
from streamshard.core.ids import GroupKey, GroupName, ShardIndex, StreamPrefix
from streamshard.core.inspection import ShardLook
from streamshard.entrypoints.http.metrics_soundings import AT_ONCE, OLD_S, SHARE, YOUNG_S, Sounder

ORDERS = StreamPrefix("orders")
BILLING, AUDIT = GroupKey(ORDERS, GroupName("billing")), GroupKey(ORDERS, GroupName("audit"))


@attrs.define
class Watch:
    """Seconds, as a test says."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class Counting(MemoryStreamInspector):
    """Remembers how many shards each question was about, and takes its time over it."""

    def __init__(self, world: MemoryStreams, watch: Watch) -> None:
        super().__init__(world)
        self.asked: list[int] = []
        self.takes_s = 0.0
        self.gate = asyncio.Event()
        self.gate.set()
        self._watch = watch

    async def look(self, prefix: StreamPrefix, shards: Sequence[ShardIndex], group: GroupName) -> tuple[ShardLook, ...]:
        self.asked.append(len(shards))
        self._watch.now += self.takes_s
        await self.gate.wait()
        return await super().look(prefix, shards, group)


@attrs.frozen
class Rig:
    """A thing to be asked, and what asks it."""

    world: MemoryStreams = attrs.field(factory=MemoryStreams)
    watch: Watch = attrs.field(factory=Watch)
    inspector: Counting = attrs.field(init=False)
    sounder: Sounder = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.world.streams["orders:0"] = Stream()
        object.__setattr__(self, "inspector", Counting(self.world, self.watch))
        object.__setattr__(self, "sounder", Sounder(self.inspector, self.watch))

    async def seen(self, *keys: GroupKey, shards: int = 1) -> dict[GroupKey, int]:
        """Of how many shards of each group something is shown."""
        wanted = {key: tuple(map(ShardIndex, range(shards))) for key in keys or (BILLING,)}
        return {key: len(looks) for key, looks in (await self.sounder.look(wanted)).items()}


def test_each_group_is_asked_for_in_parts() -> None:
    async def scenario() -> None:
        rig = Rig()

        seen = await rig.seen(BILLING, AUDIT, shards=AT_ONCE + 1)

        assert seen == {BILLING: AT_ONCE + 1, AUDIT: AT_ONCE + 1}
        assert rig.inspector.asked == [AT_ONCE, 1, AT_ONCE, 1]

    asyncio.run(scenario())


def test_what_is_young_is_not_asked_for_again() -> None:
    async def scenario() -> None:
        rig = Rig()
        await rig.seen()
        rig.watch.now += YOUNG_S
        await rig.seen()
        before = len(rig.inspector.asked)
        rig.watch.now += 0.1
        await rig.seen()

        assert (before, len(rig.inspector.asked)) == (1, 2)

    asyncio.run(scenario())


def test_what_took_long_is_left_alone_for_long() -> None:
    async def scenario() -> None:
        rig = Rig()
        rig.inspector.takes_s = 2.0
        await rig.seen()
        rig.watch.now += SHARE * 2.0
        await rig.seen()
        before = len(rig.inspector.asked)
        rig.watch.now += 0.1
        await rig.seen()

        assert (before, len(rig.inspector.asked)) == (1, 2)

    asyncio.run(scenario())


def test_while_redis_is_away_the_last_look_is_shown_until_it_is_too_old() -> None:
    async def scenario() -> None:
        rig = Rig()
        await rig.seen()
        rig.world.go_down()
        rig.watch.now += YOUNG_S + OLD_S
        still = await rig.seen()
        rig.watch.now += 0.1

        assert (still, await rig.seen()) == ({BILLING: 1}, {})

    asyncio.run(scenario())


def test_a_group_that_is_not_wanted_any_more_is_forgotten() -> None:
    async def scenario() -> None:
        rig = Rig()
        await rig.seen(BILLING, AUDIT)
        rig.watch.now += YOUNG_S + 1
        await rig.seen(BILLING)

        assert await rig.seen(BILLING, AUDIT) == {BILLING: 1}

    asyncio.run(scenario())


def test_a_slow_redis_is_not_waited_for_without_end_and_asked_once() -> None:
    async def scenario() -> None:
        rig = Rig()
        rig.inspector.gate.clear()
        rig.sounder.wait_s = 0.01
        late = [await rig.seen(), await rig.seen()]
        rig.inspector.gate.set()
        rig.sounder.wait_s = 10.0

        assert (late, await rig.seen(), rig.inspector.asked) == ([{}, {}], {BILLING: 1}, [1])

    asyncio.run(scenario())


def test_stopping_breaks_the_asking_off() -> None:
    async def scenario() -> None:
        rig = Rig()
        rig.inspector.gate.clear()
        rig.sounder.wait_s = 0.01
        await rig.seen()

        rig.sounder.stop()

        rig.sounder.wait_s = 10.0
        assert await rig.seen() == {}
        assert [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(scenario())


def test_stopping_what_does_not_ask_is_nothing() -> None:
    Sounder(MemoryStreamInspector(MemoryStreams())).stop()
