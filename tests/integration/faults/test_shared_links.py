"""Many tasks share few connections: those that are cancelled, and too few links for all, harm nobody else."""

import asyncio
import logging
import random
from typing import Any

import pytest
from redis.asyncio import Redis

from streamshard import Message, Published, StreamApp
from streamshard.adapters.streams.redis_log import RedisShardLog
from tests.integration.client.rig import redis_rig
from tests.integration.client.script import until

SHARDS = 32
RECORDS = 600


def test_publishers_that_give_up_cost_the_others_nothing(redis_url: str) -> None:
    chance = random.Random(1)

    async def scenario() -> None:
        async with redis_rig(redis_url, 4) as rig:
            app = StreamApp(rig.coordinator, rig.log)
            orders = app.producer("orders", "billing")
            async with app:
                tasks = [asyncio.create_task(orders.publish(f"key-{n}", {"n": n})) for n in range(RECORDS)]
                doomed = set(chance.sample(range(RECORDS), RECORDS // 3))
                for n in sorted(doomed):
                    asyncio.get_running_loop().call_later(chance.random() / 50, tasks[n].cancel)
                results = await asyncio.gather(*tasks, return_exceptions=True)

            kept = [result for n, result in enumerate(results) if n not in doomed]
            assert all(isinstance(result, Published) for result in kept)
            places = {(result.key, result.id): n for n, result in enumerate(results) if isinstance(result, Published)}
            stored = await stored_numbers(redis_url)
            assert all(stored[place] == n for place, n in places.items())

    asyncio.run(scenario())


async def stored_numbers(url: str) -> dict[tuple[str, str], int]:
    """What Redis has under which id."""

    found: dict[tuple[str, str], int] = {}
    async with Redis.from_url(url, protocol=2) as redis:
        for shard in range(4):
            rows: Any = await redis.xrange(f"orders:{shard}")
            found |= {(f"orders:{shard}", record.decode()): int(fields[b"n"]) for record, fields in rows}
    return found


def test_acknowledgements_that_are_cancelled_cost_the_others_nothing(redis_url: str) -> None:
    chance = random.Random(2)
    acked: list[int] = []

    async def handle(message: Message) -> None:
        acking = asyncio.create_task(message.ack())
        if message.delivery_count == 1 and chance.random() < 1 / 3:
            await asyncio.sleep(chance.random() / 500)
            acking.cancel()
        await acking
        acked.append(int(message.text("n")))

    async def scenario() -> None:
        async with redis_rig(redis_url, 8) as rig:
            app = StreamApp(rig.coordinator, rig.log)
            app.listener("orders", group="billing", redeliver_after=0.1)(handle)
            orders = app.producer("orders", "billing")
            async with app:
                await orders.publish_many([(f"key-{n}", {"n": n}) for n in range(RECORDS)])
                await until_nothing_pends(redis_url, 8)
            assert sorted(set(acked)) == [n for n in range(RECORDS) if n in set(acked)]
            assert len(acked) >= RECORDS // 2

    asyncio.run(scenario())


async def until_nothing_pends(url: str, shards: int) -> None:
    """Everything was delivered, and everything acknowledged."""

    async with Redis.from_url(url, protocol=2) as redis, asyncio.timeout(20):
        while True:
            rows = [(await redis.xinfo_groups(f"orders:{shard}"))[0] for shard in range(shards)]
            if all((row["pending"], row["lag"]) == (0, 0) for row in rows):
                return
            await asyncio.sleep(0.05)


def test_a_single_connection_serves_all_shards_without_a_word(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    async def handle(message: Message) -> None:
        seen.append(int(message.text("n")))
        await message.ack()

    async def scenario() -> None:
        async with redis_rig(redis_url, SHARDS) as rig:
            log = RedisShardLog.from_url(redis_url, max_connections=1, max_waits=1)
            app = StreamApp(rig.coordinator, log)
            app.listener("orders", group="billing", concurrency=2)(handle)
            orders = app.producer("orders", "billing")
            async with app:
                await asyncio.gather(*(orders.publish(f"key-{n}", {"n": n}) for n in range(RECORDS)))
                await until(lambda: len(seen) == RECORDS)
            await log.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    said = [text for text in caplog.messages if "Redis" in text or "handled" in text]
    assert (sorted(seen), said) == (list(range(RECORDS)), [])
