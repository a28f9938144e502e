"""A reader of one's own under a membership: the coordinator decides which shards, the loops below read them.

Every order goes through the fence of its shard, so that a reader that was paused for too long can do no harm.
"""

import asyncio
from collections.abc import Callable

from streamshard import Membership
from streamshard.adapters.streams.redis_log import RedisShardLog
from streamshard.core.ports import ShardLog
from streamshard.core.records import Access, AckMode, Record


class Readers:
    """A task per shard; `begin` and `end` are the two callbacks, and may be called again."""

    def __init__(self, log: ShardLog, handle: Callable[[Record], None]) -> None:
        self._log, self._handle = log, handle
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ending: set[int] = set()

    def begin(self, shards, assignment) -> None:
        for shard in shards:
            if shard not in self._tasks:
                self._tasks[shard] = asyncio.create_task(self._read(shard, assignment))

    def end(self, shards, assignment) -> list[int]:
        self._ending.update(shards)
        finished = [shard for shard in shards if shard not in self._tasks or self._tasks[shard].done()]
        for shard in finished:
            self._tasks.pop(shard, None)
            self._ending.discard(shard)
        return finished

    async def _read(self, shard, assignment) -> None:
        access, cursor = assignment.access(shard), "0-0"
        while assignment.may_use(shard) and shard not in self._ending:
            if cursor is not None:  # what others left pending comes first
                page = await self._log.claim(access, cursor, 100)
                cursor = page.cursor
            else:
                (page,) = await self._log.read([(access, 100)])
            if page.access is not Access.OK:
                return
            for record in page.records:
                self._handle(record)
            if page.records and assignment.may_use(shard):
                await self._log.acknowledge(access, [record.id for record in page.records], AckMode.ACK)
            elif cursor is None:
                await self._log.wait({assignment.stream_key(shard): page.last_delivered}, 500)


async def main() -> None:
    log = RedisShardLog.from_url("redis://127.0.0.1:6379")
    readers = Readers(log, print)
    async with Membership(
        "orders", "billing", "http://127.0.0.1:8080", on_assigned=readers.begin, on_revoked=readers.end
    ) as membership:
        await membership.wait()
    await log.close()


if __name__ == "__main__":
    asyncio.run(main())
