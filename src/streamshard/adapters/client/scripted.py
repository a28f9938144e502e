"""A coordinator that answers from a list, for tests of applications and of the client itself."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

import attrs

from streamshard.core.commands import Heartbeat
from streamshard.core.ids import GroupKey, Millis
from streamshard.core.notices import GroupWatch, LayoutWatch
from streamshard.core.replies import HeartbeatReply, News, Routing
from streamshard.errors import CoordinatorUnreachable, StreamshardError

Answer: TypeAlias = HeartbeatReply | StreamshardError | Callable[[Heartbeat], HeartbeatReply]
_Scripted = TypeVar("_Scripted")


class ScriptedCoordinator:
    """`CoordinatorApi` over lists of answers; the last of each list is given for ever.

    A reply's ``seq`` and ``member`` are set to those of the attempt it answers. A callable makes the
    reply from the attempt as it is. `beats` keeps every attempt, `asked` counts the questions for routing.
    """

    def __init__(
        self,
        answers: Iterable[Answer] = (),
        routings: Iterable[Routing | StreamshardError] = (),
    ) -> None:
        self._answers = deque(answers)
        self._routings = deque(routings)
        self.beats: list[Heartbeat] = []
        self.asked = 0

    def then(self, *answers: Answer) -> None:
        """Give these answers from now on."""
        self._answers = deque(answers)

    def route(self, *routings: Routing | StreamshardError) -> None:
        """Give these routings from now on."""
        self._routings = deque(routings)

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        """Give the next answer."""
        self.beats.append(beat)
        await asyncio.sleep(0)
        answer = _next(self._answers, f"no answer is scripted for the heartbeats of {key}")
        if isinstance(answer, StreamshardError):
            raise answer
        if isinstance(answer, HeartbeatReply):
            return attrs.evolve(answer, seq=beat.seq, member=beat.member)
        return answer(beat)

    async def routing(self, key: GroupKey) -> Routing:
        """Give the next routing."""
        self.asked += 1
        await asyncio.sleep(0)
        routing = _next(self._routings, f"no routing of {key} is scripted")
        if isinstance(routing, StreamshardError):
            raise routing
        return routing


class WatchedScript(ScriptedCoordinator):
    """The same with watches: each gets the next of what `tell` was given, and is held while there is nothing.

    `watched` keeps every watch.
    """

    def __init__(
        self,
        answers: Iterable[Answer] = (),
        routings: Iterable[Routing | StreamshardError] = (),
    ) -> None:
        super().__init__(answers, routings)
        self._news: asyncio.Queue[News | StreamshardError] = asyncio.Queue()
        self.watched: list[GroupWatch | LayoutWatch] = []

    def tell(self, *news: News | StreamshardError) -> None:
        """Answer the next watches with these; on the loop of the watches."""
        for each in news:
            self._news.put_nowait(each)

    async def watch(self, watch: GroupWatch | LayoutWatch, wait: Millis) -> News:
        """Give the next news."""
        self.watched.append(watch)
        news = await self._news.get()
        if isinstance(news, StreamshardError):
            raise news
        return news


def _next(script: deque[_Scripted], missing: str) -> _Scripted:
    if not script:
        raise CoordinatorUnreachable(missing)
    return script.popleft() if len(script) > 1 else script[0]
