"""What only some servers can do, seen at work on each that can: giving back, and deleting what is acknowledged."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from streamshard import ConfigurationError, Message, StreamApp
from streamshard.adapters.streams.redis_log import RedisShardLog
from streamshard.core.records import Abilities
from tests.integration.client.rig import redis_rig
from tests.integration.client.script import until
from tests.servers import FLAVOURS, Servers

NEVER = 3_600.0
"""Seconds until a record comes again that was just left pending."""


@pytest.fixture(params=FLAVOURS)
def url(request: pytest.FixtureRequest, servers: Servers) -> str:
    return servers.url(request.param)


def abilities(url: str) -> Abilities:
    async def ask() -> Abilities:
        log = RedisShardLog.from_url(url)
        try:
            return await log.abilities()
        finally:
            await log.close()

    return asyncio.run(ask())


def consume(
    url: str, handle: Callable[[Message], Awaitable[None]], done: Callable[[], bool], **options: Any
) -> list[tuple[int, int]]:
    """Hand three records over until ``done``; what is left then: entries of the stream, and what pends of them."""

    async def scenario() -> list[tuple[int, int]]:
        async with redis_rig(url, 1) as rig, Redis.from_url(url, protocol=2) as redis:
            for n in range(3):
                await rig.log.append("orders:0", {"n": n}, None)
            app = StreamApp(rig.coordinator, rig.log)
            app.listener("orders", group="billing", redeliver_after=NEVER, **options)(handle)
            async with app:
                await until(done)
            (group,) = await redis.xinfo_groups("orders:0")
            return [(int(await redis.xlen("orders:0")), int(group["pending"]))]

    return asyncio.run(scenario())


def test_a_record_whose_handler_failed_is_given_back_and_comes_again_at_once(url: str) -> None:
    seen: list[tuple[str, int]] = []

    async def handle(message: Message) -> None:
        seen.append((message.text("n"), message.delivery_count))
        if message.text("n") == "1" and message.delivery_count < 3:
            raise ValueError("not yet")
        await message.ack()

    if not abilities(url).gives_back:
        with pytest.raises(ConfigurationError, match="failure='xnack': .* has no XNACK, which Redis has from 8.8 on"):
            consume(url, handle, lambda: True, failure="xnack")
        return
    left = consume(url, handle, lambda: len(seen) == 5, failure="xnack")
    assert (sorted(seen), left) == ([("0", 1), ("1", 1), ("1", 2), ("1", 3), ("2", 1)], [(3, 0)])


def test_a_handler_may_give_a_record_back_itself(url: str) -> None:
    seen: list[tuple[str, int]] = []
    refused: list[str] = []

    async def handle(message: Message) -> None:
        seen.append((message.text("n"), message.delivery_count))
        if message.text("n") == "0" and message.delivery_count == 1:
            try:
                await message.nack()
            except ConfigurationError as error:
                refused.append(error.message)
        else:
            await message.ack()

    able = abilities(url).gives_back
    left = consume(url, handle, lambda: len(seen) == (4 if able else 3))

    again = [("0", 2)] if able else []
    assert (sorted(seen), len(refused)) == (sorted([("0", 1), ("1", 1), ("2", 1), *again]), 0 if able else 1)
    assert left == [(3, 0 if able else 1)]


def test_what_is_acknowledged_is_deleted_where_asked_for_and_possible(url: str) -> None:
    seen: list[str] = []

    async def handle(message: Message) -> None:
        await message.ack_del()
        seen.append(message.text("n"))

    left = consume(url, handle, lambda: len(seen) == 3)

    assert left == [(0 if abilities(url).deletes_acknowledged else 3, 0)]
