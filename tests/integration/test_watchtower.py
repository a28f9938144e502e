"""Held watches: woken by commits, whoever made them; never asked for one by one."""

import asyncio
from collections.abc import Sequence

import attrs
import pytest

from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.adapters.stores.memory import Fault, MemoryStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.adapters.watchtower import WatchedCoordinator, Watchtower
from streamshard.core.admin import Author, CreateStream, DeleteGroup, DeleteStream, GroupSpec, Scale
from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import (
    Epoch,
    GroupKey,
    GroupName,
    InstanceId,
    MemberId,
    Millis,
    ReshardingId,
    Seq,
    StreamPrefix,
    Version,
)
from streamshard.core.notices import GroupWatch, LayoutWatch
from streamshard.core.replies import HeartbeatReply, News
from streamshard.core.settings import CoordinatorSettings
from streamshard.errors import GroupNotFound, StreamNotFound, Terminating

KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
TESTER = Author("tester", "a test")
LONG, SHORT = Millis(20_000), Millis(50)


class CountingStore(MemoryStore):
    """Counts how often versions are asked for, and of how many records."""

    asked: tuple[int, int] = (0, 0)

    async def versions(self, keys: Sequence[GroupKey | StreamPrefix]) -> dict[GroupKey | StreamPrefix, Version]:
        self.asked = (self.asked[0] + 1, max(self.asked[1], len(keys)))
        return dict(await super().versions(keys))


@attrs.frozen
class Site:
    """Two coordinators on one store; watches are held by the first."""

    store: CountingStore
    here: Coordinator
    elsewhere: Coordinator
    tower: Watchtower

    async def join(self, name: str, coordinator: Coordinator | None = None) -> HeartbeatReply:
        """Let a member join, at the first coordinator unless told otherwise."""
        instance = InstanceId(name * 32)
        beat = Heartbeat(MemberId(name), Intent.JOIN, Epoch(0), instance, Seq(1))
        return await (coordinator or self.here).heartbeat(KEY, beat)

    async def stay(self, name: str, last: HeartbeatReply, *, seq: int = 2) -> HeartbeatReply:
        """Let it say that it reads what it was given."""
        holds = tuple(Hold(grant.shard, grant.token) for grant in last.grants)
        beat = Heartbeat(MemberId(name), Intent.STAY, last.epoch, InstanceId(name * 32), Seq(seq), holds)
        return await self.here.heartbeat(KEY, beat)

    async def present(self, *members: str) -> GroupWatch:
        """A watch of who has seen everything up to now."""
        news = await self.tower.watch(GroupWatch(KEY), SHORT)
        return GroupWatch(KEY, news.view, tuple(map(MemberId, members)) or None)

    async def layout(self) -> LayoutWatch:
        """A watch of who routes by the present layout."""
        stream = await self.here.stream(KEY.prefix)
        return LayoutWatch(stream.prefix, stream.layout_version, stream.lineage)

    async def hold(self, *watches: GroupWatch | LayoutWatch) -> list[asyncio.Task[News]]:
        """Open watches; returns once they wait."""
        tasks = [asyncio.create_task(self.tower.watch(watch, LONG)) for watch in watches]
        await asyncio.sleep(0.01)
        return tasks


async def site() -> Site:
    store = CountingStore()
    world = MemoryStreams()
    made = [
        Coordinator(each, MemoryStreamBackend(world), SystemClock(), SystemEntropy(), CoordinatorSettings(name))
        for name, each in (("here", store), ("elsewhere", store.connect()))
    ]
    await made[0].create_stream(CreateStream(KEY.prefix, TESTER, 2, groups=(GroupSpec(KEY.group),)))
    return Site(store, made[0], made[1], Watchtower(made[0].watches, pace_s=0.01))


def test_a_commit_of_this_coordinator_wakes_everybody_who_waits_without_asking_the_store() -> None:
    async def scenario() -> None:
        at = await site()
        watch = await at.present()
        waiting = await at.hold(*[watch] * 500)

        await at.join("a")
        news = await asyncio.gather(*waiting)

        assert {each.changed for each in news} == {True}
        assert len({each.view for each in news}) == 1

    asyncio.run(scenario())


def test_a_renewal_wakes_nobody() -> None:
    async def scenario() -> None:
        at = await site()
        joined = await at.join("a")
        await at.stay("a", joined)
        (waiting,) = await at.hold(await at.present())

        await at.stay("a", joined, seq=3)
        await asyncio.sleep(0.05)

        assert not waiting.done()
        waiting.cancel()

    asyncio.run(scenario())


def test_what_another_coordinator_commits_is_found_with_one_question_for_all() -> None:
    async def scenario() -> None:
        at = await site()
        waiting = await at.hold(*[await at.present()] * 200, *[await at.layout()] * 200)
        asked_before, _ = at.store.asked

        await asyncio.sleep(0.1)
        await at.join("a", at.elsewhere)
        await asyncio.gather(*waiting[:200])

        asked, at_once = at.store.asked
        assert at_once == 2
        assert 0 < asked - asked_before < 50
        assert not any(waiter.done() for waiter in waiting[200:])
        for waiter in waiting[200:]:
            waiter.cancel()

    asyncio.run(scenario())


def test_only_those_whom_a_commit_concerns_are_woken() -> None:
    async def scenario() -> None:
        at = await site()
        await at.stay("a", await at.join("a"))
        holder, stranger = await at.hold(await at.present("a"), await at.present("b"))

        await at.join("b")

        assert (await holder).members == ("a",)
        assert not stranger.done()
        stranger.cancel()

    asyncio.run(scenario())


def test_another_layout_wakes_producers() -> None:
    async def scenario() -> None:
        at = await site()
        (waiting,) = await at.hold(await at.layout())

        await at.here.scale(Scale(KEY.prefix, TESTER, 4, ReshardingId("r")))

        assert (await waiting).layout_version == (await at.here.stream(KEY.prefix)).layout_version

    asyncio.run(scenario())


def test_the_end_of_the_wait_is_no_news() -> None:
    async def scenario() -> None:
        at = await site()
        watch = await at.present()

        news = await at.tower.watch(watch, SHORT)

        assert (news.changed, news.view) == (False, watch.view)
        assert await at.tower.watch(watch, Millis(0)) == news

    asyncio.run(scenario())


def test_nothing_is_asked_once_nobody_waits() -> None:
    async def scenario() -> None:
        at = await site()
        (waiting,) = await at.hold(await at.present())
        waiting.cancel()
        await asyncio.sleep(0.05)
        asked = at.store.asked

        await asyncio.sleep(0.05)

        assert at.store.asked == asked
        assert at.here._desk.notices._listeners == []

    asyncio.run(scenario())


def test_who_watches_what_is_deleted_hears_that_it_is_gone() -> None:
    async def scenario() -> None:
        at = await site()
        (group,) = await at.hold(await at.present())

        await at.elsewhere.delete_group(DeleteGroup(KEY, TESTER))
        with pytest.raises(GroupNotFound):
            await group
        (layout,) = await at.hold(await at.layout())
        await at.elsewhere.delete_stream(DeleteStream(KEY.prefix, TESTER))
        with pytest.raises(StreamNotFound):
            await layout

    asyncio.run(scenario())


def test_a_store_that_is_away_for_a_while_delays_the_news() -> None:
    async def scenario() -> None:
        at = await site()
        (waiting,) = await at.hold(await at.present())

        at.store.fail_next(Fault.UNAVAILABLE)
        await asyncio.sleep(0.05)
        await at.join("a", at.elsewhere)

        assert (await waiting).changed

    asyncio.run(scenario())


def test_a_tower_that_is_closed_turns_everybody_away_at_once_from_any_thread() -> None:
    async def scenario() -> None:
        at = await site()
        watch = await at.present()
        waiting = await at.hold(watch, watch, await at.layout())

        await asyncio.to_thread(at.tower.close)

        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in told] == [Terminating] * 3
        with pytest.raises(Terminating):
            await at.tower.watch(watch, LONG)

    asyncio.run(scenario())


def test_whoever_comes_when_too_many_wait_is_answered_at_once() -> None:
    async def scenario() -> None:
        at = await site()
        crowded = Watchtower(at.here.watches, most_waiters=1)
        watch = await at.present()
        first = asyncio.create_task(crowded.watch(watch, LONG))
        await asyncio.sleep(0.01)

        assert (await crowded.watch(watch, LONG)).changed is False
        first.cancel()

    asyncio.run(scenario())


def test_a_coordinator_with_watches_is_asked_as_itself() -> None:
    async def scenario() -> None:
        at = await site()
        watched = WatchedCoordinator(at.here)
        beat = Heartbeat(MemberId("a"), Intent.JOIN, Epoch(0), InstanceId("a" * 32), Seq(1))

        assert (await watched.routing(KEY)) == await at.here.routing(KEY)
        assert len((await watched.heartbeat(KEY, beat)).grants) == 2
        assert (await watched.watch(GroupWatch(KEY), LONG)).changed

    asyncio.run(scenario())
