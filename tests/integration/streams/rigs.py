"""Both ports over one world, with a hand to play the operator's tricks on it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from redis.asyncio import Redis

from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.adapters.streams.opening import shard_log, stream_backend
from streamshard.core.effects import GroupStart, Provision, RaiseFence, Seal
from streamshard.core.ids import Generation, GroupName, LayoutVersion, RecordId, ShardIndex, StreamPrefix, Token
from streamshard.core.ports import ShardLog, StreamBackend
from streamshard.core.records import ReadReply, ShardAccess

ORDERS = StreamPrefix("orders")
ZERO = ShardIndex(0)
KEY = "orders:0"
BILLING = GroupName("billing")
AUDIT = GroupName("audit")
START = RecordId("0-0")


class Rig(Protocol):
    """The two ports, and what an operator or a failover might do behind their back."""

    @property
    def backend(self) -> StreamBackend: ...

    @property
    def log(self) -> ShardLog: ...

    async def lose_shard(self, key: str) -> None: ...

    async def lose_group(self, key: str, group: GroupName) -> None: ...

    async def forget_fence(self, key: str) -> None: ...

    async def delete_record(self, key: str, record: RecordId) -> None: ...

    async def create_foreign(self, key: str, groups: tuple[GroupName, ...]) -> None: ...

    async def ids(self, key: str) -> tuple[RecordId, ...]: ...

    async def close(self) -> None: ...


class MemoryRig:
    """Over the model in memory."""

    def __init__(self, wall: Callable[[], int] | None = None) -> None:
        self.world = MemoryStreams(wall)
        self.backend = MemoryStreamBackend(self.world)
        self.log = MemoryShardLog(self.world)

    async def lose_shard(self, key: str) -> None:
        self.world.lose_shard(key)

    async def lose_group(self, key: str, group: GroupName) -> None:
        self.world.lose_group(key, group)

    async def forget_fence(self, key: str) -> None:
        self.world.forget_fence(key)

    async def delete_record(self, key: str, record: RecordId) -> None:
        self.world.delete_record(key, record)

    async def create_foreign(self, key: str, groups: tuple[GroupName, ...]) -> None:
        self.world.create_foreign(key, groups)

    async def ids(self, key: str) -> tuple[RecordId, ...]:
        return tuple(record.id for record in self.world.entries(key))

    async def close(self) -> None:
        await self.log.close()
        await self.backend.close()


class RedisRig:
    """Over a real server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.backend = stream_backend(url)
        self.log = shard_log(url)
        self._raw = Redis.from_url(url, protocol=2)

    async def raw(self, *words: str | bytes | int) -> Any:
        """Send any command."""
        execute: Callable[..., Awaitable[Any]] = self._raw.execute_command
        return await execute(*words)

    async def knows(self, command: str) -> bool:
        """Whether the server has a command."""
        known = await self.raw("EVAL", "return redis.call('COMMAND', 'INFO', ARGV[1])[1] and 1 or 0", 0, command)
        return bool(known)

    async def lose_shard(self, key: str) -> None:
        await self.raw("DEL", key)

    async def lose_group(self, key: str, group: GroupName) -> None:
        await self.raw("XGROUP", "DESTROY", key, group)

    async def forget_fence(self, key: str) -> None:
        await self.raw("DEL", f"{{{key}}}:fence")

    async def delete_record(self, key: str, record: RecordId) -> None:
        await self.raw("XDEL", key, record)

    async def create_foreign(self, key: str, groups: tuple[GroupName, ...]) -> None:
        for group in (*groups, "passing"):
            await self.raw("XGROUP", "CREATE", key, group, "0", "MKSTREAM")
        await self.raw("XGROUP", "DESTROY", key, "passing")

    async def ids(self, key: str) -> tuple[RecordId, ...]:
        return tuple(RecordId(entry[0].decode()) for entry in await self.raw("XRANGE", key, "-", "+"))

    async def close(self) -> None:
        await self.log.close()
        await self.backend.close()
        await self._raw.aclose()


MakeRig: TypeAlias = Callable[[], Rig]


def play(make: MakeRig, scenario: Callable[[Rig], Awaitable[None]]) -> None:
    """Run one scenario on a fresh rig and close it."""

    async def main() -> None:
        rig = make()
        try:
            await scenario(rig)
        finally:
            await rig.close()

    asyncio.run(main())


def provision(
    *groups: tuple[GroupName, str], shard: int = 0, generation: int = 1, layout: int = 1, adopt: bool = False
) -> Provision:
    """An order to make a shard of ``orders``."""
    starts = tuple(GroupStart(name, start) for name, start in groups)
    return Provision(ORDERS, ShardIndex(shard), Generation(generation), LayoutVersion(layout), starts, adopt)


def raise_to(
    token: int, *, floor: int = 0, generation: int = 1, layout: int = 1, group: GroupName = BILLING
) -> RaiseFence:
    """An order to raise a mark on the first shard of ``orders``."""
    guard = (Generation(generation), LayoutVersion(layout))
    return RaiseFence(ORDERS, ZERO, *guard, group, Token(floor), Token(token))


def seal(*registered: GroupName, generation: int = 1, layout: int = 1, ignored: tuple[GroupName, ...] = ()) -> Seal:
    """An order to retire the first shard of ``orders``."""
    return Seal(ORDERS, ZERO, Generation(generation), LayoutVersion(layout), registered, ignored)


def access(
    token: int, *, shard: int = 0, generation: int = 1, group: GroupName = BILLING, consumer: str = "c1"
) -> ShardAccess:
    """A grant on a shard of ``orders``."""
    return ShardAccess(ORDERS, ShardIndex(shard), group, consumer, Generation(generation), Token(token))


async def publish(rig: Rig, *texts: str, key: str = KEY) -> tuple[RecordId, ...]:
    """Append one record per text and give their ids."""
    ids = [await rig.log.append(key, {"text": text}, None) for text in texts]
    return tuple(record for record in ids if record is not None)


async def read(rig: Rig, token: int, count: int = 100, *, generation: int = 1, consumer: str = "c1") -> ReadReply:
    """Read the first shard of ``orders``, as ``billing``."""
    (reply,) = await rig.log.read([(access(token, generation=generation, consumer=consumer), count)])
    return reply
