"""The time line of a group over HTTP."""

import asyncio

import pytest

from tests.integration.http.service import running
from tests.integration.http.stage import HEARTBEAT, MONITORED, get, holding, owning


def test_events_tell_who_came_what_moved_and_why() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await owning(service)
            service.clock.advance(60_000)
            await service.http.post(HEARTBEAT, json={**holding(answer, 9), "memberEpoch": -1, "holds": []})
            told = await get(service, MONITORED + "/events")
            last = await get(service, MONITORED + "/events", limit=2)

        assert [(e["scope"], e["kind"]) for e in told["events"]] == [
            ("STREAM", "stream-creating"),
            ("STREAM", "stream-active"),
            ("GROUP", "group-created"),
            ("GROUP", "member-joined"),
            ("GROUP", "granted"),
            ("GROUP", "member-left"),
            ("GROUP", "released"),
        ]
        assert told["events"][-1] == {
            "at": "2023-11-14T22:14:20.000Z",
            "scope": "GROUP",
            "kind": "released",
            "memberId": "web-m0",
            "shards": [{"shardIndex": 0}, {"shardIndex": 1}],
            "text": "2 shards: let go",
        }
        assert last["events"] == told["events"][-2:]
        token = answer["grants"][0]["token"]
        span = {"memberId": "web-m0", "token": token, "since": "2023-11-14T22:13:20.000Z"}
        assert told["ownership"][0] == {
            "shardIndex": 0,
            "streamKey": "orders:0",
            "held": [{**span, "until": "2023-11-14T22:14:20.000Z"}],
        }

    asyncio.run(scenario())


def test_a_shard_that_is_held_has_no_end_yet() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            (first, _) = (await get(service, MONITORED + "/events"))["ownership"]

        assert [(held["memberId"], held["until"]) for held in first["held"]] == [("web-m0", None)]

    asyncio.run(scenario())


@pytest.mark.parametrize("limit", ["0", "129", "x"])
def test_a_bad_number_of_events_is_refused(limit: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await service.http.get(f"{MONITORED}/events?limit={limit}")

        assert (answer.status_code, answer.json()["message"].partition(":")[0]) == (400, "limit")

    asyncio.run(scenario())
