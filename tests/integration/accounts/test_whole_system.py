"""Coordinator, consumer, producer, monitor and operator, each with its own account, from creation to scale-in."""

import asyncio
from collections.abc import Iterator

import pytest

from streamshard import Message, StreamApp
from streamshard.adapters.redis_acl import Role
from streamshard.adapters.streams.dead_letters import RedisDeadLetters
from streamshard.adapters.streams.opening import stream_inspector
from streamshard.core.ids import ShardIndex
from streamshard.core.inspection import Direction, Wanted
from tests.integration.accounts.accounts import Accounts
from tests.integration.client.script import ORDERS
from tests.integration.cluster import Cluster
from tests.integration.links import system, until
from tests.servers import Servers

SHARDS = tuple(map(ShardIndex, range(4)))


@pytest.fixture(scope="module")
def guarded_cluster(servers: Servers) -> Iterator[Cluster]:
    """Three masters, apart from the other tests': their accounts stay."""
    with Cluster(servers.binary("valkey")) as cluster:
        yield cluster


def test_nothing_is_refused_from_creation_to_scale_in(accounts: Accounts) -> None:
    live_and_be_refused_nothing(accounts)


def test_nothing_is_refused_on_a_cluster(guarded_cluster: Cluster) -> None:
    live_and_be_refused_nothing(Accounts(guarded_cluster.url, [node.port for node in guarded_cluster.nodes]))


def live_and_be_refused_nothing(accounts: Accounts) -> None:
    handled: set[str] = set()

    async def scenario() -> None:
        coordinator_url, consumer_url = accounts.url(Role.COORDINATOR), accounts.url(Role.CONSUMER)
        async with system(coordinator_url, shards=2) as running:
            app = StreamApp(running.coordinator, consumer_url, drain_timeout=5)

            @app.listener("orders", group="billing", max_deliveries=2, redeliver_after=0.2, sweep_every=0.1)
            async def handle(message: Message) -> None:
                if message.text("n") == "bad":
                    raise ValueError("never")
                handled.add(message.text("n"))
                await (message.ack_del() if message.text("n").endswith("0") else message.ack())

            publishing = StreamApp(running.coordinator, accounts.url(Role.PRODUCER))
            producer = publishing.producer("orders", "billing", max_len=10_000, refresh_interval=0.2)
            async with app, publishing:
                await producer.publish("bad", {"n": "bad"})
                for count, first in ((2, 0), (4, 40), (1, 80)):
                    if count != 2:
                        await running.scale(count)
                    await producer.publish_many([(f"key-{n}", {"n": f"{n}"}) for n in range(first, first + 40)])
                await until(lambda: len(handled) == 120)
                await look_after(accounts)
            assert (await running.coordinator.health()).redis == "UP"
            await running.store.rebuild_index()

    asyncio.run(scenario())
    assert accounts.refused() == []


async def look_after(accounts: Accounts) -> None:
    """What a person does: look, and redrive what was given up."""
    inspector = stream_inspector(accounts.url(Role.MONITOR))
    looking = RedisDeadLetters(accounts.url(Role.MONITOR), ORDERS.prefix)
    operating = RedisDeadLetters(accounts.url(Role.OPERATOR), ORDERS.prefix)
    try:
        seen = await inspector.look(ORDERS.prefix, SHARDS, ORDERS.group)
        (page,) = await inspector.pages(ORDERS.prefix, SHARDS[:1], Wanted(Direction.BACKWARD, 10))
        assert [look.exists for look in seen] == [True, False, False, False]
        assert len(page.entries) == 10
        async with asyncio.timeout(10):
            while await looking.size() == 0:
                await asyncio.sleep(0.02)
        (kept,) = await looking.page(None, 10)
        assert await operating.redrive(kept, SHARDS[0])
        assert await operating.drop([kept.id]) == 0
    finally:
        for each in (inspector, looking, operating):
            await each.close()
