"""Whatever is rejected leaves the stored records as they were, to the last octet."""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from streamshard.adapters.stores import codec
from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.stores.sqlite import SqliteStore
from streamshard.core.ids import GroupKey
from streamshard.core.ports import MetadataStore
from streamshard.core.stream import StreamRecord
from tests.integration.http.service import ASKED, GROUP, STREAM, Running, beat, running
from tests.integration.http.stage import HEARTBEAT, MONITORED, holding, owning

Photograph: TypeAlias = Callable[[], Awaitable[object]]
"""Every stored octet."""

GOOD = {"initialShardCount": 2, **ASKED}
SCALE = {"targetShardCount": 3, **ASKED}
DEEP = "[" * 5_000 + "]" * 5_000

Body: TypeAlias = bytes | str | dict[str, Any]

MUTATIONS = [
    ("POST", STREAM), ("PATCH", STREAM), ("DELETE", STREAM), ("POST", STREAM + "/scale"), ("POST", GROUP),
    ("DELETE", GROUP),
    ("POST", GROUP + "/scale"), ("POST", GROUP + "/migrations/m"), ("POST", GROUP + "/migrations/m/rollback"),
    ("POST", HEARTBEAT), ("POST", "/coord/v1/heartbeats"),
]  # fmt: skip

GARBAGE: list[Body] = [
    b"", b"{", b"null", b"[]", b"1", b'"x"', b"\xff", b'{"requestedBy": "\xed\xa0\x80"}', b"{} {}", DEEP,
    b'{"requestedBy": "a", "requestedBy": "b", "reason": "r"}', {},
]  # fmt: skip

BODIES: list[tuple[str, str, Body]] = [
    *[(method, path, body) for method, path in MUTATIONS for body in GARBAGE],
    ("POST", STREAM, GOOD),  # it exists
    ("POST", GROUP, GOOD),
    ("POST", STREAM + "/groups/audit", {**GOOD, "initialShardCount": 3}),
    ("POST", "/coord/v1/streams/new", {**GOOD, "initialShardCount": 0}),
    ("POST", "/coord/v1/streams/new", {**GOOD, "initialShardCount": 2**53}),
    ("POST", "/coord/v1/streams/new", {**GOOD, "initialShardCount": 1.5}),
    ("POST", "/coord/v1/streams/new", {**GOOD, "routingProtocol": "none"}),
    ("POST", "/coord/v1/streams/new", {**GOOD, "consumerGroups": ["a", "a"]}),
    ("POST", "/coord/v1/streams/new", {**GOOD, "consumerGroups": ["a/b"]}),
    ("POST", "/coord/v1/streams/new", {**GOOD, "startFrom": "yesterday"}),
    ("POST", "/coord/v1/streams/new", {**GOOD, "requestedBy": "\x1b[31m"}),
    ("POST", "/coord/v1/streams/%7Bnew%7D", GOOD),
    ("POST", STREAM + "/scale", {**SCALE, "targetShardCount": 2}),  # it has that many
    ("POST", STREAM + "/scale", {**SCALE, "targetShardCount": -1}),
    ("POST", STREAM + "/scale", {**SCALE, "targetShardCount": 2**40}),
    ("POST", STREAM + "/scale", {**SCALE, "reason": " "}),
    ("POST", GROUP + "/scale", {**SCALE, "ignoreForeignGroups": ["", "x"]}),
    ("POST", STREAM + "/groups/nobody/scale", SCALE),
    ("POST", GROUP + "/migrations/none", {**ASKED, "ignoreForeignGroups": []}),
    ("POST", GROUP + "/migrations/none/rollback", ASKED),
    ("PATCH", STREAM, {**ASKED, "retention": "some"}),
    ("PATCH", STREAM, {"requestedBy": "ops", "retention": "none"}),
    ("PATCH", STREAM + "-not", {**ASKED, "retention": "none"}),
    ("DELETE", GROUP, ASKED),  # it has a member
    ("DELETE", STREAM, ASKED),
    ("DELETE", STREAM + "/groups/nobody", ASKED),
    ("PUT", STREAM, GOOD),
    ("PATCH", GROUP, GOOD),
]

HEARTBEATS: list[dict[str, Any]] = [
    {"protocolVersion": 2},
    {"memberId": "other"},
    {"memberEpoch": -2},
    {"memberEpoch": 99},
    {"instanceId": "f" * 32},
    {"instanceId": "x"},
    {"seq": 0},
    {"seq": 2**53},
    {"holds": [{"shardIndex": 0, "token": 1}, {"shardIndex": 0, "token": 2}]},
    {"holds": [{"shardIndex": 16_384, "token": 1}]},
    {"holds": None},
    {"ownedShards": [{"shardIndex": -1}]},
    {"shardProgress": [{"shard": {"shardIndex": 10**6}, "streamKey": "x"}]},
    {"runtimeConsumerCapacity": {"runtimeMaxConcurrency": 0, "availableConcurrency": 0}},
    {"memberName": 7},
    {"requestId": None},
]

QUESTIONS = [
    STREAM,
    GROUP,
    GROUP + "/producer-routing",
    STREAM + "/route?key=a",
    STREAM + "/watch?layout=0&waitMs=0",
    "/coord/v1/streams",
    "/coord/v1/monitoring/groups",
    "/coord/v1/monitoring/health",
    "/coord/v1/monitoring/grafana/groups",
    "/coord/v1/monitoring/grafana/shards",
    *(f"{MONITORED}/{what}" for what in ("members", "assignments", "consumption", "migrations", "offsets")),
    *(f"{MONITORED}/{what}" for what in ("autoscale", "events", "shards/0/messages", "shards/9/messages")),
    STREAM + "/groups/nobody",
]


async def _octets(store: MetadataStore) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for prefix in await store.prefixes():
        record = (await store.load_stream(prefix)).record
        assert isinstance(record, StreamRecord)
        found[prefix] = codec.dump_stream(record)
        for name in record.groups:
            group = await store.load_group(GroupKey(prefix, name))
            found[f"{prefix}/{name}"] = b"" if group.record is None else codec.dump_group(group.record)
            found |= {f"{prefix}/{name}/{i}": codec.dump_row(row) for i, row in group.rows.items()}
    return found


@contextlib.asynccontextmanager
async def in_memory(_: Path) -> AsyncIterator[tuple[Running, Photograph]]:
    store = MemoryStore()
    async with running(store) as service:
        yield service, lambda: _octets(store)


@contextlib.asynccontextmanager
async def in_a_file(folder: Path) -> AsyncIterator[tuple[Running, Photograph]]:
    path = folder / "metadata.db"
    store = await SqliteStore.open(str(path))
    try:
        async with running(store) as service:
            yield service, lambda: _dumped(path)
    finally:
        await store.close()


async def _dumped(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as file:
        return list(file.iterdump())


STORES = [in_memory, in_a_file]


@pytest.mark.parametrize("stored", STORES)
def test_a_rejected_mutation_changes_no_octet(stored: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stored(tmp_path) as (service, photograph):
            await owning(service)
            before = await photograph()
            for method, path, body in BODIES:
                content = json.dumps(body) if isinstance(body, dict) else body
                for headers in ({}, {"Idempotency-Key": "k"}):
                    answer = await service.http.request(method, path, content=content, headers=headers)

                    assert 400 <= answer.status_code < 500, (method, path, body, answer.text)
                    assert await photograph() == before, (method, path, body)

    asyncio.run(scenario())


@pytest.mark.parametrize("stored", STORES)
def test_a_rejected_heartbeat_changes_no_octet(stored: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stored(tmp_path) as (service, photograph):
            answer = await owning(service)
            before = await photograph()
            for fields in HEARTBEATS:
                refused = await service.http.post(HEARTBEAT, json={**holding(answer, 9), **fields})
                status = refused.json().get("status")

                assert refused.status_code == 400 or status not in {"SYNC_METADATA", "REVOKE_PENDING"}, (fields, status)
                assert await photograph() == before, (fields, refused.text)

    asyncio.run(scenario())


@pytest.mark.parametrize("stored", STORES)
def test_a_heartbeat_of_nobody_and_to_nowhere_changes_no_octet(stored: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stored(tmp_path) as (service, photograph):
            await owning(service)
            before = await photograph()
            stranger = {**beat("web-m9"), "memberEpoch": 4}
            for path in (GROUP + "/members/web-m9/heartbeat", STREAM + "/groups/nobody/members/web-m9/heartbeat"):
                answer = await service.http.post(path, json=stranger)

                assert answer.json()["status"] == "UNKNOWN_MEMBER_ID"
            batch = [{**stranger, "streamPrefix": "orders", "consumerGroup": "billing"}, {"streamPrefix": 1}, 7]
            assert (await service.http.post("/coord/v1/heartbeats", json={"heartbeats": batch})).status_code == 200
            assert await photograph() == before

    asyncio.run(scenario())


@pytest.mark.parametrize("stored", STORES)
def test_looking_changes_no_octet(stored: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stored(tmp_path) as (service, photograph):
            await owning(service)
            before = await photograph()
            for path in QUESTIONS:
                answer = await service.http.get(path)

                assert answer.status_code in {200, 404}, (path, answer.text)
                assert await photograph() == before, path

    asyncio.run(scenario())
