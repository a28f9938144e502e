"""A real coordinator, real sessions, and every record handled: in memory and on a real server."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeAlias

import pytest

from streamshard import Message, Producer, StreamApp
from tests.integration.client.rig import Rig, memory_rig, redis_rig
from tests.integration.client.script import ORDERS, until

MakeRig: TypeAlias = Callable[[int], AbstractAsyncContextManager[Rig]]


@pytest.fixture(params=["memory", "valkey", "cluster"])
def make_rig(request: pytest.FixtureRequest) -> MakeRig:
    if request.param == "memory":
        return memory_rig
    if request.param == "cluster":
        return partial(redis_rig, request.getfixturevalue("cluster").url)
    return partial(redis_rig, request.getfixturevalue("redis_url"))


class Ledger:
    """Who handled what, in which order."""

    def __init__(self) -> None:
        self.handled: dict[str, list[str]] = defaultdict(list)
        self.by: dict[str, set[int]] = defaultdict(set)

    def app(self, rig: Rig, name: str, concurrency: int = 1) -> StreamApp:
        app = StreamApp(rig.coordinator, rig.log, drain_timeout=5)

        @app.listener("orders", group="billing", concurrency=concurrency, member_id=name)
        async def handle(message: Message) -> None:
            self.handled[message.key].append(message.id)
            self.by[name].add(message.shard)
            await message.ack()

        return app

    @property
    def total(self) -> int:
        return len({(key, record) for key, records in self.handled.items() for record in records})


async def owned_by(rig: Rig, members: set[str], shards: int) -> None:
    async with asyncio.timeout(20):
        while True:
            owners = await rig.owners()
            if set(owners.values()) == members and len(owners) == shards:
                return
            await asyncio.sleep(0.02)


def test_two_listeners_share_the_shards_and_handle_everything(make_rig: MakeRig) -> None:
    ledger = Ledger()

    async def scenario() -> None:
        async with make_rig(4) as rig, ledger.app(rig, "a"), ledger.app(rig, "b") as app:
            await owned_by(rig, {"a-m0", "b-m0"}, 4)
            producer = app.producer("orders", "billing")
            for n in range(200):
                await producer.publish(f"order-{n}", {"n": n})
            await until(lambda: ledger.total == 200)

    asyncio.run(scenario())
    assert all(records == sorted(set(records), key=by_id) for records in ledger.handled.values())
    assert ledger.by["a"] | ledger.by["b"] == {0, 1, 2, 3}
    assert ledger.by["a"].isdisjoint(ledger.by["b"])


def test_nothing_is_lost_while_members_come_and_go(make_rig: MakeRig) -> None:
    ledger = Ledger()

    async def scenario() -> None:
        async with make_rig(4) as rig, ledger.app(rig, "a", concurrency=2) as app:
            producer = app.producer("orders", "billing")
            publishing = asyncio.create_task(publish(producer, 300))
            async with ledger.app(rig, "b"):
                await owned_by(rig, {"a-m0", "a-m1", "b-m0"}, 4)
            await owned_by(rig, {"a-m0", "a-m1"}, 4)
            await publishing
            await until(lambda: ledger.total == 300)

    asyncio.run(scenario())
    assert all(firsts(records) == sorted(set(records), key=by_id) for records in ledger.handled.values())


def test_resharding_out_and_in_loses_nothing(make_rig: MakeRig) -> None:
    ledger = Ledger()

    async def scenario() -> None:
        async with make_rig(2) as rig, ledger.app(rig, "a"), ledger.app(rig, "b") as app:
            await owned_by(rig, {"a-m0", "b-m0"}, 2)
            producer = app.producer("orders", "billing", refresh_interval=0.2)
            publishing = asyncio.create_task(publish(producer, 400))
            await rig.scale(4)
            await settled(rig, 4)
            await publish(producer, 100)
            await rig.scale(1)
            await settled(rig, 1)
            await publishing
            await publish(producer, 100)
            await until(lambda: ledger.total == 600)

    asyncio.run(scenario())
    assert {"orders:0", "orders:1", "orders:2", "orders:3"} == set(ledger.handled)


async def settled(rig: Rig, shards: int) -> None:
    async with asyncio.timeout(30):
        while True:
            stream = await rig.coordinator.stream(ORDERS.prefix)
            if stream.resharding is None and len(await rig.owners()) == shards:
                return
            await asyncio.sleep(0.05)


async def publish(producer: Producer, count: int) -> None:
    for n in range(count):
        await producer.publish(f"order-{n}", {"n": n})
        await asyncio.sleep(0.001)


def by_id(record: str) -> tuple[int, int]:
    ms, _, sequence = record.partition("-")
    return int(ms), int(sequence)


def firsts(records: list[str]) -> list[str]:
    return list(dict.fromkeys(records))
