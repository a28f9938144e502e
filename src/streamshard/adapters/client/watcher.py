"""One watch per group and process: it tells the members when a heartbeat is worth sending before its time."""

import asyncio

from streamshard.adapters.client.ear import Ear
from streamshard.adapters.client.member import Member
from streamshard.core.ids import GroupKey, View
from streamshard.core.notices import GroupWatch
from streamshard.core.replies import News

MOST_NAMED = 200
"""With more members in a process the coordinator is not asked which of them are concerned."""

GATHERING_S = 0.02


class Watcher:
    """Watches one group for its members; on the membership's loop."""

    def __init__(self, key: GroupKey, ear: Ear) -> None:
        self._key = key
        self._ear = ear
        self._members: list[Member] = []
        self._view: View | None = None
        self._joined = asyncio.Event()

    def enlist(self, member: Member) -> None:
        """Watch for ``member``, too."""
        self._members.append(member)
        self._joined.set()

    async def run(self) -> None:
        """Watch until every member has ended."""
        while self._alive():
            await asyncio.sleep(GATHERING_S if self._joined.is_set() else 0)
            self._joined.clear()
            news = await self._next()
            if news is not None:
                self._tell(news)

    def _alive(self) -> list[Member]:
        self._members = [member for member in self._members if not member.ended]
        return self._members

    async def _next(self) -> News | None:
        """The next answer; None if another member came meanwhile, for whom nobody has asked yet."""
        alive = self._alive()
        names = tuple(member.session.member for member in alive) if len(alive) <= MOST_NAMED else None
        hearing = asyncio.ensure_future(self._ear.hear(GroupWatch(self._key, self._view, names)))
        joining = asyncio.ensure_future(self._joined.wait())
        try:
            await asyncio.wait({hearing, joining}, return_when=asyncio.FIRST_COMPLETED)
            return hearing.result() if hearing.done() else None
        finally:
            for task in (hearing, joining):
                task.cancel()
            await asyncio.gather(hearing, joining, return_exceptions=True)

    def _tell(self, news: News) -> None:
        if not news.changed:
            return
        if news.view == self._view:
            self._ear.spare()  # no commit is news twice: something on the way makes this up
        self._view = news.view
        for member in self._alive():
            if news.members is None or member.session.member in news.members:
                member.hint(news.metadata_version)
