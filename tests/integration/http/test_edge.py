"""What every route has in common: paths, methods, sizes, request ids, and one shape for what goes wrong."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.entrypoints.http.app import resources
from streamshard.entrypoints.http.exchange import BODY_LIMIT, DISCARD_LIMIT
from streamshard.entrypoints.http.faults import HTTP_STATUS, STATUS_NAMES, http_status
from streamshard.errors import (
    CommitUncertain,
    CoordinatorUnreachable,
    GroupNotFound,
    InvalidRequest,
    MetadataCorrupt,
    RollbackNotAllowed,
    StateConflict,
    StoreUnavailable,
    StreamExists,
)
from tests.integration.http.service import ASKED, GROUP, STREAM, Running, error, running

ALLOWED = {
    "/coord/v1/streams/p": "DELETE, GET, HEAD, PATCH, POST",
    "/coord/v1/streams/p/scale": "POST",
    "/coord/v1/streams/p/route": "GET, HEAD",
    "/coord/v1/streams/p/watch": "GET, HEAD",
    "/coord/v1/heartbeats": "POST",
    "/coord/v1/auth/login": "POST",
    "/coord/v1/auth/revoke": "POST",
    "/coord/v1/streams/p/groups/g": "DELETE, GET, HEAD, POST",
    "/coord/v1/streams/p/groups/g/scale": "POST",
    "/coord/v1/streams/p/groups/g/producer-routing": "GET, HEAD",
    "/coord/v1/streams/p/groups/g/migrations/m": "GET, HEAD, POST",
    "/coord/v1/streams/p/groups/g/migrations/m/rollback": "POST",
    "/coord/v1/streams/p/groups/g/members/m/heartbeat": "POST",
    "/coord/v1/monitoring/health": "GET, HEAD",
    "/coord/v1/monitoring/groups": "GET, HEAD",
    "/coord/v1/monitoring/streams/p/groups/g": "GET, HEAD",
    "/coord/v1/monitoring/streams/p/groups/g/members": "GET, HEAD",
    "/coord/v1/monitoring/streams/p/groups/g/assignments": "GET, HEAD",
    "/coord/v1/monitoring/streams/p/groups/g/migrations": "GET, HEAD",
    "/coord/v1/streams": "GET, HEAD",
    "/coord/v1/monitoring/session": "GET, HEAD",
    "/coord/v1/monitoring/compatibility": "GET, HEAD",
    "/coord/v1/monitoring/streams/p/groups/g/consumption": "GET, HEAD",
    "/coord/v1/monitoring/streams/p/groups/g/offsets": "GET, HEAD",
    "/coord/v1/monitoring/streams/p/groups/g/shards/0/messages": "GET, HEAD",
    "/coord/v1/monitoring/streams/p/groups/g/autoscale": "GET, HEAD",
    "/coord/v1/monitoring/streams/p/groups/g/events": "GET, HEAD",
    "/coord/v1/monitoring/grafana/groups": "GET, HEAD",
    "/coord/v1/monitoring/grafana/options/streams": "GET, HEAD",
    "/coord/v1/monitoring/grafana/options/consumer-groups": "GET, HEAD",
    "/coord/v1/monitoring/grafana/options/shards": "GET, HEAD",
    "/coord/v1/monitoring/grafana/members": "GET, HEAD",
    "/coord/v1/monitoring/grafana/shards": "GET, HEAD",
    "/coord/v1/monitoring/grafana/assignments": "GET, HEAD",
    "/coord/v1/monitoring/grafana/messages": "GET, HEAD",
    "/openapi.json": "GET, HEAD",
    "/docs": "GET, HEAD",
    "/docs/page.css": "GET, HEAD",
    "/docs/page.js": "GET, HEAD",
    "/livez": "GET, HEAD",
    "/metrics": "GET, HEAD",
    "/readyz": "GET, HEAD",
}
CREATE = json.dumps({**ASKED, "initialShardCount": 2}).encode()


@pytest.mark.parametrize("path", sorted(ALLOWED))
def test_another_method_is_refused_with_those_that_are_allowed(path: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
                if method in ALLOWED[path].split(", "):
                    continue
                answer = await service.http.request(method, path)
                told = f"this method is not allowed here: use {ALLOWED[path].replace(', ', ' or ')}"

                assert (answer.status_code, answer.headers["allow"]) == (405, ALLOWED[path])
                assert answer.json() == error("METHOD_NOT_ALLOWED", "METHOD_NOT_ALLOWED", told)

    asyncio.run(scenario())


def test_the_table_above_lists_every_resource() -> None:
    async def scenario() -> None:
        async with running() as service:
            assert len(ALLOWED) == len(resources(service.coordinator, service.traffic))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/coord",
        "/coord/v1",
        "/coord/v2/streams/p",
        STREAM + "/",
        GROUP + "/",
        "/coord/v1/nothing",
    ]
    + [STREAM + "/groups", "/COORD/v1/streams/p/scale", GROUP + "/members/m", "/livez/", "//livez"],
)
def test_an_unknown_path_has_the_error_shape_too(path: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await service.http.get(f"http://test{path}" if path == "//livez" else path)

            assert answer.status_code == 404
            assert answer.json()["errorCode"] == "NOT_FOUND"
            assert set(answer.json()) == {"status", "errorCode", "message", "retryable", "details"}

    asyncio.run(scenario())


NAMES = [
    ("%7Borders%7D", "streamPrefix", "{"),
    ("a%2Fb", "streamPrefix", "/"),
    ("%2E%2E", "streamPrefix", ".."),
    ("%2e", "streamPrefix", "."),
    ("a%00b", "streamPrefix", "U+0000"),
    ("a%1B%5B31m", "streamPrefix", "U+001B"),
    ("%ff", "streamPrefix", "UTF-8"),
    ("%ED%A0%80", "streamPrefix", "UTF-8"),
    ("%20a", "streamPrefix", "space"),
    ("", "streamPrefix", "empty"),
    ("x" * 201, "streamPrefix", "201 bytes"),
    ("%C3%A9" * 101, "streamPrefix", "202 bytes"),
]


@pytest.mark.parametrize(("name", "field", "why"), NAMES)
def test_a_bad_name_in_a_path_is_refused_by_its_field(name: str, field: str, why: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            for path in (f"/coord/v1/streams/{name}", f"/coord/v1/streams/{name}/groups/billing"):
                answer = await service.http.post(httpx.URL("http://test", raw_path=path.encode()), content=CREATE)

                assert (answer.status_code, answer.json()["errorCode"]) == (400, "INVALID_REQUEST")
                assert answer.json()["message"].startswith(f"{field}: ")
                assert why in answer.json()["message"]
            assert await service.store.prefixes() == ()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/coord/v1/streams/orders/groups/%2E%2E", "consumerGroup"),
        ("/coord/v1/streams/orders/groups/a%2Fb/producer-routing", "consumerGroup"),
        ("/coord/v1/streams/orders/groups/billing/members/a%0Ab/heartbeat", "memberId"),
        ("/coord/v1/streams/orders/groups/billing/members//heartbeat", "memberId"),
        ("/coord/v1/streams/orders/groups//members/m/heartbeat", "consumerGroup"),
    ],
)
def test_groups_and_members_are_checked_too(path: str, field: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            method = "GET" if path.endswith("routing") else "POST"
            answer = await service.http.request(
                method, httpx.URL("http://test", raw_path=path.encode()), content=CREATE
            )

            assert (answer.status_code, answer.json()["message"].partition(":")[0]) == (400, field)

    asyncio.run(scenario())


@pytest.mark.parametrize("path", [STREAM, GROUP, STREAM + "/scale", GROUP + "/members/web-m0/heartbeat"])
def test_a_body_that_is_too_long_is_refused_and_not_read_for_ever(path: str) -> None:
    async def scenario() -> None:
        read = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal read
            while read < 64 * BODY_LIMIT:
                read += 65_536
                yield b" " * 65_536

        async with running() as service:
            declared = await service.http.post(path, content=b" " * (2 * BODY_LIMIT))
            chunked = await service.http.post(path, content=endless())
            just = await service.http.post(path, content=b" " * BODY_LIMIT)

        told = "body: is longer than 1048576 bytes: send less"
        assert declared.json() == chunked.json() == error("PAYLOAD_TOO_LARGE", "PAYLOAD_TOO_LARGE", told)
        assert (declared.status_code, chunked.status_code, just.status_code) == (413, 413, 400)
        assert read <= BODY_LIMIT + DISCARD_LIMIT + 2 * 65_536

    asyncio.run(scenario())


def test_the_page_of_another_site_changes_nothing() -> None:
    async def scenario() -> None:
        async with running() as service:
            foreign = [
                await service.http.post(STREAM, content=CREATE, headers={"Origin": origin})
                for origin in ("http://attacker.example", "null", "http://test.attacker.example", "")
            ]
            stored = await service.store.prefixes()
            own = await service.http.post(STREAM, content=CREATE, headers={"Origin": "http://test"})

        assert {(a.status_code, a.json()["errorCode"]) for a in foreign} == {(403, "FORBIDDEN")}
        assert (stored, own.status_code) == ((), 201)

    asyncio.run(scenario())


@pytest.mark.parametrize("id", ["a", "A-1.b_c:9", "x" * 64])
def test_a_safe_request_id_is_echoed(id: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            for path in ("/livez", "/nowhere"):
                answer = await service.http.get(path, headers={"X-Request-Id": id})
                assert answer.headers["x-request-id"] == id

    asyncio.run(scenario())


@pytest.mark.parametrize("id", [None, "", "a b", "x" * 65, "é", "<script>"])
def test_a_missing_or_unsafe_request_id_is_replaced(id: str | None) -> None:
    async def scenario() -> None:
        async with running() as service:
            headers = {} if id is None else {b"X-Request-Id": id.encode("latin-1")}
            first = await service.http.get("/livez", headers=headers)
            second = await service.http.get("/livez", headers=headers)

            assert len(first.headers["x-request-id"]) == 16
            assert first.headers["x-request-id"] != second.headers["x-request-id"]

    asyncio.run(scenario())


@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "é"])
def test_a_bad_idempotency_key_is_refused_by_name(key: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await service.http.post(
                STREAM, content=CREATE, headers={b"Idempotency-Key": key.encode("latin-1")}
            )

            assert (answer.status_code, answer.json()["message"].partition(":")[0]) == (400, "Idempotency-Key")
            assert await service.store.prefixes() == ()

    asyncio.run(scenario())


def test_an_unexpected_fault_tells_nothing_of_our_insides(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryStore):
        async def prefixes(self) -> tuple[()]:
            raise ZeroDivisionError("secret detail")

    async def scenario(service: Running) -> httpx.Response:
        return await service.http.get("/coord/v1/monitoring/groups", headers={"X-Request-Id": "find-me"})

    async def whole() -> httpx.Response:
        async with running(Broken()) as service:
            return await scenario(service)

    answer = asyncio.run(whole())

    told = "the coordinator failed: its log says why, under this answer's X-Request-Id"
    assert answer.status_code == 500
    assert answer.json() == error("INTERNAL_SERVER_ERROR", "INTERNAL_ERROR", told)
    assert "find-me" in caplog.text
    assert "secret detail" in caplog.text


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (InvalidRequest("m"), 400),
        (GroupNotFound("m"), 404),
        (StreamExists("m"), 409),
        (StateConflict("m"), 409),
        (RollbackNotAllowed("m"), 422),
        (StoreUnavailable("m"), 503),
        (MetadataCorrupt("m"), 503),
        (CoordinatorUnreachable("m"), 503),
        (CommitUncertain("m"), 500),
        (ValueError("m"), 500),
    ],
)
def test_a_class_decides_the_status(fault: Exception, status: int) -> None:
    assert http_status(fault) == status


def test_every_status_has_a_name() -> None:
    assert {*HTTP_STATUS.values(), 500} == set(STATUS_NAMES)


def test_a_coordinator_that_stops_turns_requests_away_but_lives() -> None:
    async def scenario() -> None:
        async with running() as service:
            service.traffic.close()

            ready = await service.http.get("/readyz")
            beat = await service.http.post(GROUP + "/members/web-m0/heartbeat", json={})
            alive = await service.http.get("/livez")

        assert ready.status_code == beat.status_code == 503
        assert ready.json()["errorCode"] == beat.json()["errorCode"] == "COORDINATOR_TERMINATING"
        assert (ready.json()["retryable"], ready.headers["retry-after"]) == (True, "1")
        assert alive.json() == {"status": "UP"}

    asyncio.run(scenario())


def test_it_works_as_well_mounted_under_a_path() -> None:
    async def scenario() -> None:
        async with running() as service:
            host = Starlette(routes=[Mount("/inside", app=service.app)])
            async with httpx.AsyncClient(transport=httpx.ASGITransport(host), base_url="http://test") as http:
                alive = await http.get("/inside/livez")
                beat = await http.post(f"/inside{GROUP}/members/a%2Fb/heartbeat", json={})
                lost = await http.get("/inside/nowhere")

        assert alive.json() == {"status": "UP"}
        assert beat.json()["message"].startswith("memberId: has a '/'")
        assert lost.json()["errorCode"] == "NOT_FOUND"

    asyncio.run(scenario())
