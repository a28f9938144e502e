"""POST /heartbeats: each is decided as if it had come alone."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.integration.http.service import ASKED, GROUP, STREAM, Running, beat, error, running

BATCH = "/coord/v1/heartbeats"


def item(member: str, group: str = "billing", prefix: str = "orders", **fields: Any) -> dict[str, Any]:
    """A join, each member of its own instance."""
    instance = member.encode().hex().rjust(32, "0")
    return {"streamPrefix": prefix, "consumerGroup": group, **beat(member, instanceId=instance), **fields}


async def made(service: Running, shards: int = 4) -> None:
    body = {**ASKED, "initialShardCount": shards, "consumerGroups": ["billing", "audit"]}
    await service.http.post(STREAM, json=body)


async def send(service: Running, *items: Any) -> httpx.Response:
    return await service.http.post(BATCH, json={"heartbeats": items})


def test_every_member_is_answered_in_its_place_as_if_it_had_come_alone() -> None:
    async def scenario() -> None:
        async with running() as service, running() as alone:
            await made(service)
            await made(alone)
            sent = [item("a"), item("b"), item("c", "audit")]

            answer = await send(service, *sent)

            replies = answer.json()["replies"]
            expected = [
                (
                    await alone.http.post(
                        f"{STREAM}/groups/{s['consumerGroup']}/members/{s['memberId']}/heartbeat", json=s
                    )
                )
                for s in sent
            ]
            assert answer.status_code == 200
            assert [untimed(reply) for reply in replies] == [untimed(each.json()) for each in expected]

    asyncio.run(scenario())


def untimed(reply: dict[str, Any]) -> dict[str, Any]:
    """Without what is random, or follows the order of other changes."""
    return {name: value for name, value in reply.items() if name not in ("view", "grants")}


def test_a_batch_of_joins_of_one_group_makes_nobody_come_again() -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service, 40)

            replies = (await send(service, *(item(f"m{n}") for n in range(40)))).json()["replies"]

            assert [reply["status"] for reply in replies] == ["OK"] * 40

    asyncio.run(scenario())


def test_a_bad_item_spoils_no_other() -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)
            bad = {**item("b", seq=7), "ownedShards": None}

            answer = await send(service, item("a"), bad, 5, item("c"))

            replies = answer.json()["replies"]
            assert [reply["status"] for reply in replies] == ["OK", "INVALID_REQUEST", "INVALID_REQUEST", "OK"]
            assert (replies[1]["memberId"], replies[1]["seq"], replies[1]["responseTo"]) == ("b", 7, "r-1")
            assert replies[1]["message"] == "ownedShards: must be a list of {shardIndex}"
            assert replies[2]["message"] == "body: must be a JSON object"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "status", "field"),
    [
        ({"streamPrefix": "a/b"}, "INVALID_REQUEST", "streamPrefix"),
        ({"streamPrefix": 5}, "INVALID_REQUEST", "streamPrefix"),
        ({"consumerGroup": ""}, "INVALID_REQUEST", "consumerGroup"),
        ({"memberId": ".."}, "INVALID_REQUEST", "memberId"),
        ({"memberEpoch": -2}, "INVALID_REQUEST", "memberEpoch"),
        ({"seq": None}, "INVALID_REQUEST", "seq"),
        ({"seq": "x" * 3_000, "requestId": 5, "memberId": None}, "INVALID_REQUEST", "requestId"),
        ({"protocolVersion": 2}, "UNSUPPORTED_PROTOCOL", "protocolVersion"),
        ({"holds": [{"shardIndex": -1, "token": 1}]}, "INVALID_REQUEST", "holds"),
        ({"consumerGroup": "nobody"}, "UNKNOWN_MEMBER_ID", "no group"),
        ({"streamPrefix": "void"}, "UNKNOWN_MEMBER_ID", "no stream"),
    ],
)
def test_an_item_that_is_refused_is_told_why(fields: dict[str, Any], status: str, field: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)

            (reply,) = (await send(service, item("a", **fields))).json()["replies"]

            assert (reply["status"], reply["grants"], reply["groupEpoch"]) == (status, [], 0)
            assert field in reply["message"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "heartbeats: is missing, it must be a list of at most 1000 heartbeats"),
        ({"heartbeats": 5}, "heartbeats: must be a list of at most 1000 heartbeats"),
        ({"heartbeats": [{}] * 1_001}, "heartbeats: must be a list of at most 1000 heartbeats"),
        ([], "body: must be a JSON object"),
    ],
)
def test_an_envelope_that_makes_no_sense_is_refused(body: Any, message: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await service.http.post(BATCH, json=body)

            assert (answer.status_code, answer.json()) == (400, error("BAD_REQUEST", "INVALID_REQUEST", message))

    asyncio.run(scenario())


def test_an_item_that_no_reader_can_make_sense_of_is_answered_as_nobodys() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await service.http.post(BATCH, content=b'{"heartbeats": [{"memberId": "a", "seq": 1e999}]}')

            (reply,) = answer.json()["replies"]
            assert (reply["status"], reply["memberId"], reply["seq"]) == ("INVALID_REQUEST", "", 0)

    asyncio.run(scenario())


def test_an_empty_batch_has_an_empty_answer() -> None:
    async def scenario() -> None:
        async with running() as service:
            assert (await send(service)).json() == {"replies": []}

    asyncio.run(scenario())


def test_a_batch_that_is_refused_changes_nothing() -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)
            before = (await service.http.get(GROUP)).json()

            await send(service, item("a", protocolVersion=2), {**item("b"), "holds": 5}, item("c", memberEpoch=-5))

            assert (await service.http.get(GROUP)).json() == before

    asyncio.run(scenario())
