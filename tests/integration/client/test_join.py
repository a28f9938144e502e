"""A join in a group of twenty, over real HTTP and a real server, with heartbeats every three seconds.

How long it takes is measured in ``benchmarks/join.py``; here it is how many heartbeats it needs.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from streamshard import GroupKey, HttpCoordinator, Message, StreamApp
from streamshard.adapters.client.member import Member
from streamshard.core.commands import Heartbeat
from streamshard.core.ids import ShardIndex
from streamshard.core.ports import CoordinatorApi
from streamshard.core.replies import HeartbeatReply, Routing
from tests.integration.cli.processes import serving
from tests.integration.client.script import CLOCK, until

SHARDS = 40
RESIDENTS = (5, 5, 5, 4)
MEMBERS = sum(RESIDENTS) + 1
SHORTEST_INTERVAL_MS = 1_600
"""A heartbeat is due every 3 s, less the jitter, and may come along with another's before its time."""

AT_MOST = MEMBERS
"""Besides those that are due anyway: fewer than one for each member."""


class Plain:
    """A coordinator as an older one looks to a client: no watch, no batches."""

    def __init__(self, api: CoordinatorApi) -> None:
        self._api = api

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        return await self._api.heartbeat(key, beat)

    async def routing(self, key: GroupKey) -> Routing:
        return await self._api.routing(key)


def consumer(where: str | list[str] | CoordinatorApi, redis: str, name: str, members: int) -> StreamApp:
    app = StreamApp(where, redis)

    @app.listener("orders", group="billing", concurrency=members, member_id=name)
    async def handle(message: Message) -> None:
        await message.ack()

    return app


def reading(members: list[Member]) -> list[ShardIndex]:
    """The shards that are really read: by a run, under a grant."""
    return [shard for member in members for shard in list(member.session.running)]


def even(members: list[Member]) -> bool:
    """Each shard is read once, and each member has its part."""
    counts = [len(member.session.running) for member in members]
    held = Counter(reading(members))
    return len(held) == SHARDS == held.total() and max(counts) - min(counts) <= 1


def beats(members: list[Member]) -> int:
    return sum(member.session.seq for member in members)


@contextlib.asynccontextmanager
async def group(*apps: StreamApp) -> AsyncIterator[list[Member]]:
    """Consumers that share the shards evenly."""
    async with contextlib.AsyncExitStack() as running:
        await asyncio.gather(*(running.enter_async_context(app) for app in apps))
        members = [member for app in apps for member in app.members]
        await until(lambda: even(members))
        yield members


async def create(url: str, shards: int) -> None:
    body = {"initialShardCount": shards, "consumerGroups": ["billing"], "requestedBy": "test", "reason": "join"}
    async with httpx.AsyncClient(base_url=url) as http:
        (await http.post("/coord/v1/streams/orders", json=body)).raise_for_status()


@pytest.mark.parametrize("coordinators", [1, 2])
def test_a_join_settles_with_few_heartbeats(coordinators: int, redis_url: str, tmp_path: Path) -> None:
    async def scenario(urls: list[str]) -> None:
        await create(urls[0], SHARDS)
        order = [urls[n % len(urls) :] + urls[: n % len(urls)] for n in range(len(RESIDENTS))]
        apps = [consumer(order[n], redis_url, f"c{n}", size) for n, size in enumerate(RESIDENTS)]
        async with group(*apps) as residents:
            before, began = beats(residents), CLOCK.boot()
            newcomer = consumer(urls[::-1], redis_url, "new", 1)
            async with newcomer:
                everybody = [*residents, *newcomer.members]
                await until(lambda: even(everybody))

                assert len(everybody) == MEMBERS
                due_anyway = MEMBERS * (CLOCK.boot() - began) / SHORTEST_INTERVAL_MS
                assert beats(everybody) - before < AT_MOST + due_anyway

    where = ("--store", f"sqlite:///{tmp_path}/meta.db", "--redis", redis_url)
    with contextlib.ExitStack() as served:
        asyncio.run(scenario([served.enter_context(serving(*where)).url for _ in range(coordinators)]))


def test_without_watches_a_group_settles_too(redis_url: str, tmp_path: Path) -> None:
    async def scenario(url: str) -> None:
        await create(url, SHARDS)
        async with HttpCoordinator(url) as api:
            apps = [consumer(Plain(api), redis_url, f"c{n}", size) for n, size in enumerate(RESIDENTS)]
            async with group(*apps) as residents, consumer(Plain(api), redis_url, "new", 1) as newcomer:
                await until(lambda: even([*residents, *newcomer.members]))

    quick = ("--heartbeat", "200ms", "--lease", "4s")
    with serving("--store", f"sqlite:///{tmp_path}/meta.db", "--redis", redis_url, *quick) as served:
        asyncio.run(scenario(served.url))


def test_a_coordinator_that_is_told_to_stop_lets_go_of_those_who_watch(redis_url: str, tmp_path: Path) -> None:
    async def scenario(url: str) -> httpx.Response:
        await create(url, 2)
        async with httpx.AsyncClient(base_url=url, timeout=20) as http:
            held = (await http.get("/coord/v1/streams/orders/groups/billing/producer-routing")).headers["etag"]
            waiting = asyncio.create_task(http.get("/coord/v1/streams/orders/watch", params={"layout": held}))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            served.process.terminate()
            return await waiting

    with serving("--store", f"sqlite:///{tmp_path}/meta.db", "--redis", redis_url) as served:
        answer = asyncio.run(scenario(served.url))
        code = served.process.wait(20)

    assert (answer.status_code, answer.json()["errorCode"], code) == (503, "COORDINATOR_TERMINATING", 0)
