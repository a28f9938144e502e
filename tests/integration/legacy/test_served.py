"""Older clients against a coordinator process and a real server: they join, read, scale, hand over, leave."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import attrs
import httpx
import redis

from tests.integration.cli.processes import serving, streamshard
from tests.integration.http.service import ASKED, GROUP, STREAM
from tests.integration.legacy.older import Json, OlderClient

FAST = ("--lease", "8s", "--heartbeat", "500ms", "--tick", "100ms", "--routing-lease", "200ms")
PATIENCE_S = 60
RECORDS = 40


@attrs.define
class Worker:
    """An older client with its reader: a plain XREADGROUP under the member's name, and an XACK."""

    client: OlderClient
    server: redis.Redis
    handled: list[bytes] = attrs.field(factory=list)

    async def turn(self) -> None:
        """One heartbeat, then one read of each shard it owns."""
        await self.client.beat()
        for shard in sorted(self.client.owned):
            self._read(f"orders:{shard}")

    def _read(self, key: str) -> None:
        found: Any = self.server.xreadgroup("billing", self.client.member, {key: ">"}, count=100)
        for record, fields in found[0][1] if found else ():
            self.handled.append(fields[b"event"])
            self.server.xack(key, "billing", record)


async def until(done: Callable[[], bool], *workers: Worker) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, [(w.client.owned, w.client.pending, len(w.handled)) for w in workers]
        for worker in workers:
            await worker.turn()
        await asyncio.sleep(0.1)


def publish(server: redis.Redis, shards: int, first: int) -> set[bytes]:
    events = {b"event-%d" % number for number in range(first, first + RECORDS)}
    for number, event in enumerate(sorted(events)):
        assert server.xadd(f"orders:{number % shards}", {"event": event}, nomkstream=True)
    return events


@attrs.frozen
class Lived:
    """What came of two members' lives, and what the command line told of the one that is left."""

    published: set[bytes]
    handled: list[bytes]
    shares: list[set[int]]
    told: Json
    described: list[str]


async def life(url: str, server: redis.Redis) -> Lived:
    """Two members share two shards, then four; one leaves; everything published is handled once."""
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
        first, second = (Worker(OlderClient(http, GROUP, f"web-m{number}"), server) for number in range(2))
        published = publish(server, 2, 0)
        await until(lambda: len(first.client.owned) == len(second.client.owned) == 1, first, second)
        scaled = await http.post(f"{STREAM}/scale", json={**ASKED, "targetShardCount": 4})
        assert scaled.status_code == 202, scaled.text
        await until(lambda: len(first.client.owned) == len(second.client.owned) == 2, first, second)
        shares = [set(first.client.owned), set(second.client.owned)]
        published |= publish(server, 4, RECORDS)
        await until(lambda: len(first.handled) + len(second.handled) >= 2 * RECORDS, first, second)
        left = await first.client.leave()
        assert left["status"] == "OK"
        await until(lambda: second.client.owned == {0, 1, 2, 3}, second)
        published |= publish(server, 4, 2 * RECORDS)
        await until(lambda: len(first.handled) + len(second.handled) >= 3 * RECORDS, second)
        told = json.loads(await described(second, "-o", "json", "--url", url))
        text = (await described(second, "--url", url)).splitlines()
        return Lived(published, sorted(first.handled + second.handled), shares, told, text)


async def described(worker: Worker, *options: str) -> str:
    """What ``groups describe`` prints, while the worker goes on."""
    command = asyncio.create_task(asyncio.to_thread(streamshard, "groups", "describe", "orders/billing", *options))
    await until(command.done, worker)
    result = await command
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_older_clients_live_a_whole_life_with_a_real_coordinator_and_server(redis_url: str) -> None:
    with (
        serving("--store", redis_url, "--redis", redis_url, *FAST) as served,
        contextlib.closing(redis.Redis.from_url(redis_url)) as server,
    ):
        create = ("groups", "create", "orders/billing", "--shards", "2", "--allow-legacy-members", "--url", served.url)
        made = streamshard(*create)
        lived = asyncio.run(life(served.url, server))
        marks = [server.hget(f"{{orders:{shard}}}:fence", "t:billing") for shard in range(4)]

    assert made.returncode == 0, made.stderr
    assert (lived.handled, sorted(set().union(*lived.shares))) == (sorted(lived.published), [0, 1, 2, 3])
    assert "EXCLUSIVITY  cooperative: clients without fenced reads may join" in lived.described
    shards = lived.told["shards"]
    assert (lived.told["exclusivity"], [shard["owner"] for shard in shards]) == ("cooperative", ["web-m1"] * 4)
    assert [int(mark or 0) for mark in marks] == [shard["token"] for shard in shards]
