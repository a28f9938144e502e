"""What is counted of requests and heartbeats, and under which names."""

import asyncio
from typing import Any

import httpx

from streamshard.core.replies import Status
from streamshard.entrypoints.http.exchange import BODY_LIMIT
from streamshard.entrypoints.http.metrics_recorder import OTHER, Recorder
from streamshard.entrypoints.http.operations import GROUP as GROUP_ROUTE
from streamshard.entrypoints.http.operations import HEARTBEAT as HEARTBEAT_ROUTE
from tests.integration.http.service import ASKED, GROUP, Running, beat, running

HEARTBEAT = GROUP + "/members/web-m0/heartbeat"


def _answers(recorder: Recorder) -> dict[tuple[str, str], dict[int, int]]:
    """How often each route was answered how."""
    found = {
        at: {**({200: route.good} if route.good else {}), **route.statuses} for at, route in recorder.routes.items()
    }
    return {at: counts for at, counts in found.items() if counts}


class TestRequests:
    def test_they_are_counted_by_route_method_and_status(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
                await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
                await service.http.get(GROUP)
                await service.http.head(GROUP)

                assert _answers(service.traffic.recorder) == {
                    (GROUP_ROUTE, "POST"): {201: 1, 409: 1},
                    (GROUP_ROUTE, "GET"): {200: 1},
                    (GROUP_ROUTE, "HEAD"): {200: 1},
                }

        asyncio.run(scenario())

    def test_each_takes_its_time_once(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await service.http.get(GROUP)
                await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
                await service.http.get(GROUP)

                seen = service.traffic.recorder.routes[GROUP_ROUTE, "GET"]
                assert (sum(seen.counts), seen.good, seen.statuses) == (2, 1, {404: 1})
                assert seen.seconds > 0

        asyncio.run(scenario())

    def test_callers_can_not_make_up_names_of_routes_or_methods(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                before = set(service.traffic.recorder.routes)
                for n in range(20):
                    await service.http.get(f"/made/up/{n}")
                    await service.http.request(f"MADE{n}", GROUP)
                    await service.http.request(f"MADE{n}", HEARTBEAT)

                assert set(service.traffic.recorder.routes) == before
                assert _answers(service.traffic.recorder) == {
                    (OTHER, OTHER): {404: 20},
                    (GROUP_ROUTE, OTHER): {405: 20},
                    (HEARTBEAT_ROUTE, OTHER): {405: 20},
                }

        asyncio.run(scenario())

    def test_those_that_are_not_even_looked_at_count_under_no_route(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await service.http.get(
                    GROUP, headers={"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
                )
                service.traffic.close()
                await service.http.get(GROUP)

                assert _answers(service.traffic.recorder) == {(OTHER, OTHER): {403: 1, 503: 1}}

        asyncio.run(scenario())

    def test_a_caller_who_hangs_up_counts_nowhere(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                sent = await _hung_up(service)

                assert (sent, _answers(service.traffic.recorder)) == ([], {})

        asyncio.run(scenario())

    def test_what_is_too_long_counts_for_its_route(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await service.http.post(HEARTBEAT, content=b" " * (BODY_LIMIT + 1))

                assert _answers(service.traffic.recorder) == {(HEARTBEAT_ROUTE, "POST"): {413: 1}}

        asyncio.run(scenario())


class TestHeartbeats:
    def test_they_are_counted_by_what_they_are_answered(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await service.http.post(HEARTBEAT, json=beat())
                await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
                await service.http.post(HEARTBEAT, json=beat())
                await service.http.post(HEARTBEAT, json=beat(protocolVersion=9))

                assert _heartbeats(service) == (1, {Status.UNKNOWN_MEMBER_ID: 1, Status.UNSUPPORTED_PROTOCOL: 1}, 3)

        asyncio.run(scenario())

    def test_one_that_can_not_be_read_is_no_heartbeat(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await service.http.post(HEARTBEAT, content=b"{")

                assert _heartbeats(service) == (0, {}, 0)
                assert _answers(service.traffic.recorder) == {(HEARTBEAT_ROUTE, "POST"): {400: 1}}

        asyncio.run(scenario())

    def test_each_of_a_batch_counts(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
                place = {"streamPrefix": "orders", "consumerGroup": "billing"}
                first, second = ({**beat(f"web-m{n}", instanceId=f"{n:032x}"), **place} for n in (1, 2))
                answer = await _batch(service, [first, second, {"memberId": "spoilt"}])

                assert [reply["status"] for reply in answer["replies"]] == ["OK", "OK", "INVALID_REQUEST"]
                assert _heartbeats(service) == (2, {Status.INVALID_REQUEST: 1}, 3)

        asyncio.run(scenario())


def _heartbeats(service: Running) -> tuple[int, dict[Status, int], int]:
    seen = service.traffic.recorder.heartbeats
    return seen.fine, seen.statuses, sum(seen.counts)


async def _batch(service: Running, beats: list[dict[str, Any]]) -> Any:
    answer: httpx.Response = await service.http.post("/coord/v1/heartbeats", json={"heartbeats": beats})
    return answer.json()


async def _hung_up(service: Running) -> list[Any]:
    """What is sent to a caller who is gone before the body has come."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"test")]
    scope = {"type": "http", "method": "POST", "path": HEARTBEAT, "query_string": b"", "headers": headers}
    await service.app(scope, receive, send)
    return sent
