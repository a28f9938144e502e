"""Turns among the heartbeats of one process."""

import asyncio
from collections.abc import Awaitable, Callable

from streamshard.adapters.turns import AsyncTurns
from streamshard.core.ids import GroupKey, GroupName, StreamPrefix
from streamshard.core.turns import Turn

KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
OTHER = GroupKey(StreamPrefix("orders"), GroupName("audit"))


class Lane:
    """Notes who enters and leaves."""

    def __init__(self) -> None:
        self.turns = AsyncTurns()
        self.said: list[str] = []

    async def pass_through(self, name: str, *, alone: bool, key: GroupKey = KEY) -> None:
        turn = Turn(self.turns, key)
        await turn.take(alone=alone)
        self.said.append(f"+{name}")
        for _ in range(3):
            await asyncio.sleep(0)
        self.said.append(f"-{name}")
        turn.end()


def played(*steps: Callable[[Lane], Awaitable[None]]) -> list[str]:
    async def scenario() -> list[str]:
        lane = Lane()
        async with asyncio.timeout(10):
            await asyncio.gather(*(step(lane) for step in steps))
        return lane.said

    return asyncio.run(scenario())


def test_those_who_are_alone_go_one_by_one_in_order() -> None:
    said = played(*(lambda lane, name=name: lane.pass_through(name, alone=True) for name in "abc"))

    assert said == ["+a", "-a", "+b", "-b", "+c", "-c"]


def test_those_who_share_go_together() -> None:
    said = played(*(lambda lane, name=name: lane.pass_through(name, alone=False) for name in "abc"))

    assert said == ["+a", "+b", "+c", "-a", "-b", "-c"]


def test_both_kinds_alternate_so_that_neither_starves() -> None:
    said = played(
        lambda lane: lane.pass_through("A", alone=True),
        lambda lane: lane.pass_through("B", alone=True),
        lambda lane: lane.pass_through("c", alone=False),
        lambda lane: lane.pass_through("d", alone=False),
        lambda lane: lane.pass_through("E", alone=True),
    )

    assert said == ["+A", "-A", "+c", "+d", "-c", "-d", "+B", "-B", "+E", "-E"]


def test_groups_have_turns_of_their_own() -> None:
    said = played(
        lambda lane: lane.pass_through("A", alone=True),
        lambda lane: lane.pass_through("B", alone=True, key=OTHER),
    )

    assert said == ["+A", "+B", "-A", "-B"]


def test_who_gives_up_waiting_holds_nobody_up() -> None:
    async def scenario() -> list[str]:
        lane = Lane()
        first = asyncio.create_task(lane.pass_through("A", alone=True))
        await asyncio.sleep(0)
        others = [asyncio.create_task(lane.pass_through(name, alone=True)) for name in ("B", "C")]
        sharer = asyncio.create_task(lane.pass_through("d", alone=False))
        await asyncio.sleep(0)
        others[0].cancel()
        async with asyncio.timeout(10):
            await asyncio.gather(first, others[1], sharer)
        return lane.said

    assert asyncio.run(scenario()) == ["+A", "-A", "+d", "-d", "+C", "-C"]


def test_a_turn_that_is_given_up_in_the_moment_it_comes_is_passed_on() -> None:
    async def scenario() -> list[str]:
        lane = Lane()
        await lane.turns.be_alone(KEY)
        waiting = [asyncio.create_task(lane.pass_through(name, alone=True)) for name in ("B", "C")]
        await asyncio.sleep(0)
        lane.turns.stop_being_alone(KEY)
        waiting[0].cancel()
        async with asyncio.timeout(10):
            await waiting[1]
        return lane.said

    assert asyncio.run(scenario()) == ["+C", "-C"]
