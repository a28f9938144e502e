"""Heartbeats that take turns, and what they decide once they have waited for theirs."""

import asyncio
from collections.abc import Awaitable, Callable

from streamshard.adapters.turns import AsyncTurns
from streamshard.core.replies import HeartbeatReply, Status
from streamshard.core.turns import NoTurns, Turn
from tests.unit.core.driving import KEY, Member, Node, Site


def beaten(node: Node, *members: Member, meanwhile: Callable[[AsyncTurns], Awaitable[None]]) -> list[HeartbeatReply]:
    """All of them beat while somebody has the turn."""

    async def scenario() -> list[HeartbeatReply]:
        turns = AsyncTurns()
        node.coordinator.take_turns(turns)
        await turns.be_alone(KEY)
        tasks = [asyncio.create_task(node.coordinator.heartbeat(KEY, member.beat())) for member in members]
        await asyncio.sleep(0)
        await meanwhile(turns)
        turns.stop_being_alone(KEY)
        async with asyncio.timeout(10):
            replies = await asyncio.gather(*tasks)
        return [member.hear(reply) for member, reply in zip(members, replies, strict=True)]

    return asyncio.run(scenario())


async def nothing(turns: AsyncTurns) -> None:
    """Nobody does anything meanwhile."""


def test_without_turns_everybody_enters_at_once() -> None:
    async def scenario() -> list[bool]:
        turns = NoTurns()
        first, second = Turn(turns, KEY), Turn(turns, KEY)
        waited = [await first.take(alone=True), await second.take(alone=True), await second.take(alone=False)]
        first.end()
        second.end()
        second.end()
        return waited

    assert asyncio.run(scenario()) == [False, False, False]


def test_whoever_is_alone_need_not_share_and_whoever_shares_leaves_to_be_alone() -> None:
    async def scenario() -> list[bool]:
        turn, other = Turn(AsyncTurns(), KEY), Turn(AsyncTurns(), KEY)
        taken = [await turn.take(alone=False), await turn.take(alone=True), await turn.take(alone=False)]
        taken.append(await other.take(alone=False))
        turn.end()
        other.end()
        return taken

    assert asyncio.run(scenario()) == [False] * 4


def test_joins_that_waited_are_decided_on_what_those_before_them_made_of_the_group() -> None:
    site = Site(4)
    node = site.node()
    members = [Member("a", "1"), Member("b", "2"), Member("c", "3")]
    node.tick(2)

    replies = beaten(node, *members, meanwhile=nothing)

    assert [reply.status for reply in replies] == [Status.OK] * 3
    assert sorted(site.group.members) == ["a", "b", "c"]
    assert len({reply.epoch for reply in replies}) == 3


def test_a_heartbeat_that_waited_is_decided_on_a_fresh_load_if_another_coordinator_was_faster() -> None:
    site = Site(2)
    node, other, late = site.node("n1"), site.node("n2"), Member("b", "2")
    node.tick(2)

    async def join_elsewhere(turns: AsyncTurns) -> None:
        await other.coordinator.heartbeat(KEY, Member("a", "1").beat())

    (reply,) = beaten(node, late, meanwhile=join_elsewhere)

    assert reply.status is Status.OK
    assert sorted(site.group.members) == ["a", "b"]


def test_a_lost_source_is_not_decided_on_after_a_wait() -> None:
    site = Site(2)
    node, late = site.node(), Member("a", "1")
    node.tick(2)

    async def forget(turns: AsyncTurns) -> None:
        node.desk.forget_source()

    (reply,) = beaten(node, late, meanwhile=forget)

    assert reply.status is Status.OK
    assert sorted(site.group.members) == ["a"]
