"""Groups that admit no older clients; and those that do, and say so."""

import asyncio

from tests.integration.http.service import ASKED, GROUP, STREAM, running
from tests.integration.legacy.older import Json
from tests.integration.legacy.stage import MONITORED, Stage, admitting

DELETE = {**ASKED, "force": True}


async def get(stage: Stage, path: str) -> Json:
    shown: Json = (await stage.service.http.get(path)).json()
    return shown


def test_a_group_that_was_not_created_for_them_refuses_them_and_says_why() -> None:
    async def scenario() -> None:
        async with running() as service:
            stage = Stage(service)
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            before = await stage.group()
            older = stage.older()
            join = await older.send(older.body())
            stay = await older.send(older.body(memberEpoch=2, metadataVersion=1))
            leave = await older.send(older.body(memberEpoch=-1))
            after = await stage.group()

        assert [
            (r["status"], r["memberEpoch"], r["groupEpoch"], r["metadataVersion"]) for r in (join, stay, leave)
        ] == [
            ("UNSUPPORTED_PROTOCOL", 0, 0, 0),
            ("UNSUPPORTED_PROTOCOL", 2, 0, 0),
            ("UNSUPPORTED_PROTOCOL", -1, 0, 0),
        ]
        assert "instanceId" in join["message"]
        assert "allowLegacyMembers" in join["message"]
        assert after == before

    asyncio.run(scenario())


def test_a_heartbeat_to_a_group_that_is_not_there_makes_none() -> None:
    async def scenario() -> None:
        async with running() as service:
            stage = Stage(service)
            older = stage.older()
            reply = await older.send(older.body())
            missing = await service.http.get(GROUP)

        assert (reply["status"], reply["memberEpoch"], missing.status_code) == ("UNKNOWN_MEMBER_ID", 0, 404)

    asyncio.run(scenario())


def test_a_group_that_admits_them_says_so_wherever_it_is_shown() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            await stage.service.http.post(f"{STREAM}/groups/audit", json=ASKED)
            await stage.service.tick()
            groups = (await get(stage, "/coord/v1/monitoring/groups"))["groups"]
            shown = [await get(stage, GROUP), await get(stage, MONITORED)]
            stream = (await get(stage, STREAM))["consumerGroups"]
            health = await get(stage, "/coord/v1/monitoring/health")

        both = {"audit": "fenced", "billing": "cooperative"}
        assert {group["consumerGroup"]: group["exclusivity"] for group in groups} == both
        assert {group["consumerGroup"]: group["exclusivity"] for group in stream} == both
        assert [group["exclusivity"] for group in shown] == ["cooperative", "cooperative"]
        told = ("status", "exclusivity", "cooperativeGroups")
        assert [health[name] for name in told] == ["UP", "cooperative", ["orders/billing"]]

    asyncio.run(scenario())


def test_without_such_a_group_health_says_that_all_is_fenced() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 1})
            await service.tick()
            health = await get(Stage(service), "/coord/v1/monitoring/health")

        assert (health["exclusivity"], health["cooperativeGroups"]) == ("fenced", [])

    asyncio.run(scenario())


def test_a_stream_is_created_with_groups_that_admit_them() -> None:
    async def scenario() -> None:
        async with running() as service:
            asked = {**ASKED, "initialShardCount": 1, "consumerGroups": ["billing"], "allowLegacyMembers": True}
            await service.http.post(STREAM, json=asked)
            stage = Stage(service)
            older = stage.older()
            await stage.settle(older)

        assert older.owned == {0}

    asyncio.run(scenario())


def test_a_deleted_group_says_what_it_was_also_when_it_is_asked_again() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            key = {"Idempotency-Key": "once"}
            gone = await stage.service.http.request("DELETE", GROUP, json=DELETE, headers=key)
            again = await stage.service.http.request("DELETE", GROUP, json=DELETE, headers=key)

        assert (gone.status_code, gone.json()["exclusivity"]) == (200, "cooperative")
        assert (again.status_code, again.json()) == (200, gone.json())

    asyncio.run(scenario())
