"""What goes on record: every attempt to change something, whole and harmless."""

import asyncio
import hashlib
import ipaddress
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamshard.entrypoints.http.operations import OPERATIONS, Operation
from streamshard.entrypoints.security.audit import AuditRecord, to_log
from streamshard.entrypoints.security.limits import Limit
from streamshard.entrypoints.security.roles import Need
from tests.integration.http.service import ASKED, GROUP, STREAM
from tests.integration.security.doors import PASSWORD, Guarded, basic, guarded
from tests.integration.security.test_matrix import path_of

LOGIN = "/coord/v1/auth/login"
FIELDS = """
    timestamp coordinatorId action outcome status principal roles method route path streamPrefix consumerGroup
    reshardingId requestId requestedBy reason clientAddress userAgent durationMs requestBodySha256 requestSummary
""".split()


def test_a_change_is_on_record_with_who_what_where_and_how_it_ended() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            body = json.dumps({**ASKED, "initialShardCount": 2, "secret": "x"}).encode()
            headers = {**door.bearer("write"), "x-request-id": "r-1", "user-agent": "a client"}
            await door.http.post(GROUP, content=body, headers=headers)

        (record,) = door.records
        assert json.loads(record.json()) == {
            "timestamp": "2027-01-15T08:00:00.000Z",
            "coordinatorId": "coordinator-1",
            "action": "CREATE_GROUP",
            "outcome": "SUCCESS",
            "status": 201,
            "principal": "write",
            "roles": ["WRITE"],
            "method": "POST",
            "route": "/coord/v1/streams/{prefix}/groups/{group}",
            "path": GROUP,
            "streamPrefix": "orders",
            "consumerGroup": "billing",
            "reshardingId": None,
            "requestId": "r-1",
            "requestedBy": "ops",
            "reason": "a test",
            "clientAddress": "192.0.2.7",
            "userAgent": "a client",
            "durationMs": 0,
            "requestBodySha256": hashlib.sha256(body).hexdigest(),
            "requestSummary": {"initialShardCount": 2},
        }
        assert list(json.loads(record.json())) == FIELDS

    asyncio.run(scenario())


CHANGING = [operation for operation in OPERATIONS if operation.need is Need.WRITE]


@pytest.mark.parametrize("operation", CHANGING, ids=lambda operation: operation.id)
@pytest.mark.parametrize(
    ("who", "outcome", "principal"),
    [(None, "UNAUTHORIZED", None), ("read", "FORBIDDEN", "read"), ("confined-admin", None, "confined-admin")],
)
def test_every_attempt_to_change_something_is_one_record(
    operation: Operation, who: str | None, outcome: str | None, principal: str | None
) -> None:
    async def scenario() -> None:
        async with guarded() as door:
            headers = {} if who is None else door.bearer(who)
            answer = await door.http.request(operation.method, path_of(operation), json=ASKED, headers=headers)

        (record,) = door.records
        assert (record.action, record.status, record.principal) == (operation.action, answer.status_code, principal)
        assert record.outcome == (outcome or ("SUCCESS" if answer.is_success else "FAILED"))

    asyncio.run(scenario())


def test_a_resharding_that_was_begun_is_named() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            headers = door.bearer("write")
            await door.http.post(GROUP, json={**ASKED, "initialShardCount": 2}, headers=headers)
            scaled = await door.http.post(STREAM + "/scale", json={**ASKED, "targetShardCount": 3}, headers=headers)

        begun = scaled.json()["migrations"][0]["reshardingId"]
        assert [record.resharding_id for record in door.records] == [None, begun]

    asyncio.run(scenario())


def test_a_login_is_on_record_without_its_password_or_anything_to_guess_it_by() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            for name, password in (("read", PASSWORD), ("read", "hunter2"), ("hunter3", "x")):
                await door.http.post(LOGIN, json={"username": name, "password": password})
            await door.http.get(STREAM, headers=basic("read", "hunter2"))
            await door.http.get(STREAM, headers=basic("hunter3", "hunter2"))

        told = [(record.action, record.outcome, record.principal) for record in door.records]
        assert told == [
            ("LOGIN", "SUCCESS", "read"),
            ("LOGIN", "UNAUTHORIZED", "read"),
            ("LOGIN", "UNAUTHORIZED", None),
            ("LOGIN", "UNAUTHORIZED", "read"),
            ("LOGIN", "UNAUTHORIZED", None),
        ]
        whole = "".join(record.json() for record in door.records)
        assert not any(secret in whole for secret in ("hunter", PASSWORD, hashlib.sha256(b"").hexdigest()))
        assert {record.request_body_sha256 for record in door.records} == {None}

    asyncio.run(scenario())


def test_nothing_that_was_shown_is_on_record() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            token = door.token("write")
            await door.http.post(GROUP, json=ASKED, headers={"authorization": f"Bearer {token}"})
            await door.http.post("/coord/v1/auth/revoke", json={}, headers={"authorization": f"Bearer {token}"})
            await door.http.post(GROUP, json=ASKED, headers=basic("write"))

        whole = "".join(record.json() for record in door.records)
        assert not any(part in whole for part in (*token.split(".")[1:], PASSWORD, basic("write")["authorization"]))

    asyncio.run(scenario())


HOSTILE = [
    "a\nb",
    "a\r\n2026-01-01 INFO forged",
    "\x00\x07\x1b[2J\x1b]0;x\x07",
    "\x7f\x9b31m\x85",
    "\u2028{}\u2029",
    "\u202eevil",
    '"}\n{"action": "LOGIN", "outcome": "SUCCESS"}',
    "%0a%0d",
    "${jndi:ldap://x}",
    "\ud800",
    "x" * 5_000,
    "'; DROP TABLE audit; --",
    "\\n\\u000a",
]


@contextmanager
def logged() -> Iterator[list[str]]:
    """The lines of the audit's log, as a file would have them."""
    lines: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.extend(self.format(record).split("\n"))

    handler, logger = Keeping(), logging.getLogger("streamshard.audit")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_is_sent_makes_one_line_of_ascii_that_is_one_json_object(hostile: str) -> None:
    async def scenario() -> list[AuditRecord]:
        async with guarded() as door:
            raw = hostile.encode("utf-8", "surrogatepass")
            quoted = "".join(f"%{byte:02X}" for byte in raw)
            body = json.dumps({"requestedBy": hostile, "reason": hostile, "startFrom": hostile, "retention": [hostile]})
            headers = [(b"user-agent", raw.replace(b"\n", b" ").replace(b"\r", b" ").replace(b"\0", b" "))]
            headers += [(b"x-request-id", b"a b"), (b"authorization", door.bearer("write")["authorization"].encode())]
            await door.http.post(f"/coord/v1/streams/{quoted}/groups/{quoted}", content=body, headers=headers)
            await door.http.post(LOGIN, content=json.dumps({"username": hostile, "password": hostile[:1]}))
            return door.records

    records = asyncio.run(scenario())

    with logged() as lines:
        for record in records:
            to_log(record)
    assert len(lines) == len(records) == 2
    for line in lines:
        assert line.isascii()
        assert line.isprintable()
        assert len(line) < 5_000
        assert list(json.loads(line)) == FIELDS


@pytest.mark.parametrize(
    ("client", "forwarded", "believed"),
    [
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "1.1.1.1, 203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("10.0.0.1", "nonsense", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("192.0.2.7", "203.0.113.9", "192.0.2.7"),
    ],
)
def test_where_a_request_comes_from_is_believed_of_a_known_proxy_alone(
    client: str, forwarded: str, believed: str
) -> None:
    async def scenario() -> None:
        proxies = (ipaddress.ip_network("10.0.0.0/8"),)
        async with guarded(proxies=proxies, client=(client, 1)) as door:
            await door.http.post(GROUP, json=ASKED, headers={"x-forwarded-for": forwarded})

        assert [record.client_address for record in door.records] == [believed]

    asyncio.run(scenario())


async def change(door: Guarded, who: str, path: str = GROUP) -> int:
    return (await door.http.post(path, json=ASKED, headers=door.bearer(who))).status_code


def test_changes_are_limited_for_each_account_stream_and_group() -> None:
    async def scenario() -> None:
        async with guarded(changes=Limit(2, 60)) as door:
            assert [await change(door, "write") for _ in range(3)] == [201, 409, 429]
            assert await change(door, "admin") == 409
            assert await change(door, "write", GROUP.replace("billing", "other")) == 201
            assert await change(door, "write", STREAM) == 409
            assert (await door.http.get(GROUP, headers=door.bearer("write"))).status_code == 200
            answer = await door.http.post(GROUP, json=ASKED, headers=door.bearer("write"))

            assert (answer.json()["retryable"], answer.json()["details"]) == (
                True,
                {"retryAfterSeconds": int(answer.headers["retry-after"])},
            )
            assert [record.outcome for record in door.records if record.status == 429] == ["FAILED"] * 2
            door.clock.at += 60
            assert await change(door, "write") == 409

    asyncio.run(scenario())
