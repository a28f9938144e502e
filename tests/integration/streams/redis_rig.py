"""Ways to run scenarios over one Redis server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from streamshard.adapters.streams.redis_log import RedisShardLog
from streamshard.core.ids import Millis
from tests.integration.streams.rigs import (
    RedisRig,
)

SHORT = Millis(300)


def run(url: str, scenario: Callable[[RedisRig], Awaitable[None]]) -> None:
    """Run one scenario over a server of any kind."""

    async def main() -> None:
        rig = RedisRig(url)
        try:
            await scenario(rig)
        finally:
            await rig.close()

    asyncio.run(main())


@asynccontextmanager
async def short_log(url: str) -> AsyncIterator[RedisShardLog]:
    """A log that gives up soon."""
    log = RedisShardLog.from_url(url, timeout=SHORT)
    try:
        yield log
    finally:
        await log.close()
