"""Applications on real servers whose acknowledged records are trimmed: memory stays bounded, and nobody misses one."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from streamshard import Message, Producer, StreamApp
from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.streams.opening import stream_backend
from streamshard.core.admin import CreateStream, GroupSpec, Scale
from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import GroupKey, GroupName, Millis, ReshardingId, ShardIndex
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.stream import Retention
from streamshard.entrypoints.ticker import Ticker, ticking
from tests.integration.client.rig import QUICK, TESTER
from tests.integration.client.script import ORDERS
from tests.servers import FLAVOURS, Servers

BILLING, AUDIT, STRANGER = ORDERS.group, GroupName("audit"), "stranger"
TRIM_EVERY = Millis(200)
NODE = 100
"""Records in a node of a server's stream, at most."""


class Scene:
    """Coordinators over one store and one server, applications of two groups, and what each of them handled."""

    def __init__(self, url: str, redis: Redis) -> None:
        self.url, self.redis = url, redis
        self.store = MemoryStore()
        self.backend = stream_backend(url)
        self.handled: dict[GroupName, set[str]] = defaultdict(set)
        self.published: set[str] = set()

    def coordinator(self, name: str) -> Coordinator:
        settings = CoordinatorSettings(name, timing=QUICK, trim_every_ms=TRIM_EVERY)
        return Coordinator(self.store.connect(), self.backend, SystemClock(), SystemEntropy(), settings)

    @contextlib.asynccontextmanager
    async def living(self, name: str) -> AsyncIterator[Coordinator]:
        coordinator = self.coordinator(name)
        async with ticking(Ticker(coordinator, SystemClock(), QUICK.tick_ms)):
            yield coordinator

    def app(self, coordinator: Coordinator, group: GroupName, wait: float = 0) -> StreamApp:
        app = StreamApp(coordinator, self.url, drain_timeout=5)

        @app.listener(ORDERS.prefix, group=group, member_id=group, max_workers=8)
        async def handle(message: Message) -> None:
            await asyncio.sleep(wait)
            self.handled[group].add(f"{message.key} {message.id}")
            await message.ack()

        return app

    async def publish(self, producer: Producer, count: int) -> None:
        for written in await producer.publish_many([(f"order-{n}", {"n": n}) for n in range(count)]):
            assert not isinstance(written, Exception)
            self.published.add(f"{written.key} {written.id}")

    async def killed_while_it_trims(self) -> None:
        """Coordinators that end wherever they happen to be."""
        for steps in range(0, 40, 4):
            ticking = asyncio.create_task(self.coordinator("killed").tick())
            for _ in range(steps):
                await asyncio.sleep(0)
            ticking.cancel()
            await asyncio.wait([ticking])

    async def length(self) -> int:
        lengths = [await self.redis.xlen(f"orders:{shard}") for shard in range(4)]
        return sum(lengths)

    async def raw(self, *words: object) -> Any:
        execute: Callable[..., Awaitable[Any]] = self.redis.execute_command
        return await execute(*words)

    async def until(self, what: str, true: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(600):
            if await true():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"it never came to this: {what}")

    async def until_handled(self, *groups: GroupName) -> None:
        async def done() -> bool:
            return all(self.handled[group] >= self.published for group in groups)

        await self.until(f"{groups} handled everything", done)

    async def until_short(self, shards: int) -> None:
        async def short() -> bool:
            return await self.length() <= shards * (NODE + 1)

        await self.until("the shards are short", short)

    async def scale(self, coordinator: Coordinator, target: int) -> None:
        async def over() -> bool:
            return (await coordinator.stream(ORDERS.prefix)).resharding is None

        await coordinator.scale(Scale(ORDERS.prefix, TESTER, target, ReshardingId(f"to-{target}")))
        await self.until(f"{target} shards", over)


@contextlib.asynccontextmanager
async def scene(url: str) -> AsyncIterator[tuple[Scene, Coordinator]]:
    async with Redis.from_url(url, protocol=2) as redis:
        one = Scene(url, redis)
        try:
            async with one.living("c1") as coordinator:
                groups = (GroupSpec(BILLING), GroupSpec(AUDIT))
                await coordinator.create_stream(
                    CreateStream(ORDERS.prefix, TESTER, 2, groups, retention=Retention.ACKNOWLEDGED)
                )
                yield one, coordinator
        finally:
            await one.backend.close()


@pytest.fixture(params=FLAVOURS)
def url(request: pytest.FixtureRequest, servers: Servers) -> str:
    return servers.url(request.param)


def test_a_stream_stays_short_and_every_group_handles_everything_whatever_happens(url: str) -> None:
    async def scenario() -> None:
        async with scene(url) as (one, first):
            app = one.app(first, BILLING)
            producer = app.producer(ORDERS.prefix, BILLING, refresh_interval=0.2)
            async with app:
                await one.publish(producer, 400)
                await one.raw("XREADGROUP", "GROUP", AUDIT, "dead", "COUNT", 7, "STREAMS", "orders:0", ">")
                await one.until_handled(BILLING)
                await asyncio.sleep(3 * TRIM_EVERY / 1000)
                held = await one.length()

                async with one.living("c2") as second, one.app(second, AUDIT, wait=0.002):
                    await one.scale(first, 4)
                    await one.killed_while_it_trims()
                    await one.publish(producer, 600)
                    await one.scale(second, 2)
                    await one.publish(producer, 400)
                    await one.until_handled(BILLING, AUDIT)
                    await one.until_short(2)

        assert held == 400
        assert one.handled == {BILLING: one.published, AUDIT: one.published}
        assert len(one.published) == 1_400

    asyncio.run(scenario())


def test_a_stream_stays_short_while_it_is_published_and_consumed(url: str) -> None:
    async def scenario() -> None:
        lengths: list[int] = []
        async with scene(url) as (one, coordinator):
            app = one.app(coordinator, BILLING)
            async with app, one.app(coordinator, AUDIT):
                producer = app.producer(ORDERS.prefix, BILLING)
                for _ in range(20):
                    await one.publish(producer, 300)
                    await one.until_handled(BILLING, AUDIT)
                    lengths.append(await one.length())
                    await asyncio.sleep(TRIM_EVERY / 2_000)
                await one.until_short(2)

        assert len(one.published) == 6_000
        assert max(lengths) < 3_000

    asyncio.run(scenario())


def test_a_group_that_nobody_registered_gets_every_record_until_it_is_destroyed(url: str) -> None:
    async def scenario() -> None:
        async with scene(url) as (one, coordinator):
            await one.raw("XGROUP", "CREATE", "orders:0", STRANGER, "0")
            app = one.app(coordinator, BILLING)
            async with app, one.app(coordinator, AUDIT):
                producer = app.producer(ORDERS.prefix, BILLING)
                seen: list[str] = []
                for _ in range(3):
                    await one.publish(producer, 500)
                    await one.until_handled(BILLING, AUDIT)
                    await asyncio.sleep(2 * TRIM_EVERY / 1000)
                    seen += await read_on(one, 200)
                holder = coordinator.held_back_by(ORDERS.prefix)[ShardIndex(0)]
                seen += await read_on(one, 1_500)
                await one.raw("XGROUP", "DESTROY", "orders:0", STRANGER)
                await one.until_short(2)

        ids = [written.split()[1] for written in one.published if written.startswith("orders:0 ")]
        assert seen == sorted(ids, key=by_id)
        assert holder == STRANGER

    async def read_on(one: Scene, count: int) -> list[str]:
        found = await one.raw("XREADGROUP", "GROUP", STRANGER, "s", "COUNT", count, "NOACK", "STREAMS", "orders:0", ">")
        return [entry[0].decode() for entry in found[0][1]] if found else []

    asyncio.run(scenario())


def by_id(record: str) -> tuple[int, int]:
    ms, _, sequence = record.partition("-")
    return int(ms), int(sequence)


def test_what_a_producer_s_limit_dropped_unread_is_counted(url: str) -> None:
    async def scenario() -> None:
        async with scene(url) as (one, coordinator), one.app(coordinator, AUDIT) as app:
            producer = app.producer(ORDERS.prefix, BILLING, max_len=100, trim="exact")
            written = await producer.publish_many([(f"order-{n}", {"n": n}) for n in range(600)])

            async def counted() -> bool:
                found = coordinator.trimmed_unread()
                return found.get(GroupKey(ORDERS.prefix, BILLING), 0) >= len(written) - 200

            await one.until("the loss is counted", counted)
            lost = coordinator.trimmed_unread()[ORDERS]
            again = one.coordinator("again")
            await again.tick()

        assert len(written) - lost == 200
        assert again.trimmed_unread()[ORDERS] == 0

    asyncio.run(scenario())
