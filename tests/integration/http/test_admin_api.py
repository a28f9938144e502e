"""Creating, scaling, rolling back and deleting over HTTP."""

import asyncio
import re

from tests.integration.http.service import ASKED, GROUP, STREAM, beat, error, running

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
FRESH = {"generation": 1, "phase": "OPEN", "heldBackBy": None}


def test_a_stream_is_created_with_its_groups_and_shown() -> None:
    async def scenario() -> None:
        async with running() as service:
            body = {**ASKED, "initialShardCount": 2, "consumerGroups": ["billing", "audit"]}

            made = await service.http.post(STREAM, json=body)
            shown = (await service.http.get(STREAM)).json()

        assert made.status_code == 201
        assert set(made.json()) == {"streamPrefix", "shardCount", "metadataVersion"}
        assert (made.json()["streamPrefix"], made.json()["shardCount"]) == ("orders", 2)
        assert [group["consumerGroup"] for group in shown["consumerGroups"]] == ["audit", "billing"]
        assert shown["shards"] == [
            {"streamKey": "orders:0", "redisSlot": 8578, "shardIndex": 0, **FRESH},
            {"streamKey": "orders:1", "redisSlot": 12707, "shardIndex": 1, **FRESH},
        ]
        assert (shown["state"], shown["activeMigration"], shown["migrations"]) == ("ACTIVE", None, [])
        assert INSTANT.fullmatch(shown["createdAt"])

    asyncio.run(scenario())


def test_a_group_is_created_with_its_stream_and_shown() -> None:
    async def scenario() -> None:
        async with running() as service:
            made = await service.http.post(GROUP, json={**ASKED, "initialShardCount": 6})
            shown = await service.http.get(GROUP)
            watched = await service.http.get(GROUP.replace("/coord/v1", "/coord/v1/monitoring"))
            listed = await service.http.get("/coord/v1/monitoring/groups")

        assert (made.status_code, shown.status_code) == (201, 200)
        assert made.json() == {
            "streamPrefix": "orders",
            "consumerGroup": "billing",
            "state": "EMPTY",
            "groupEpoch": 1,
            "assignmentEpoch": 1,
            "metadataVersion": 1,
            "shardCount": 6,
            "activeMigration": None,
            "targetAssignmentSummary": {},
            "currentAssignmentSummary": {},
            "quarantine": None,
            "exclusivity": "fenced",
            "unreadShards": [],
        }
        assert shown.json() == watched.json()
        assert listed.json() == {"groups": [shown.json()], "frozen": []}

    asyncio.run(scenario())


def test_what_exists_is_not_created_twice() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            group = await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            stream = await service.http.post(STREAM, json={**ASKED, "initialShardCount": 2})
            mismatch = await service.http.post(STREAM + "/groups/audit", json={**ASKED, "initialShardCount": 3})

        answers = [group, stream, mismatch]
        assert [(a.status_code, a.json()["status"], a.json()["errorCode"]) for a in answers] == [
            (409, "CONFLICT", "GROUP_ALREADY_EXISTS"),
            (409, "CONFLICT", "STREAM_PREFIX_ALREADY_EXISTS"),
            (409, "CONFLICT", "SHARD_COUNT_MISMATCH"),
        ]

    asyncio.run(scenario())


def test_what_is_missing_is_404() -> None:
    async def scenario() -> None:
        async with running() as service:
            scale = {**ASKED, "targetShardCount": 3}
            before = [
                await service.http.get(STREAM),
                await service.http.get(GROUP),
                await service.http.get(GROUP + "/producer-routing"),
                await service.http.post(STREAM + "/scale", json=scale),
                await service.http.request("DELETE", GROUP, json=ASKED),
                await service.http.get(STREAM + "/route?key=a"),
            ]
            await service.http.post(STREAM, json={**ASKED, "initialShardCount": 1, "consumerGroups": ["audit"]})
            after = [
                await service.http.post(GROUP + "/scale", json=scale),
                await service.http.get(STREAM + "/groups/audit/migrations/none"),
                await service.http.post(STREAM + "/groups/audit/migrations/none/rollback", json=ASKED),
                await service.http.get(STREAM + "/route?key=a&group=billing"),
            ]

        assert [(a.status_code, a.json()["errorCode"]) for a in before] == [(404, "STREAM_NOT_FOUND")] * 6
        assert [(a.status_code, a.json()["errorCode"]) for a in after] == [
            (404, "GROUP_NOT_FOUND"),
            (404, "MIGRATION_NOT_FOUND"),
            (404, "MIGRATION_NOT_FOUND"),
            (404, "GROUP_NOT_FOUND"),
        ]

    asyncio.run(scenario())


def test_a_scale_out_runs_to_its_end_and_stays_on_record() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})

            started = await service.http.post(STREAM + "/scale", json={**ASKED, "targetShardCount": 3})
            await service.tick(5)
            migration = started.json()["migrations"][0]
            ended = await service.http.get(f"{GROUP}/migrations/{migration['reshardingId']}")
            listed = await service.http.get(GROUP.replace("/coord/v1", "/coord/v1/monitoring") + "/migrations")
            routed = await service.http.get(GROUP + "/producer-routing")

        assert started.status_code == 202
        assert {**started.json(), "migrations": 1} == {
            "streamPrefix": "orders",
            "targetShardCount": 3,
            "affectedConsumerGroups": ["billing"],
            "migrations": 1,
        }
        assert re.fullmatch(r"reshard-[0-9a-f]{32}", migration["reshardingId"])
        assert (migration["fromShardCount"], migration["toShardCount"]) == (2, 3)
        assert (ended.json()["state"], ended.json()["rollbackEligible"]) == ("DEPRECATED", False)
        assert listed.json() == {"migrations": [ended.json()], "activeReshardingId": None}
        assert routed.json()["shardCount"] == 3

    asyncio.run(scenario())


def test_a_scale_in_can_be_amended_and_rolled_back() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 3})
            started = (await service.http.post(GROUP + "/scale", json={**ASKED, "targetShardCount": 1})).json()
            path = f"{GROUP}/migrations/{started['reshardingId']}"

            group = (await service.http.get(GROUP)).json()
            amended = await service.http.post(path, json={**ASKED, "ignoreForeignGroups": ["old"]})
            again = await service.http.post(GROUP + "/scale", json={**ASKED, "targetShardCount": 2})
            back = await service.http.post(path + "/rollback", json=ASKED)
            await service.tick(5)
            ended = await service.http.get(path)

        assert group["activeMigration"]["reshardingId"] == started["reshardingId"]
        assert (amended.status_code, amended.json()["ignoreForeignGroups"]) == (200, ["old"])
        assert (again.status_code, again.json()["errorCode"]) == (409, "ACTIVE_MIGRATION_EXISTS")
        assert back.status_code == 202
        assert ended.json()["state"] == "ROLLED_BACK"

    asyncio.run(scenario())


def test_a_scale_to_the_same_count_is_unprocessable() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            answer = await service.http.post(STREAM + "/scale", json={**ASKED, "targetShardCount": 2})

        told = answer.json()["message"]
        assert answer.status_code == 422
        assert answer.json() == error("UNPROCESSABLE_ENTITY", "SHARD_COUNT_UNCHANGED", told)

    asyncio.run(scenario())


def test_a_retry_under_the_same_key_gets_the_same_answer_and_another_request_is_refused() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            key = {"Idempotency-Key": "once"}
            scale = {**ASKED, "targetShardCount": 3}

            first = await service.http.post(GROUP + "/scale", json=scale, headers=key)
            second = await service.http.post(GROUP + "/scale", json=scale, headers=key)
            other = await service.http.post(GROUP + "/scale", json={**scale, "targetShardCount": 4}, headers=key)

        assert first.json()["reshardingId"] == second.json()["reshardingId"]
        assert (other.status_code, other.json()["errorCode"]) == (422, "IDEMPOTENCY_KEY_REUSED")

    asyncio.run(scenario())


def test_a_delete_needs_force_while_members_live_and_answers_what_was() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            await service.http.post(GROUP + "/members/web-m0/heartbeat", json=beat())

            refused = await service.http.request("DELETE", GROUP, json=ASKED)
            stream = await service.http.request("DELETE", STREAM, json=ASKED)
            gone = await service.http.request("DELETE", GROUP, json={**ASKED, "force": True})
            after = await service.http.get(GROUP)
            emptied = await service.http.request("DELETE", STREAM, json=ASKED)
            nothing = await service.http.get(STREAM)

        assert (refused.status_code, refused.json()["errorCode"]) == (409, "GROUP_HAS_ACTIVE_MEMBERS")
        assert (stream.status_code, stream.json()["errorCode"]) == (409, "GROUP_HAS_ACTIVE_MEMBERS")
        assert (gone.status_code, gone.json()["targetAssignmentSummary"]) == (200, {"web-m0": 2})
        assert (after.status_code, after.json()["errorCode"]) == (404, "GROUP_NOT_FOUND")
        assert (emptied.status_code, emptied.json()["streamPrefix"]) == (200, "orders")
        assert (nothing.status_code, nothing.json()["errorCode"]) == (404, "STREAM_NOT_FOUND")

    asyncio.run(scenario())


def test_every_mutation_wants_to_know_who_and_the_lasting_ones_why() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            asked = [
                await service.http.post(STREAM, json={}),
                await service.http.post(GROUP, json={}),
                await service.http.post(STREAM + "/scale", json={"targetShardCount": 3, "requestedBy": "ops"}),
                await service.http.post(GROUP + "/scale", json={"targetShardCount": 3, "requestedBy": "ops"}),
                await service.http.request("DELETE", GROUP, json={"requestedBy": "ops"}),
                await service.http.request("DELETE", STREAM, json={"requestedBy": "ops"}),
                await service.http.post(GROUP + "/migrations/m", json={**ASKED, "reason": " "}),
                await service.http.post(GROUP + "/migrations/m/rollback", json={"requestedBy": "ops"}),
            ]

        missing = [answer.json()["message"].partition(":")[0] for answer in asked]
        assert {answer.status_code for answer in asked} == {400}
        assert missing == [
            "requestedBy",
            "requestedBy",
            "reason",
            "reason",
            "reason",
            "reason",
            "ignoreForeignGroups",
            "reason",
        ]

    asyncio.run(scenario())
