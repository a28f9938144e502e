"""Both ports over a real Redis Cluster."""

from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio import RedisCluster

from streamshard.adapters.redis_url import parse
from streamshard.adapters.streams.opening import shard_log, stream_backend
from tests.integration.streams.rigs import RedisRig


class ClusterRig(RedisRig):
    """As over one server, with the driver's own client for the operator's hand."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.backend = stream_backend(url)
        self.log = shard_log(url)
        host, port = parse(url).seeds[0]
        self._client = RedisCluster(host, port, protocol=2)

    async def raw(self, *words: str | bytes | int) -> Any:
        """Send any command."""
        execute: Callable[..., Awaitable[Any]] = self._client.execute_command
        return await execute(*words)

    async def close(self) -> None:
        await self.log.close()
        await self.backend.close()
        await self._client.aclose()
