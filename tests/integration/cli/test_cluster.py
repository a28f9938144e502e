"""A coordinator as a process, and an application, with everything in one Redis Cluster."""

import asyncio
import json
from collections import Counter

import httpx

from streamshard import Message, StreamApp
from tests.integration.cli.processes import serving, streamshard
from tests.integration.client.script import until
from tests.integration.cluster import Cluster, ask

SHARDS = 8
QUICK = ("--lease", "3s", "--heartbeat", "300ms", "--tick", "200ms", "--routing-lease", "2s")


def test_a_cluster_keeps_metadata_and_shards_for_a_coordinator_and_an_application(cluster: Cluster) -> None:
    handled: Counter[str] = Counter()

    async def work(url: str) -> None:
        app = StreamApp(url, redis=cluster.url)

        @app.listener("orders", group="billing")
        async def handle(message: Message) -> None:
            handled[message.key] += 1
            await message.ack()

        async with app:
            orders = app.producer("orders", "billing")
            await orders.publish_many([(f"order-{n}", {"n": n}) for n in range(200)])
            await until(lambda: handled.total() == 200)

    with serving("--store", cluster.url, "--redis", cluster.url, *QUICK) as served:
        where = {"STREAMSHARD_URL": served.url}
        created = streamshard(
            "streams", "create", "orders", "--shards", str(SHARDS), "--group", "billing", environment=where
        )
        asyncio.run(work(served.url))
        offsets = httpx.get(
            f"{served.url}/coord/v1/monitoring/streams/orders/groups/billing/offsets", trust_env=False
        ).json()
        scaled = streamshard("streams", "scale", "orders", "3", "--reason", "night", "--wait", environment=where)
        described = streamshard("streams", "describe", "orders", "-o", "json", environment=where)

    assert (created.returncode, scaled.returncode) == (0, 0), created.stderr + scaled.stderr
    assert set(handled) == {f"orders:{shard}" for shard in range(SHARDS)}
    assert len({shard["redisNodeEndpoint"] for shard in offsets["shards"]}) == 3
    assert json.loads(described.stdout)["shardCount"] == 3
    left = {key for node in cluster.masters for key in ask(node.port, "KEYS", "orders:*")}
    assert left == {b"orders:0", b"orders:1", b"orders:2"}
