"""Handlers that burn the processor or stop the event loop for three leases, over real HTTP and a real server."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from streamshard import Message, StreamApp
from tests.integration.cli.processes import serving
from tests.integration.client.script import until

LEASE_S = 2.0
OPTIONS = ("--lease", "2s", "--heartbeat", "400ms", "--tick", "100ms")


def burn(seconds: float) -> None:
    """Keep the interpreter busy, without ever waiting."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1_000))


@pytest.mark.parametrize("blocking", [True, False])
def test_three_leases_of_work_cost_neither_membership_nor_shard(
    redis_url: str, tmp_path: Path, *, blocking: bool
) -> None:
    told: list[str] = []
    seen: list[int] = []

    async def handle(message: Message) -> None:
        burn(3 * LEASE_S)
        seen.append(message.delivery_count)
        await message.ack()

    def handle_in_a_thread(message: Message) -> None:
        burn(3 * LEASE_S)
        seen.append(message.delivery_count)
        message.ack_blocking()

    async def scenario(url: str) -> None:
        app = StreamApp(url, redis_url)
        app.listener("orders", group="billing", on_lost=lambda member, shard, token: told.append("lost"))(
            handle_in_a_thread if blocking else handle
        )
        orders = app.producer("orders", "billing")
        async with app:
            await until(lambda: len(app.members[0].session.running) == 1)
            instance = app.members[0].session.instance
            await orders.publish("a", {"n": 1})
            await until(lambda: bool(seen))
            assert app.members[0].session.instance == instance

    with serving("--redis", redis_url, "--store", f"sqlite:///{tmp_path / 'meta.db'}", *OPTIONS) as served:
        body = {"requestedBy": "test", "initialShardCount": 1}
        httpx.post(f"{served.url}/coord/v1/streams/orders/groups/billing", json=body).raise_for_status()
        asyncio.run(scenario(served.url))
    assert (seen, told) == ([1], [])
