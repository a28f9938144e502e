"""Heartbeats that leave together are still each member's own."""

import asyncio
from collections.abc import Sequence

import attrs
import pytest

from streamshard.adapters.client.convoy import Convoy
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.ids import Epoch, GroupKey, InstanceId, MemberId, Seq
from streamshard.core.replies import HeartbeatReply
from streamshard.errors import CoordinatorUnreachable, StreamshardError
from tests.integration.client.script import ORDERS, reply


def beat(name: str) -> Heartbeat:
    return Heartbeat(MemberId(name), Intent.STAY, Epoch(1), InstanceId(name), Seq(1))


class Batched:
    """Answers every member but those who are to fail."""

    def __init__(self, **failures: StreamshardError) -> None:
        self.batches: list[list[str]] = []
        self.failures = failures
        self.broken: StreamshardError | None = None

    async def heartbeats(
        self, beats: Sequence[tuple[GroupKey, Heartbeat]]
    ) -> tuple[HeartbeatReply | StreamshardError, ...]:
        self.batches.append([beat.member for _, beat in beats])
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken
        return tuple(self.failures.get(b.member) or attrs.evolve(reply(), member=b.member) for _, b in beats)


def nobody_else() -> None:
    return None


def test_those_that_are_due_together_travel_together() -> None:
    async def scenario() -> None:
        api, mustered = Batched(), list[None]()
        convoy = Convoy(api, lambda: mustered.append(None))

        replies = await asyncio.gather(*(convoy.heartbeat(ORDERS, beat(name)) for name in "abc"))
        await convoy.heartbeat(ORDERS, beat("d"))

        assert [reply.member for reply in replies] == ["a", "b", "c"]
        assert api.batches == [["a", "b", "c"], ["d"]]
        assert len(mustered) == 2

    asyncio.run(scenario())


def test_whoever_is_mustered_gets_on() -> None:
    async def scenario() -> None:
        api = Batched()
        others: list[asyncio.Future[HeartbeatReply]] = []

        def muster() -> None:
            others.append(asyncio.ensure_future(convoy.heartbeat(ORDERS, beat("b"))))

        convoy = Convoy(api, muster)
        await convoy.heartbeat(ORDERS, beat("a"))
        await asyncio.gather(*others)

        assert api.batches == [["a", "b"]]

    asyncio.run(scenario())


def test_one_that_is_given_up_on_gets_off_and_the_others_go_on() -> None:
    async def scenario() -> None:
        api = Batched()
        convoy = Convoy(api, nobody_else)
        gone = asyncio.ensure_future(convoy.heartbeat(ORDERS, beat("a")))
        kept = asyncio.ensure_future(convoy.heartbeat(ORDERS, beat("b")))
        await asyncio.sleep(0)

        gone.cancel()

        assert (await kept).member == "b"
        assert api.batches == [["b"]]

    asyncio.run(scenario())


def test_an_answer_that_nobody_waits_for_any_more_is_dropped() -> None:
    async def scenario() -> None:
        api = Batched()
        convoy = Convoy(api, nobody_else)
        both = [asyncio.ensure_future(convoy.heartbeat(ORDERS, beat(name))) for name in "ab"]
        while not api.batches:
            await asyncio.sleep(0.001)

        both[0].cancel()

        assert (await both[1]).member == "b"

    asyncio.run(scenario())


def test_a_failure_of_one_is_its_own_and_one_of_the_request_is_everybodys() -> None:
    async def scenario() -> None:
        refused = CoordinatorUnreachable("its reply was garbled")
        api = Batched(b=refused)
        convoy = Convoy(api, nobody_else)

        first = await asyncio.gather(*(convoy.heartbeat(ORDERS, beat(n)) for n in "ab"), return_exceptions=True)
        api.broken = CoordinatorUnreachable("nobody answered")
        second = await asyncio.gather(*(convoy.heartbeat(ORDERS, beat(n)) for n in "ab"), return_exceptions=True)

        assert first == [attrs.evolve(reply(), member=MemberId("a")), refused]
        assert second == [api.broken, api.broken]

    asyncio.run(scenario())


def test_closing_breaks_off_what_is_under_way() -> None:
    class Hanging(Batched):
        async def heartbeats(self, beats: object) -> tuple[HeartbeatReply | StreamshardError, ...]:
            self.batches.append([])
            await asyncio.Event().wait()
            return ()

    async def scenario() -> None:
        api = Hanging()
        convoy = Convoy(api, nobody_else)
        waiting = asyncio.ensure_future(convoy.heartbeat(ORDERS, beat("a")))
        while not api.batches:
            await asyncio.sleep(0.001)

        await convoy.close()

        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())
