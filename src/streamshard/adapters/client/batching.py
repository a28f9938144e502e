"""Reads of many shards in one round trip."""

import asyncio

from streamshard.core.ports import Scattered, ShardLog
from streamshard.core.records import ReadReply, ShardAccess
from streamshard.errors import StreamUnavailable


class GroupedReads:
    """Collects the reads that are asked for in one turn of the loop, and sends them together.

    But a log whose shards are scattered is asked for each by itself: it knows better what goes together.
    """

    def __init__(self, log: ShardLog) -> None:
        self._log = log
        self._scattered = isinstance(log, Scattered)
        self._asked: list[tuple[ShardAccess, int, asyncio.Future[ReadReply]]] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def read(self, access: ShardAccess, count: int) -> ReadReply:
        """As `ShardLog.read` of one shard."""
        if self._scattered:
            (reply,) = await self._log.read([(access, count)])
            return reply
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ReadReply] = loop.create_future()
        if not self._asked:
            # It begins after those who ask in this turn of the loop.
            task = loop.create_task(self._fetch())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        self._asked.append((access, count, answer))
        return await answer

    async def _fetch(self) -> None:
        asked, self._asked = self._asked, []
        try:
            replies = await self._log.read([(access, count) for access, count, _ in asked])
        except StreamUnavailable as error:
            for _, _, answer in asked:
                if not answer.done():
                    answer.set_exception(StreamUnavailable(error.message))
            return
        except BaseException:
            # Nobody may wait for ever because of a fault of the program; the event loop tells of it.
            for _, _, answer in asked:
                answer.cancel()
            raise
        for (_, _, answer), reply in zip(asked, replies, strict=True):
            if not answer.done():
                answer.set_result(reply)
