"""Heartbeats of one process that are due at about the same time travel in one request."""

import asyncio
from collections.abc import Callable

import attrs

from streamshard.core.commands import Heartbeat
from streamshard.core.ids import GroupKey
from streamshard.core.ports import Batching
from streamshard.core.replies import HeartbeatReply
from streamshard.errors import StreamshardError

WINDOW_S = 0.002


@attrs.frozen(eq=False)
class _Passenger:
    key: GroupKey
    beat: Heartbeat
    answer: "asyncio.Future[HeartbeatReply]"


class Convoy:
    """Each attempt is made, and its lease anchored, before it gets on; one that is given up on gets off.

    ``muster`` is called when the first one waits: whoever is due soon may come along.
    """

    def __init__(self, api: Batching, muster: Callable[[], None]) -> None:
        self._api = api
        self._muster = muster
        self._waiting: list[_Passenger] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        """Answer one attempt; raises what it would have raised alone."""
        loop = asyncio.get_running_loop()
        passenger = _Passenger(key, beat, loop.create_future())
        self._waiting.append(passenger)
        if len(self._waiting) == 1:
            loop.call_later(WINDOW_S, self._depart)
            self._muster()
        return await passenger.answer

    async def close(self) -> None:
        """Give up on what is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _depart(self) -> None:
        aboard = [passenger for passenger in self._waiting if not passenger.answer.done()]
        self._waiting = []
        if aboard:
            task = asyncio.get_running_loop().create_task(self._travel(aboard))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _travel(self, aboard: list[_Passenger]) -> None:
        try:
            answers = await self._api.heartbeats([(passenger.key, passenger.beat) for passenger in aboard])
        except StreamshardError as error:
            answers = (error,) * len(aboard)
        for passenger, answer in zip(aboard, answers, strict=True):
            if passenger.answer.done():
                continue
            if isinstance(answer, StreamshardError):
                passenger.answer.set_exception(answer)
            else:
                passenger.answer.set_result(answer)
