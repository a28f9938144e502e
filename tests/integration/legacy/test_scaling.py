"""Scaling a stream that older clients read."""

import asyncio

from tests.integration.http.service import ASKED, STREAM
from tests.integration.legacy.older import Json
from tests.integration.legacy.stage import Stage, admitting


async def scale(stage: Stage, count: int) -> None:
    answer = await stage.service.http.post(f"{STREAM}/scale", json={**ASKED, "targetShardCount": count})
    assert answer.status_code == 202, answer.text


async def stream(stage: Stage) -> Json:
    shown: Json = (await stage.service.http.get(STREAM)).json()
    return shown


def test_added_shards_are_shared_out() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await stage.settle(first, second)
            await scale(stage, 4)
            await stage.pass_time(9, first, second)
            (migration,) = (await stream(stage))["migrations"]

        assert (len(first.owned), len(second.owned), first.owned | second.owned) == (2, 2, {0, 1, 2, 3})
        assert (migration["toShardCount"], migration["state"]) == (4, "DEPRECATED")

    asyncio.run(scenario())


def test_removed_shards_are_read_until_they_are_drained_and_then_let_go() -> None:
    async def scenario() -> None:
        async with admitting(4) as stage:
            first, second = stage.older(), stage.older("web-m1")
            await stage.settle(first, second)
            await scale(stage, 2)
            await stage.pass_time(9, first, second)
            draining = first.owned | second.owned, (await stream(stage))["activeMigration"]["state"]
            await stage.pass_time(75, first, second)
            (migration,) = (await stream(stage))["migrations"]
            group = await stage.group()

        assert draining == ({0, 1, 2, 3}, "DRAINING")
        assert (migration["state"], group["state"], group["shardCount"]) == ("DEPRECATED", "STABLE", 2)
        assert (len(first.owned), len(second.owned), first.owned | second.owned) == (1, 1, {0, 1})

    asyncio.run(scenario())
