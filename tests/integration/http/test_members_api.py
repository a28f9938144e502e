"""Heartbeats, routing and monitoring over HTTP; the client adapter and the routes understand each other."""

import asyncio
from typing import Any

import httpx
import pytest

from streamshard.adapters.client.http import HttpCoordinator
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.ids import Epoch, GroupKey, GroupName, InstanceId, MemberId, Seq, StreamPrefix
from streamshard.core.replies import Status
from streamshard.errors import StreamNotFound
from tests.integration.http.service import ASKED, GROUP, STREAM, Running, beat, running

HEARTBEAT = GROUP + "/members/web-m0/heartbeat"
MONITORED = GROUP.replace("/coord/v1", "/coord/v1/monitoring")
KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))


async def owning(service: Running) -> dict[str, Any]:
    """A group of two shards, both owned and listed by web-m0; its last answer."""
    await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
    answer = (await service.http.post(HEARTBEAT, json=beat())).json()
    for seq in range(2, 6):
        holds = [{"shardIndex": grant["shardIndex"], "token": grant["token"]} for grant in answer["grants"]]
        owned = [{"shardIndex": hold["shardIndex"]} for hold in holds]
        present = {"memberEpoch": answer["memberEpoch"], "view": answer["view"], "seq": seq}
        body = beat(**present, holds=holds, ownedShards=owned, metadataVersion=answer["metadataVersion"])
        answer = (await service.http.post(HEARTBEAT, json=body)).json()
    return answer  # type: ignore[no-any-return]


def test_a_member_joins_and_comes_to_own_everything() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await owning(service)

        assert answer["status"] == "OK"
        assert answer["assignment"]["assignedShards"] == [{"shardIndex": 0}, {"shardIndex": 1}]
        assert [grant["shardIndex"] for grant in answer["grants"]] == [0, 1]
        assert [hold["shardIndex"] for hold in answer["extended"]] == [0, 1]
        assert (answer["seq"], answer["responseTo"], answer["leaseMs"]) == (5, "r-1", 15_000)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"protocolVersion": 99}, "UNSUPPORTED_PROTOCOL"),
        ({"memberId": "someone-else"}, "INVALID_REQUEST"),
        ({"memberEpoch": -7}, "INVALID_REQUEST"),
        ({"ownedShards": [{"shardIndex": 16_384}]}, "INVALID_REQUEST"),
    ],
)
def test_a_heartbeat_that_is_refused_is_answered_200_with_nothing_in_it(fields: dict[str, Any], status: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            answer = await service.http.post(HEARTBEAT, json=beat(**fields))
            group = (await service.http.get(GROUP)).json()

        assert answer.status_code == 200
        assert (answer.json()["status"], answer.json()["groupEpoch"], answer.json()["grants"]) == (status, 0, [])
        assert group["state"] == "EMPTY"

    asyncio.run(scenario())


def test_a_member_of_a_group_that_is_not_there_is_unknown() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await service.http.post(HEARTBEAT, json=beat())

        assert (answer.status_code, answer.json()["status"]) == (200, "UNKNOWN_MEMBER_ID")

    asyncio.run(scenario())


def test_routing_is_given_once_per_layout() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            path = GROUP + "/producer-routing"

            first = await service.http.get(path)
            tag = first.headers["etag"]
            same = [
                await service.http.get(path, headers={"If-None-Match": t}) for t in (tag, f"W/{tag}", f'"x", {tag}')
            ]
            other = await service.http.get(path, headers={"If-None-Match": '"x"'})

        body = first.json()
        assert {name: body[name] for name in ("streamPrefix", "consumerGroup", "shardCount", "streamKeyPattern")} == {
            "streamPrefix": "orders",
            "consumerGroup": "billing",
            "shardCount": 2,
            "streamKeyPattern": "orders:{shardIndex}",
        }
        assert (body["routingProtocol"], body["leaseMs"]) == ("murmur3-v1", 60_000)
        assert body["shards"] == [
            {"shardIndex": 0, "streamKey": "orders:0", "redisSlot": 8578},
            {"shardIndex": 1, "streamKey": "orders:1", "redisSlot": 12707},
        ]
        assert [(a.status_code, a.content, a.headers["etag"]) for a in same] == [(304, b"", tag)] * 3
        assert (other.status_code, other.json()) == (200, body)

    asyncio.run(scenario())


def test_a_key_is_routed_and_its_owner_named() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            text = await service.http.get(STREAM + "/route", params={"key": "order-1"})
            octets = await service.http.get(STREAM + "/route", params={"keyBase64": "b3JkZXItMQ==", "group": "billing"})

        assert text.json() == octets.json()
        assert {**text.json(), "metadataVersion": 0} == {
            "shardIndex": 1,
            "streamKey": "orders:1",
            "redisSlot": 12707,
            "routingProtocol": "murmur3-v1",
            "metadataVersion": 0,
            "owners": [{"consumerGroup": "billing", "memberId": "web-m0"}],
        }

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "key"),
        ("key=a&keyBase64=YQ==", "key"),
        ("keyBase64=!!", "keyBase64"),
        ("key=%ff", "query"),
        ("key=a&group=a%2Fb", "group"),
        ("&".join(f"k{n}=1" for n in range(40)), "query"),
    ],
)
def test_a_key_that_can_not_be_routed_is_refused(query: str, field: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await service.http.get(f"{STREAM}/route?{query}")

        assert (answer.status_code, answer.json()["message"].partition(":")[0]) == (400, field)

    asyncio.run(scenario())


def test_monitoring_shows_who_holds_what() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await owning(service)
            members = (await service.http.get(MONITORED + "/members")).json()["members"]
            assignments = (await service.http.get(MONITORED + "/assignments")).json()

        both = [{"shardIndex": 0}, {"shardIndex": 1}]
        assert [(m["memberId"], m["state"], m["currentAssignment"], m["revoking"]) for m in members] == [
            ("web-m0", "ACTIVE", both, [])
        ]
        assert assignments["targetAssignment"] == assignments["currentAssignments"] == {"web-m0": both}
        assert (assignments["revokeProgress"], assignments["invariantViolations"]) == ({}, [])
        assert [(s["owner"], s["target"], s["state"], s["token"]) for s in assignments["shards"]] == [
            ("web-m0", "web-m0", "OWNED", grant["token"]) for grant in answer["grants"]
        ]

    asyncio.run(scenario())


def test_health_is_measured_and_readiness_follows_it() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.tick()
            health = (await service.http.get("/coord/v1/monitoring/health")).json()
            ready = await service.http.get("/readyz")
            head = await service.http.head("/readyz")

        assert health == {
            "status": "UP",
            "coordinatorId": "coordinator-1",
            "redis": "UP",
            "loop": "UP",
            "store": "UP",
            "invariantViolations": [],
            "exclusivity": "fenced",
            "cooperativeGroups": [],
            "unreadShards": [],
        }
        assert (ready.status_code, ready.json(), head.status_code) == (200, {"status": "UP"}, 200)

    asyncio.run(scenario())


def test_the_client_adapter_and_the_routes_understand_each_other() -> None:
    async def scenario() -> None:
        async with running() as service:
            api = HttpCoordinator("http://test", transport=httpx.ASGITransport(service.app))
            with pytest.raises(StreamNotFound):
                await api.routing(KEY)
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            join = Heartbeat(MemberId("web-m0"), Intent.JOIN, Epoch(0), InstanceId("0" * 32), Seq(1))

            over_http = (await api.routing(KEY), await api.heartbeat(KEY, join))
            replayed = await service.coordinator.heartbeat(KEY, join)
            await api.close()

        assert over_http[0] == await service.coordinator.routing(KEY)
        assert (over_http[1].status, over_http[1].epoch) == (Status.OK, replayed.epoch)

    asyncio.run(scenario())
