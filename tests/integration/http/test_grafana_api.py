"""Rows for dashboards."""

import asyncio
from typing import Any

import pytest

from tests.integration.http.service import ASKED, GROUP, Running, running
from tests.integration.http.stage import GRAFANA, OF_BILLING, owning, publish, read

THE_SHARD = {
    "streamPrefix": "orders",
    "consumerGroup": "billing",
    "shardCount": 2,
    "shardIndex": 1,
    "shardLabel": "shard 1",
    "streamKey": "orders:1",
    "redisSlot": 12707,
    "redisNodeEndpoint": None,
    "streamLength": 1,
    "groupLastDeliveredId": "0-0",
    "consumerLastDeliveredId": None,
    "consumerLastAckedId": None,
    "pendingCount": 0,
    "lag": 1,
    "lagKnown": True,
    "producedPerSecond": None,
    "consumedPerSecond": None,
    "memoryUsageBytes": None,
    "memoryUsageKnown": False,
    "oldestUnackedAgeSeconds": 0.0,
    "targetOwnerMemberIds": "web-m0",
    "currentOwnerMemberIds": "web-m0",
    "ownerState": "OWNED",
    "ownerMemberIds": "web-m0",
}
"""A shard with one record, that nobody took yet."""


async def rows(service: Running, what: str, **params: Any) -> list[dict[str, Any]]:
    answer = await service.http.get(f"{GRAFANA}/{what}", params=params)
    assert answer.status_code == 200, answer.text
    return list(answer.json())


def test_a_group_is_one_row() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await owning(service)
            await publish(service, 0, b"a", b"b")
            await read(service, answer, 0, 1)
            (row,) = await rows(service, "groups")

        assert {**row, "metadataVersion": 0} == {
            "streamPrefix": "orders",
            "consumerGroup": "billing",
            "state": "STABLE",
            "groupEpoch": 2,
            "assignmentEpoch": 2,
            "metadataVersion": 0,
            "shardCount": 2,
            "activeMembers": 1,
            "totalMembers": 1,
            "currentShards": 2,
            "targetShards": 2,
            "assignedShardRatio": "2 / 2",
            "revokingShards": 0,
            "totalStreamLength": 2,
            "totalPendingCount": 1,
            "totalLag": 1,
            "producedPerSecond": None,
            "consumedPerSecond": None,
            "totalMemoryUsageBytes": None,
            "memoryUsageKnown": False,
        }

    asyncio.run(scenario())


def test_a_member_is_one_row() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await owning(service)
            (row,) = await rows(service, "members", **OF_BILLING)

        assert {**row, "metadataVersion": 0, "lastHeartbeatAt": 0, "memberLeaseExpiresAt": 0} == {
            "streamPrefix": "orders",
            "consumerGroup": "billing",
            "memberId": "web-m0",
            "memberName": "web-m0",
            "state": "ACTIVE",
            "memberEpoch": answer["memberEpoch"],
            "metadataVersion": 0,
            "currentShardCount": 2,
            "revokingShardCount": 0,
            "runtimeMaxConcurrency": 1,
            "activeConsumerWorkers": 0,
            "lastHeartbeatAt": 0,
            "memberLeaseExpiresAt": 0,
            "handlingMs": None,
            "heartbeatLatenessMs": None,
            "unreadShardCount": 0,
        }

    asyncio.run(scenario())


def test_a_shard_is_one_row_also_when_all_groups_are_asked_for() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            (record,) = await publish(service, 1, b"a")
            one = await rows(service, "shards", **OF_BILLING)
            everything = await rows(service, "shards", streamPrefix="", consumerGroup="")
            nothing = await rows(service, "shards", streamPrefix="other")

        assert (one, nothing) == (everything, [])
        named = dict.fromkeys(["firstRecordId", "lastRecordId", "lastGeneratedId"], record)
        assert one[1] == {**THE_SHARD, **named}

    asyncio.run(scenario())


def test_a_redis_that_is_away_empties_cells_and_fails_no_panel() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            service.world.go_down()
            (group,), shards = await rows(service, "groups"), await rows(service, "shards")

        assert (group["totalLag"], group["totalPendingCount"], group["state"]) == (None, None, "STABLE")
        assert [(s["lag"], s["lagKnown"], s["ownerState"]) for s in shards] == [(None, False, "OWNED")] * 2

    asyncio.run(scenario())


def test_assignments_are_rows() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            first, _ = await rows(service, "assignments", **OF_BILLING)

        assert first == {
            **OF_BILLING,
            "shardIndex": 0,
            "targetOwners": "web-m0",
            "currentOwners": "web-m0",
            "revokingOwners": "",
        }

    asyncio.run(scenario())


def test_options_are_texts_with_values() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            await service.http.post("/coord/v1/streams/alone", json={**ASKED, "initialShardCount": 1})
            streams = await rows(service, "options/streams")
            groups = await rows(service, "options/consumer-groups")
            none = await rows(service, "options/consumer-groups", streamPrefix="alone")
            shards = await rows(service, "options/shards", **OF_BILLING)

        assert streams == [{"__text": "alone", "__value": "alone"}, {"__text": "orders", "__value": "orders"}]
        assert (groups, none) == ([{"__text": "billing", "__value": "billing"}], [])
        assert shards == [{"__text": "0", "__value": "0"}, {"__text": "1", "__value": "1"}]

    asyncio.run(scenario())


def test_records_of_a_shard_are_rows_with_their_page() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            ids = await publish(service, 0, b"a", b"b")
            (row,) = await rows(service, "messages", **OF_BILLING, limit=1)

        assert row == {
            **OF_BILLING,
            "shardIndex": 0,
            "shardSelector": "0",
            "shardLabel": "shard 0",
            "streamKey": "orders:0",
            "recordId": ids[1],
            "payload": "b",
            "fieldsJson": '{"payload":"b"}',
            "pageDirection": "BACKWARD",
            "pageLimit": 1,
            "pageNextCursor": ids[1],
            "pageTotalMessages": 2,
            "recordTimestampMs": 1_700_000_000_002,
            "recordTime": "2023-11-14T22:13:20.002Z",
        }

    asyncio.run(scenario())


def test_the_latest_records_of_all_shards_are_merged() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            first = await publish(service, 0, b"a")
            second = await publish(service, 1, b"b", b"c")
            latest = await rows(service, "messages", **OF_BILLING, shardIndex="all", limit=2)
            oldest = await rows(service, "messages", **OF_BILLING, shardIndex="all", direction="FORWARD", limit=2)

        assert [(row["shardIndex"], row["recordId"]) for row in latest] == [(1, second[1]), (1, second[0])]
        assert [(row["shardIndex"], row["recordId"]) for row in oldest] == [(0, first[0]), (1, second[0])]
        assert {(row["pageNextCursor"], row["pageTotalMessages"]) for row in latest} == {(None, 3)}

    asyncio.run(scenario())


def test_one_record_is_found_by_its_id() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            ids = await publish(service, 1, b"a", b"b", b"c")
            found = await rows(service, "messages", **OF_BILLING, shardIndex="all", recordId=ids[1])
            missing = await rows(service, "messages", **OF_BILLING, shardIndex="1", recordId="5-0")

        assert ([row["payload"] for row in found], missing) == (["b"], [])

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("what", "query", "field"),
    [
        ("members", "consumerGroup=billing", "streamPrefix"),
        ("members", "streamPrefix=orders", "consumerGroup"),
        ("assignments", "streamPrefix=&consumerGroup=billing", "streamPrefix"),
        ("messages", "streamPrefix=orders&consumerGroup=billing&shardIndex=x", "shardIndex"),
        ("messages", "streamPrefix=orders&consumerGroup=billing&shardIndex=all&cursor=1-0", "cursor"),
        ("messages", "streamPrefix=orders&consumerGroup=billing&limit=0", "limit"),
        ("options/consumer-groups", "streamPrefix=a%2Fb", "streamPrefix"),
    ],
)
def test_a_bad_question_is_refused_by_its_field(what: str, query: str, field: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            answer = await service.http.get(f"{GRAFANA}/{what}?{query}")

        assert (answer.status_code, answer.json()["message"].partition(":")[0]) == (400, field)

    asyncio.run(scenario())


def test_no_answer_has_to_choose_from_too_many_records() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 100})
            path = f"{GRAFANA}/messages?streamPrefix=orders&consumerGroup=billing&shardIndex=all"
            few, many = await service.http.get(path + "&limit=100"), await service.http.get(path + "&limit=101")

        assert (few.status_code, few.json(), many.status_code) == (200, [], 400)
        assert "at most 100" in many.json()["message"]

    asyncio.run(scenario())
