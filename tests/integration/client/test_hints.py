"""Members and producers act on a watch at once, and not more often than that is worth."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import attrs

from streamshard import Producer
from streamshard.adapters.client.member import Identity, Member, Order, Report
from streamshard.adapters.client.membership import Membership
from streamshard.adapters.client.producer import Publishing
from streamshard.adapters.client.scripted import ScriptedCoordinator, WatchedScript
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.core.commands import Heartbeat
from streamshard.core.ids import Instant, LayoutVersion, Lineage, MemberId, Millis, View
from streamshard.core.notices import GroupWatch, LayoutWatch
from streamshard.core.ports import CoordinatorApi
from streamshard.core.replies import HeartbeatReply, News
from streamshard.errors import CoordinatorUnreachable, StreamshardError
from tests.integration.client.script import CLOCK, ENTROPY, ORDERS, Granting, memory_streams, routing, until

SLOW = Millis(60_000)


class Side:
    """A reading side that reads nothing."""

    def order(self, order: Order) -> None:
        return None

    def report(self) -> Report:
        return Report()

    def ended(self, member: Member) -> None:
        return None


class SlowGroup:
    """Grants a shard to everybody, a heartbeat a minute, and counts the group's versions up when told to."""

    def __init__(self) -> None:
        self.version = 1

    def __call__(self, beat: Heartbeat) -> HeartbeatReply:
        answer = Granting([0])(beat)
        view = View(f"v{self.version}")
        return attrs.evolve(answer, heartbeat_ms=SLOW, metadata_version=self.version, view=view)


def news(version: int, *members: str) -> News:
    """The group is at this version, which concerns these."""
    named = tuple(map(MemberId, members)) or None
    return News(True, Lineage("a"), LayoutVersion(1), version, View(f"v{version}"), named)


@attrs.frozen
class Stage:
    """Members of one process, and what they ask."""

    api: WatchedScript
    group: SlowGroup
    membership: Membership
    loop: asyncio.AbstractEventLoop

    def tell(self, *told: News | StreamshardError) -> None:
        """Answer the next watches."""
        self.loop.call_soon_threadsafe(self.api.tell, *told)

    def beats(self, name: str = "a") -> int:
        """How many heartbeats a member has sent."""
        return sum(beat.member == name for beat in self.api.beats)

    def add(self, name: str) -> Member:
        """Another member joins."""
        member = Member(ORDERS, Identity(MemberId(name), name), CLOCK, ENTROPY, Side())
        self.membership.add(member)
        return member


@contextlib.asynccontextmanager
async def working(*names: str) -> AsyncIterator[Stage]:
    """Members that have joined and confirmed what they got: nothing but a hint makes them beat for a minute."""
    group = SlowGroup()
    api = WatchedScript([group])
    membership = Membership(lambda: contextlib.nullcontext(api))
    membership.start()
    loop, _ = membership._ready.result()
    stage = Stage(api, group, membership, loop)
    try:
        for name in names:
            stage.add(name)
        await until(lambda: all(stage.beats(name) == 2 for name in names))
        await until(lambda: bool(api.watched) and len(last(api).members or ()) == len(names))
        yield stage
    finally:
        await asyncio.to_thread(membership.close)


def last(api: WatchedScript) -> GroupWatch:
    watch = api.watched[-1]
    assert isinstance(watch, GroupWatch)
    return watch


def test_a_hint_makes_the_member_beat_that_it_concerns_and_no_other() -> None:
    async def scenario() -> None:
        async with working("a", "b") as stage:
            stage.group.version = 2
            stage.tell(news(2, "b"))

            await until(lambda: stage.beats("b") == 3)
            await asyncio.sleep(0.15)

            assert (stage.beats("a"), stage.beats("b")) == (2, 3)

    asyncio.run(scenario())


def test_one_watch_serves_all_members_of_the_process_and_goes_on_from_the_last_answer() -> None:
    async def scenario() -> None:
        async with working("a", "b") as stage:
            before = len(stage.api.watched)
            stage.tell(news(2, "a"))

            await until(lambda: len(stage.api.watched) == before + 1)

            assert last(stage.api) == GroupWatch(ORDERS, View("v2"), (MemberId("a"), MemberId("b")))

    asyncio.run(scenario())


def test_without_names_everybody_is_meant() -> None:
    async def scenario() -> None:
        async with working("a", "b") as stage:
            stage.tell(news(2))

            await until(lambda: (stage.beats("a"), stage.beats("b")) == (3, 3))

    asyncio.run(scenario())


def test_what_an_answer_has_told_already_is_no_reason_to_beat() -> None:
    async def scenario() -> None:
        async with working("a") as stage:
            stage.tell(news(1, "a"))
            await asyncio.sleep(0.15)

            assert stage.beats() == 2

    asyncio.run(scenario())


def test_a_storm_of_hints_makes_no_storm_of_heartbeats() -> None:
    async def scenario() -> None:
        async with working("a") as stage:
            began = time.monotonic()
            for version in range(2, 202):
                stage.tell(news(version, "a"))
            await asyncio.sleep(0.5)

            assert 1 <= stage.beats() - 2 <= (time.monotonic() - began) / 0.05 + 1

    asyncio.run(scenario())


def test_a_hint_that_comes_while_an_answer_is_awaited_is_not_forgotten() -> None:
    async def scenario() -> None:
        async with working("a") as stage:
            member = stage.membership._members[0]
            stage.loop.call_soon_threadsafe(member.hint, 2)
            await until(lambda: stage.beats() == 3)
            stage.loop.call_soon_threadsafe(member.hint, 5)

            await until(lambda: stage.beats() == 4)

    asyncio.run(scenario())


def test_a_member_that_comes_later_is_watched_for_too() -> None:
    async def scenario() -> None:
        async with working("a") as stage:
            stage.add("b")
            await until(lambda: last(stage.api).members == ("a", "b"))
            await until(lambda: stage.beats("b") == 2)
            stage.tell(news(2, "b"))

            await until(lambda: stage.beats("b") == 3)

    asyncio.run(scenario())


def test_the_end_of_a_wait_is_no_reason_to_beat() -> None:
    async def scenario() -> None:
        async with working("a") as stage:
            asked = len(stage.api.watched)
            stage.tell(attrs.evolve(news(7, "a"), changed=False))
            await until(lambda: len(stage.api.watched) > asked)

            assert stage.beats() == 2

    asyncio.run(scenario())


def test_the_same_news_again_and_again_is_not_asked_for_in_a_hurry() -> None:
    async def scenario() -> None:
        async with working("a") as stage:
            asked = len(stage.api.watched)
            stage.tell(*[news(2, "a")] * 50)
            await asyncio.sleep(0.4)

            assert len(stage.api.watched) - asked <= 3

    asyncio.run(scenario())


def test_a_watch_that_fails_is_asked_again_later_and_heartbeats_go_on() -> None:
    async def scenario() -> None:
        async with working("a") as stage:
            asked = len(stage.api.watched)
            stage.tell(CoordinatorUnreachable("cut"))
            await asyncio.sleep(0.1)
            soon = len(stage.api.watched)
            await until(lambda: len(stage.api.watched) > asked)
            stage.tell(news(2, "a"))

            await until(lambda: stage.beats() == 3)
            assert soon == asked

    asyncio.run(scenario())


def test_the_watch_ends_with_the_last_member() -> None:
    async def scenario() -> None:
        async with working("a") as stage:
            member = stage.membership._members[0]
            member.stop()
            member.finished(*next(iter(member.session.running.items())))
            await until(lambda: member.ended)
            stage.tell(news(9, "a"))
            _, task = stage.membership._watchers[ORDERS]

            await until(task.done)

    asyncio.run(scenario())


def test_members_come_along_with_one_that_beats_and_are_due_soon() -> None:
    async def scenario() -> None:
        async with working("a") as stage:
            member = stage.membership._members[0]
            far = member._beat_at
            stage.loop.call_soon_threadsafe(member.come_along)
            await asyncio.sleep(0.1)
            untouched = stage.beats()
            stage.loop.call_soon_threadsafe(member._beat_by, Instant(CLOCK.boot() + 5_000))
            stage.loop.call_soon_threadsafe(member.come_along)

            await until(lambda: stage.beats() == 3)
            assert (untouched, far > CLOCK.boot() + 20_000) == (2, True)

    asyncio.run(scenario())


def producer_over(api: CoordinatorApi) -> Producer:
    return Producer(Publishing(ORDERS), api, MemoryShardLog(memory_world), CLOCK, ENTROPY)


memory_world = memory_streams(4)


def test_a_producer_refreshes_as_soon_as_the_layout_is_another_one() -> None:
    async def scenario() -> None:
        api = WatchedScript(routings=[routing(4), routing(4, version=2)])
        producer = producer_over(api)
        first = await producer.publish("k", {"n": 1})
        await until(lambda: bool(api.watched))
        api.tell(News(True, Lineage("a"), LayoutVersion(2), 2))

        await until(lambda: len(api.watched) == 2)
        second = await producer.publish("k", {"n": 2})
        await producer.close()

        assert (first.version, second.version, api.asked) == (1, 2, 2)
        assert api.watched == [LayoutWatch(ORDERS.prefix, LayoutVersion(v), Lineage("a")) for v in (1, 2)]

    asyncio.run(scenario())


def test_a_producer_that_is_closed_watches_no_more_whatever_it_is_asked() -> None:
    async def scenario() -> None:
        api = WatchedScript(routings=[routing(4)])
        producer = producer_over(api)
        await producer.publish("k", {"n": 1})
        await until(lambda: bool(api.watched))
        await producer.close()
        tasks = asyncio.all_tasks()

        await producer.publish("k", {"n": 2})

        assert (asyncio.all_tasks(), len(api.watched)) == (tasks, 1)

    asyncio.run(scenario())


def test_a_producer_that_hears_of_a_layout_it_cannot_get_does_not_ask_in_a_hurry() -> None:
    async def scenario() -> None:
        api = WatchedScript(routings=[routing(4), CoordinatorUnreachable("away")])
        producer = producer_over(api)
        await producer.publish("k", {"n": 1})
        api.tell(*[News(True, Lineage("a"), LayoutVersion(2), 2)] * 50)

        await asyncio.sleep(0.2)
        await producer.close()

        assert len(api.watched) <= 2

    asyncio.run(scenario())


def test_a_producer_without_watches_needs_no_closing_and_may_be_closed_all_the_same() -> None:
    async def scenario() -> None:
        producer = producer_over(ScriptedCoordinator(routings=[routing(4)]))
        await producer.publish("k", {"n": 1})
        await producer.close()
        await producer.close()

    asyncio.run(scenario())
