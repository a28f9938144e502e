"""A retry after a lost answer: the same answer, and the thing is done once."""

import asyncio
from typing import Any

import httpx
import pytest

from streamshard.adapters.stores.memory import Fault, MemoryStore
from tests.integration.http.service import ASKED, GROUP, STREAM, Running, beat, running

KEY = {"Idempotency-Key": "once"}
FORCED = {**ASKED, "force": True}
CREATE = {**ASKED, "initialShardCount": 2}


async def _scaled(service: Running) -> str:
    answer = await service.http.post(GROUP + "/scale", json={**ASKED, "targetShardCount": 1})
    return f"{GROUP}/migrations/{answer.json()['reshardingId']}"


async def twice(service: Running, method: str, path: str, body: dict[str, Any]) -> tuple[httpx.Response, ...]:
    return tuple([await service.http.request(method, path, json=body, headers=KEY) for _ in range(2)])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/coord/v1/streams/new", CREATE),
        ("POST", "/coord/v1/streams/new/groups/first", CREATE),
        ("POST", STREAM + "/groups/audit", ASKED),
        ("POST", STREAM + "/scale", {**ASKED, "targetShardCount": 3}),
        ("POST", GROUP + "/scale", {**ASKED, "targetShardCount": 1}),
        ("DELETE", GROUP, FORCED),
        ("DELETE", STREAM, FORCED),
        ("DELETE", STREAM, {**FORCED, "dropData": True}),
    ],
)
def test_a_repeated_mutation_is_answered_alike_and_another_under_its_key_refused(
    method: str, path: str, body: dict[str, Any]
) -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json=CREATE)
            await service.http.post(GROUP + "/members/web-m0/heartbeat", json=beat())

            first, again = await twice(service, method, path, body)
            other = await service.http.request(method, path, json={**body, "reason": "another"}, headers=KEY)

        assert 200 <= first.status_code < 300
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert (other.status_code, other.json()["errorCode"]) == (422, "IDEMPOTENCY_KEY_REUSED")

    asyncio.run(scenario())


@pytest.mark.parametrize(("what", "more"), [("/rollback", {}), ("", {"ignoreForeignGroups": ["old"]})])
def test_a_repeated_change_of_a_resharding_is_answered_alike(what: str, more: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json=CREATE)
            path = await _scaled(service)

            first, again = await twice(service, "POST", path + what, {**ASKED, **more})

        assert first.status_code in {200, 202}
        assert (again.status_code, again.json()) == (first.status_code, first.json())

    asyncio.run(scenario())


def test_the_answer_to_a_delete_says_what_was() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json=CREATE)
            await service.http.post(GROUP + "/members/web-m0/heartbeat", json=beat())
            _, group = await twice(service, "DELETE", GROUP, FORCED)
            stream = await service.http.request("DELETE", STREAM, json=ASKED)

        assert (group.json()["targetAssignmentSummary"], group.json()["shardCount"]) == ({"web-m0": 2}, 2)
        assert (stream.json()["streamPrefix"], stream.json()["shardCount"]) == ("orders", 2)

    asyncio.run(scenario())


def test_without_a_key_a_second_delete_finds_nothing() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json=CREATE)
            group = [await service.http.request("DELETE", GROUP, json=ASKED) for _ in range(2)]
            stream = [await service.http.request("DELETE", STREAM, json=ASKED) for _ in range(2)]

        assert [answer.status_code for answer in (*group, *stream)] == [200, 404, 200, 404]

    asyncio.run(scenario())


def test_a_late_retry_does_not_delete_what_was_created_since() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json=CREATE)
            first = await service.http.request("DELETE", STREAM, json=ASKED, headers=KEY)
            await service.http.post(GROUP, json={**CREATE, "initialShardCount": 5})
            late = await service.http.request("DELETE", STREAM, json=ASKED, headers=KEY)
            there = await service.http.get(GROUP)

        assert late.json() == first.json()
        assert (there.status_code, there.json()["shardCount"]) == (200, 5)

    asyncio.run(scenario())


@pytest.mark.parametrize("fault", [Fault.UNCERTAIN_APPLIED, Fault.UNCERTAIN_LOST])
def test_a_delete_whose_commit_is_unknown_is_found_out_about(fault: Fault) -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json=CREATE)
            assert isinstance(service.store, MemoryStore)
            service.store.fail_next(fault)
            answer = await service.http.request("DELETE", STREAM, json=ASKED, headers=KEY)
            again = await service.http.request("DELETE", STREAM, json=ASKED, headers=KEY)

        assert (answer.status_code, again.status_code) == (200, 200)
        assert again.json() == answer.json()

    asyncio.run(scenario())


def test_with_its_data_a_stream_takes_its_keys_along() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json=CREATE)
            service.world.add("orders:0", {b"payload": b"a"})
            kept = sorted(service.world.streams)
            gone = await service.http.request("DELETE", STREAM, json={**ASKED, "dropData": True})
            left = sorted(service.world.streams)
            made = await service.http.post(GROUP, json=CREATE)

        assert (kept, gone.status_code, left, made.status_code) == (["orders:0", "orders:1"], 200, [], 201)

    asyncio.run(scenario())


def test_a_redis_that_is_away_holds_up_the_drop_and_not_the_delete() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json=CREATE)
            service.world.go_down()
            gone = await service.http.request("DELETE", STREAM, json={**ASKED, "dropData": True})
            shown = await service.http.get(STREAM)
            service.world.come_back()
            await service.tick(2)

        assert (gone.status_code, shown.status_code) == (200, 404)
        assert sorted(service.world.streams) == []

    asyncio.run(scenario())
