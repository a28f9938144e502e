"""The life of an older client's member: join, own, report, hand over, leave."""

import asyncio
from typing import Any

import pytest

from tests.integration.http.service import GROUP
from tests.integration.legacy.older import refs
from tests.integration.legacy.stage import LEASE_S, MONITORED, admitting

OLD_FIELDS = (
    "responseTo",
    "status",
    "memberId",
    "memberEpoch",
    "heartbeatIntervalMs",
    "rebalanceTimeoutMs",
    "groupEpoch",
    "assignmentEpoch",
    "metadataVersion",
    "assignment",
)


def test_a_join_is_answered_with_epoch_assignment_and_timings() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            reply = await stage.older().beat()

        assert {field: reply[field] for field in OLD_FIELDS} == {
            "responseTo": "web-m0-1",
            "status": "OK",
            "memberId": "web-m0",
            "memberEpoch": 2,
            "heartbeatIntervalMs": 3000,
            "rebalanceTimeoutMs": 60000,
            "groupEpoch": 2,
            "assignmentEpoch": 2,
            "metadataVersion": 2,
            "assignment": {"assignedShards": refs([0, 1]), "pendingShards": [], "metadataVersion": 2},
        }

    asyncio.run(scenario())


def test_the_routing_that_its_start_checks_names_every_shard() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            routing = (await stage.service.http.get(f"{GROUP}/producer-routing")).json()

        old = ("streamPrefix", "consumerGroup", "shardCount", "streamKeyPattern", "shards")
        assert {field: routing[field] for field in old} == {
            "streamPrefix": "orders",
            "consumerGroup": "billing",
            "shardCount": 2,
            "streamKeyPattern": "orders:{shardIndex}",
            "shards": [
                {"shardIndex": 0, "streamKey": "orders:0", "redisSlot": 8578},
                {"shardIndex": 1, "streamKey": "orders:1", "redisSlot": 12707},
            ],
        }

    asyncio.run(scenario())


def test_a_member_that_reports_what_it_owns_is_active_and_its_group_stable() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older = stage.older()
            await older.beat()
            reply = await older.beat()
            group, states = await stage.group(), await stage.states()

        assert (older.epoch, older.owned, reply["memberEpoch"]) == (2, {0, 1}, 2)
        assert (group["state"], group["currentAssignmentSummary"]) == ("STABLE", {"web-m0": 2})
        assert states == {"web-m0": "ACTIVE"}

    asyncio.run(scenario())


def test_an_unchanged_report_changes_nothing() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older = stage.older()
            await stage.settle(older)
            before = await older.beat()
            after = await older.beat()

        assert {**after, "responseTo": None} == {**before, "responseTo": None}

    asyncio.run(scenario())


def test_its_progress_is_shown() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older = stage.older()
            await older.beat()
            row = {
                "shard": {"shardIndex": 1},
                "streamKey": "orders:1",
                "lastDeliveredId": "7-1",
                "lastAckedId": None,
                "pendingCount": 3,
                "updatedAt": "2026-01-01T00:00:00Z",
            }
            await older.beat(shardProgress=[row])
            (shown,) = (await stage.service.http.get(f"{MONITORED}/consumption")).json()["progress"]

        told = ("memberId", "memberName", "memberState", "streamKey", "lastDeliveredId", "lastAckedId", "pendingCount")
        assert [shown[field] for field in told] == ["web-m0", "billing-app", "ACTIVE", "orders:1", "7-1", None, 3]

    asyncio.run(scenario())


@pytest.mark.parametrize("reports", [True, False], ids=["reporting it", "leaving it out"])
def test_a_second_member_gets_its_share_as_soon_as_the_first_has_let_go(*, reports: bool) -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(reports=reports), stage.older("web-m1")
            await stage.settle(first)
            joined = await second.beat()
            waiting = await second.beat()
            told = await first.beat()
            still = await second.beat()
            await first.beat()
            given = await second.beat()

        assert [r["assignment"]["assignedShards"] for r in (joined, waiting, still)] == [[], [], []]
        assert joined["assignment"]["pendingShards"] == refs([1])
        assert told["assignment"]["assignedShards"] == refs([0])
        assert given["assignment"]["assignedShards"] == refs([1])

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "report",
    [
        {"state": "REVOKING", "inFlight": 0, "ackedAt": None},
        {"state": "DRAINING", "inFlight": 1, "ackedAt": None},
        {"state": "REVOKED", "inFlight": 1, "ackedAt": None},
        {"state": "REVOKING"},
    ],
)
def test_a_shard_that_is_not_finished_stays_its_own(report: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await stage.settle(first)
            await second.beat()
            await first.beat()
            await first.beat(revokingShards=[{"shard": {"shardIndex": 1}, **report}])
            await second.beat()

            assert (second.owned, second.pending, await stage.owners()) == (set(), {1}, {0: "web-m0", 1: "web-m0"})

    asyncio.run(scenario())


def test_leaving_a_shard_out_before_it_was_ever_listed_frees_nothing() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(reports=False), stage.older("web-m1")
            await first.beat()
            await second.beat()
            await first.beat(ownedShards=[])
            await first.beat(ownedShards=[])
            await second.beat()

            assert (second.owned, await stage.owners()) == (set(), {0: "web-m0", 1: "web-m0"})

    asyncio.run(scenario())


def test_a_shard_that_was_finished_before_it_was_ever_listed_is_free() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await first.beat()
            await second.beat()
            finished = {"shard": {"shardIndex": 1}, "state": "REVOKED", "inFlight": 0, "ackedAt": None}
            await first.beat(ownedShards=refs([0]), revokingShards=[finished])
            await second.beat()

            assert (second.owned, await stage.owners()) == ({1}, {0: "web-m0", 1: "web-m1"})

    asyncio.run(scenario())


def test_a_shard_given_back_while_it_drains_is_granted_again_once_it_is_finished() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await stage.settle(first)
            first.busy = {1}
            await second.beat()
            await stage.settle(first, rounds=2)
            await second.leave()
            drains = await first.beat()
            first.busy = set()
            again = await first.beat()

        assert (drains["assignment"]["assignedShards"], drains["assignment"]["pendingShards"]) == (refs([0]), refs([1]))
        assert again["assignment"]["assignedShards"] == refs([0, 1])

    asyncio.run(scenario())


def test_a_goodbye_hands_everything_over_at_once() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await stage.settle(first, second)
            left = await first.leave()
            await second.beat()
            states = await stage.states()

        assert (left["status"], left["assignment"]["assignedShards"]) == ("OK", [])
        assert (second.owned, states) == ({0, 1}, {"web-m1": "ACTIVE"})

    asyncio.run(scenario())


def test_what_still_drains_at_a_goodbye_is_kept_until_the_lease_has_run_out() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await stage.settle(first, second)
            first.busy = {0}
            await first.leave()
            leaving = await stage.states()
            await stage.pass_time(LEASE_S - 1, second)
            before = set(second.owned)
            await stage.pass_time(3, second)

        assert leaving == {"web-m0": "LEAVING", "web-m1": "ACTIVE"}
        assert (before, second.owned) == ({1}, {0, 1})

    asyncio.run(scenario())


def test_a_goodbye_of_an_earlier_life_that_arrives_again_does_not_end_this_one() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older = stage.older()
            await stage.settle(older)
            goodbye = older.body(memberEpoch=-1, ownedShards=[])
            first = await older.send(goodbye)
            restarted = stage.older()
            await stage.settle(restarted)
            again = await older.send(goodbye)
            reply = await restarted.beat()

        assert (first["status"], again["status"], again["memberEpoch"]) == ("OK", "UNKNOWN_MEMBER_ID", -1)
        assert (reply["status"], restarted.owned) == ("OK", {0, 1})

    asyncio.run(scenario())


def test_fields_that_nobody_knows_are_ignored() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            reply = await stage.older().beat(assignedMaxConcurrency=4, zone={"name": "a"}, instanceId=None, holds=None)

        assert reply["status"] == "OK"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"memberId": "other"}, "INVALID_REQUEST"),
        ({"memberEpoch": -2}, "INVALID_REQUEST"),
        ({"ownedShards": [{"shardIndex": -1}]}, "INVALID_REQUEST"),
        ({"protocolVersion": 2}, "UNSUPPORTED_PROTOCOL"),
        ({"memberEpoch": 7}, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_what_is_rejected_is_answered_with_zeros_and_its_own_epoch(changes: dict[str, Any], status: str) -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older = stage.older()
            body = older.body(**changes)
            reply = await older.send(body)

        assert {field: reply[field] for field in OLD_FIELDS} == {
            "responseTo": "web-m0-1",
            "status": status,
            "memberId": "web-m0",
            "memberEpoch": body["memberEpoch"],
            "heartbeatIntervalMs": 3000,
            "rebalanceTimeoutMs": 60000,
            "groupEpoch": 0,
            "assignmentEpoch": 0,
            "metadataVersion": 0,
            "assignment": {"assignedShards": [], "pendingShards": [], "metadataVersion": 0},
        }

    asyncio.run(scenario())
