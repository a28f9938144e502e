"""Monitoring over HTTP: what people see of members, lag, records and the past."""

import asyncio
from typing import Any

import pytest

from streamshard.entrypoints.http.app import create_app
from tests.integration.http.service import ASKED, GROUP, STREAM, beat, running
from tests.integration.http.stage import HEARTBEAT, MONITORED, get, holding, owning, publish, read

PROGRESS = {
    "shard": {"shardIndex": 1},
    "streamKey": "orders:1",
    "lastDeliveredId": "7-0",
    "lastAckedId": "5-0",
    "pendingCount": 2,
    "inFlight": 1,
    "readState": "READING",
    "lastReadAgeMs": 40,
    "handlingMs": 2_000,
}

THE_SHARD = {
    "streamPrefix": "orders",
    "consumerGroup": "billing",
    "shard": {"shardIndex": 1},
    "streamKey": "orders:1",
    "redisSlot": 12707,
    "redisNodeEndpoint": None,
    "streamLength": 4,
    "consumerLastDeliveredId": "7-0",
    "consumerLastAckedId": "5-0",
    "pendingCount": 2,
    "lag": 1,
    "memoryUsageBytes": None,
    "trimmedUnreadCount": None,
    "trimmedUnreadEstimated": False,
    "ownerMemberIds": ["web-m0"],
    "oldestUnackedAgeSeconds": 2.002,
}
"""A shard with four records: one handled, two being handled, one waiting."""

THE_GROUP = {
    "streamPrefix": "orders",
    "consumerGroup": "billing",
    "totalStreamLength": 4,
    "totalPendingCount": 2,
    "totalLag": 1,
    "totalTrimmedUnreadCount": None,
    "trimmedUnreadEstimated": False,
    "totalMemoryUsageBytes": None,
    "memoryUsageKnown": False,
    "oldestUnackedAgeSeconds": 2.002,
}


def test_without_accounts_nobody_is_anybody_and_may_do_everything() -> None:
    async def scenario() -> None:
        async with running() as service:
            session = await get(service, "/coord/v1/monitoring/session")

        roles = ["ADMIN", "MEMBER", "PAYLOAD", "READ", "WRITE"]
        assert session == {"authenticated": False, "username": None, "roles": roles}

    asyncio.run(scenario())


def test_compatibility_tells_of_one_version_and_its_timing() -> None:
    async def scenario() -> None:
        async with running() as service:
            told = await get(service, "/coord/v1/monitoring/compatibility")

        assert told == {
            "currentCoordinationVersion": 1,
            "supportedCoordinationVersions": {"min": 1, "max": 1},
            "coordinationVersions": [
                {
                    "version": 1,
                    "status": "ACTIVE",
                    "introducedIn": {"major": 0, "minor": 1, "patch": 0, "qualifier": None, "version": "0.1.0"},
                    "minimumSupportedUntil": {
                        "major": 1, "minor": 0, "patch": 0, "qualifier": None, "version": "1.0.0",
                    },
                    "deprecatedIn": None,
                    "removedIn": None,
                    "timingDefaults": {
                        "heartbeatInterval": "PT3S",
                        "memberLeaseTtl": "PT15S",
                        "rebalanceTimeout": "PT1M",
                        "producerRoutingLease": "PT1M",
                    },
                }
            ],
        }  # fmt: skip

    asyncio.run(scenario())


def test_a_member_is_shown_with_its_signs_of_life_and_its_progress() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await owning(service, ticked=True)
            service.clock.advance(1_500)
            reported = holding(answer, 9, shardProgress=[PROGRESS], clientVersion="1.2", advertisedUrl="http://web")
            await service.http.post(HEARTBEAT, json={**reported, "latenessMs": 100})
            service.clock.advance(500)
            (member,) = (await get(service, MONITORED + "/members"))["members"]

        assert member == {
            "memberId": "web-m0",
            "memberName": "web-m0",
            "state": "ACTIVE",
            "memberEpoch": answer["memberEpoch"],
            "metadataVersion": member["metadataVersion"],
            "runtimeMaxConcurrency": 1,
            "activeConsumerWorkers": 0,
            "currentAssignment": [{"shardIndex": 0}, {"shardIndex": 1}],
            "grantedAssignment": [{"shardIndex": 0}, {"shardIndex": 1}],
            "revoking": [],
            "lastHeartbeatAt": "2023-11-14T22:13:24.500Z",
            "memberLeaseExpiresAt": "2023-11-14T22:13:39.650Z",
            "rebalanceTimeoutMs": 60_000,
            "rebalanceDeadlineAt": None,
            "shardProgress": [{**PROGRESS, "updatedAt": "2023-11-14T22:13:24.500Z"}],
            "instanceId": "00000000000000000000000000000001",
            "leaseMs": 15_000,
            "advertisedUrl": "http://web",
            "clientVersion": "1.2",
            "standby": False,
            "handlingMs": 2_000,
            "heartbeatLatenessMs": 100,
            "unread": [],
        }

    asyncio.run(scenario())


def unread(age: int) -> dict[str, Any]:
    """What a member says of shard 1 that it has not read for so long, though nothing keeps it from that."""
    return {**PROGRESS, "inFlight": 0, "handlingMs": None, "lastReadAgeMs": age}


def test_a_shard_that_is_held_and_not_read_is_shown_wherever_people_look() -> None:
    async def scenario() -> None:
        async with running() as service:
            free = {"runtimeMaxConcurrency": 1, "availableConcurrency": 1}
            answer = await owning(service, shardProgress=[unread(9_001)], runtimeConsumerCapacity=free)
            await service.tick()
            group = await get(service, GROUP)
            (listed,) = (await get(service, "/coord/v1/monitoring/groups"))["groups"]
            (member,) = (await get(service, MONITORED + "/members"))["members"]
            shards = (await get(service, MONITORED + "/assignments"))["shards"]
            health = await get(service, "/coord/v1/monitoring/health")
            report = holding(answer, 9, shardProgress=[unread(0)], runtimeConsumerCapacity=free)
            await service.http.post(HEARTBEAT, json=report)
            await service.tick()
            later = await get(service, GROUP)
            healthy = await get(service, "/coord/v1/monitoring/health")

        told = "orders/billing shard 1: web-m0 holds it and has not read it for 9 s: no handler of it runs, so it could"
        assert group["unreadShards"] == listed["unreadShards"] == member["unread"] == [{"shardIndex": 1}]
        assert [shard["unreadMs"] for shard in shards] == [None, 9_001]
        assert (health["unreadShards"], health["status"]) == ([told], "UP")
        assert (later["unreadShards"], healthy["unreadShards"]) == ([], [])

    asyncio.run(scenario())


def test_a_member_that_does_not_tell_when_it_reads_is_never_said_to_be_remiss() -> None:
    async def scenario() -> None:
        async with running() as service:
            known = {name: value for name, value in PROGRESS.items() if name not in ("lastReadAgeMs", "handlingMs")}
            await owning(service, shardProgress=[known])
            group = await get(service, GROUP)
            (member,) = (await get(service, MONITORED + "/members"))["members"]

        assert group["unreadShards"] == []
        assert (member["handlingMs"], member["heartbeatLatenessMs"]) == (None, None)
        assert member["shardProgress"][0]["lastReadAgeMs"] is None

    asyncio.run(scenario())


def test_a_member_without_a_share_stands_by_and_one_that_must_give_up_has_a_deadline() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await owning(service, ticked=True)
            for number in (2, 3):
                other = beat(f"web-m{number}", instanceId=f"{number:032x}")
                await service.http.post(GROUP + f"/members/web-m{number}/heartbeat", json=other)
            await service.http.post(HEARTBEAT, json=holding(answer, 9))
            await service.tick()
            members = {m["memberId"]: m for m in (await get(service, MONITORED + "/members"))["members"]}
            assignments = await get(service, MONITORED + "/assignments")

        assert [m["standby"] for m in members.values()] == [False, False, True]
        (given_up,) = members["web-m0"]["revoking"]
        assert members["web-m0"]["rebalanceDeadlineAt"] is not None
        assert assignments["revokeProgress"] == {"web-m0": [given_up]}

    asyncio.run(scenario())


def test_consumption_is_what_members_report() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service, ticked=True, shardProgress=[PROGRESS])
            (row,) = (await get(service, MONITORED + "/consumption"))["progress"]

        assert {**row, "updatedAt": 0} == {
            "streamPrefix": "orders",
            "consumerGroup": "billing",
            "memberId": "web-m0",
            "memberName": "web-m0",
            "memberState": "ACTIVE",
            "shard": {"shardIndex": 1},
            "streamKey": "orders:1",
            "lastDeliveredId": "7-0",
            "lastAckedId": "5-0",
            "pendingCount": 2,
            "updatedAt": 0,
        }

    asyncio.run(scenario())


def test_offsets_say_how_far_a_group_is_behind() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await owning(service, shardProgress=[PROGRESS])
            ids = await publish(service, 1, b"a", b"b", b"c", b"d")
            await read(service, answer, 1, 3, acknowledged=1)
            service.clock.step_wall(2_000)
            offsets = await get(service, MONITORED + "/offsets")

        first, _, third, last = ids
        positions = {"firstRecordId": first, "groupLastDeliveredId": third}
        ends = {"lastRecordId": last, "lastGeneratedId": last}
        assert offsets["shards"][1] == {**THE_SHARD, **positions, **ends}
        assert {name: value for name, value in offsets.items() if name != "shards"} == THE_GROUP

    asyncio.run(scenario())


def test_what_nobody_knows_is_null_and_makes_the_sums_null() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            service.world.lose_shard("orders:0")
            offsets = await get(service, MONITORED + "/offsets")
            scale = await get(service, MONITORED + "/autoscale")

        gone = offsets["shards"][0]
        assert (gone["streamLength"], gone["pendingCount"], gone["lag"]) == (None, None, None)
        assert (offsets["totalStreamLength"], offsets["totalPendingCount"], offsets["totalLag"]) == (None, None, None)
        assert (scale["lag"], scale["pending"], scale["backlog"]) == (None, None, 0)

    asyncio.run(scenario())


def test_an_autoscaler_gets_a_number_for_every_record_that_waits() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await owning(service)
            await publish(service, 0, b"a", b"b", b"c")
            await read(service, answer, 0, 1)
            some = await get(service, MONITORED + "/autoscale", backlogPerReplica=2)
            few = await get(service, MONITORED + "/autoscale")

        assert some == {
            "backlog": 3,
            "lag": 2,
            "pending": 1,
            "shards": 2,
            "maxReplicas": 2,
            "suggestedReplicas": 2,
            "warning": None,
        }
        assert few["suggestedReplicas"] == 1

    asyncio.run(scenario())


def test_an_unknown_group_needs_nobody_and_says_why() -> None:
    async def scenario() -> None:
        async with running() as service:
            scale = await get(service, MONITORED + "/autoscale")

        nothing = {"backlog": 0, "lag": 0, "pending": 0, "shards": 0, "maxReplicas": 0, "suggestedReplicas": 0}
        assert scale == {**nothing, "warning": "no stream 'orders': create it first"}

    asyncio.run(scenario())


def test_streams_are_listed_also_those_without_groups() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post("/coord/v1/streams/alone", json={**ASKED, "initialShardCount": 1})
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            await service.http.post(STREAM + "/scale", json={**ASKED, "targetShardCount": 1})
            listed = (await get(service, "/coord/v1/streams"))["streams"]

        assert [(s["streamPrefix"], s["shardCount"], s["consumerGroups"]) for s in listed] == [
            ("alone", 1, []),
            ("orders", 1, ["billing"]),
        ]
        assert [s["activeMigration"] and s["activeMigration"]["state"] for s in listed] == [None, "DRAINING"]

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/offsets", "/shards/0/messages", "/autoscale"])
def test_a_redis_that_is_away_is_503_and_never_a_zero(path: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            service.world.go_down()
            answer = await service.http.get(MONITORED + path)

        assert (answer.status_code, answer.json()["errorCode"]) == (503, "STREAM_BACKEND_UNAVAILABLE")

    asyncio.run(scenario())


def test_a_coordinator_without_an_inspector_says_so() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            app = create_app(service.coordinator)
            async with service.over(app) as http:
                answer = await http.get(MONITORED + "/offsets")

        assert (answer.status_code, answer.json()["errorCode"]) == (503, "STREAM_BACKEND_UNAVAILABLE")
        assert "inspector" in answer.json()["message"]

    asyncio.run(scenario())


@pytest.mark.parametrize("what", ["members", "assignments", "consumption", "migrations", "offsets", "events"])
def test_a_group_that_is_not_there_is_404(what: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await service.http.get(f"{MONITORED}/{what}")

        assert (answer.status_code, answer.json()["errorCode"]) == (404, "STREAM_NOT_FOUND")

    asyncio.run(scenario())
