"""Whose turn it is in a group, among the heartbeats of one process."""

import asyncio
from collections import deque

import attrs

from streamshard.core.ids import GroupKey


@attrs.define(eq=False)
class _Line:
    """Those who only renew go together, those who change the record one by one; both kinds in alternation."""

    sharing: int = 0
    alone: bool = False
    to_share: list["asyncio.Future[None]"] = attrs.field(factory=list)
    to_be_alone: deque["asyncio.Future[None]"] = attrs.field(factory=deque)

    @property
    def empty(self) -> bool:
        return not (self.sharing or self.alone or self.to_share or self.to_be_alone)

    def admit(self, *, sharers_first: bool) -> None:
        """Let in whoever may enter now."""
        if self.alone or (self.sharing and not sharers_first):
            return
        sharers = [waiting for waiting in self.to_share if not waiting.done()]
        if sharers and (sharers_first or not self.to_be_alone):
            self.to_share.clear()
            self.sharing += len(sharers)
            for waiting in sharers:
                waiting.set_result(None)
        while self.to_be_alone and not (self.sharing or self.alone):
            waiting = self.to_be_alone.popleft()
            if not waiting.done():
                self.alone = True
                waiting.set_result(None)


class AsyncTurns:
    """The `Turns` port on one event loop."""

    def __init__(self) -> None:
        self._lines: dict[GroupKey, _Line] = {}

    async def share(self, key: GroupKey) -> bool:
        """Wait while somebody is alone in the group; whoever waited for that already goes first, once."""
        line = self._lines.setdefault(key, _Line())
        if not line.alone and not line.to_be_alone:
            line.sharing += 1
            return False
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.to_share.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self.stop_sharing(key)
            raise
        return True

    def stop_sharing(self, key: GroupKey) -> None:
        """Leave."""
        line = self._lines[key]
        line.sharing -= 1
        self._admit(key, line, sharers_first=False)

    async def be_alone(self, key: GroupKey) -> bool:
        """Wait until everybody who came earlier has left."""
        line = self._lines.setdefault(key, _Line())
        if not line.alone and not line.sharing and not line.to_be_alone:
            line.alone = True
            return False
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.to_be_alone.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self.stop_being_alone(key)
            else:
                self._admit(key, line, sharers_first=True)
            raise
        return True

    def stop_being_alone(self, key: GroupKey) -> None:
        """Leave; those who share come first, so that nobody is alone twice in a row while they wait."""
        line = self._lines[key]
        line.alone = False
        self._admit(key, line, sharers_first=True)

    def _admit(self, key: GroupKey, line: _Line, *, sharers_first: bool) -> None:
        line.admit(sharers_first=sharers_first)
        if line.empty:
            self._lines.pop(key, None)
