"""Whoever falls idle is woken, also in the very moment in which the wait of the others ends."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from streamshard.adapters.client.waiter import Waiter
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.ids import Millis, RecordId
from streamshard.errors import StreamUnavailable

FIRST = RecordId("1-0")


class Telling(MemoryShardLog):
    """Tells which keys have something new: never any, or that it is away."""

    def __init__(self, trouble: Exception | None) -> None:
        super().__init__(MemoryStreams())
        self._trouble = trouble

    async def wait_for_news(self, after: Mapping[str, RecordId], timeout: Millis) -> Mapping[str, RecordId]:
        await asyncio.sleep(0.01)
        if self._trouble is not None:
            raise self._trouble
        return {}


@pytest.mark.parametrize("trouble", [None, StreamUnavailable("away")], ids=["nothing new", "away"])
def test_one_that_comes_as_a_wait_ends_is_woken_too(trouble: Exception | None) -> None:
    async def scenario() -> None:
        waiter = Waiter(Telling(trouble))
        late: list[asyncio.Future[Any]] = []

        async with asyncio.timeout(5):
            first = waiter.idle("orders:0", FIRST)
            first.add_done_callback(lambda done: late.append(waiter.idle("orders:0", FIRST)))
            await first
            await asyncio.sleep(0)
            await late[0]
        await waiter.close()

    asyncio.run(scenario())
