"""The document says what is served, all of it and nothing else; and the page that draws it needs nobody."""

import asyncio
import json
import re
from typing import Any

import httpx
import msgspec
import pytest

from streamshard.entrypoints.http.answers import Answer, HeartbeatAnswer
from streamshard.entrypoints.http.app import resources
from streamshard.entrypoints.http.openapi import document
from streamshard.entrypoints.http.operations import OPERATIONS, Operation
from tests.integration.http.service import ASKED, GROUP, STREAM, beat, running
from tests.integration.http.stage import MONITORED, owning, publish

DOCUMENT: dict[str, Any] = json.loads(document())


def test_every_route_is_documented_and_every_documented_operation_is_served() -> None:
    async def served() -> set[tuple[str, str]]:
        async with running() as service:
            table = resources(service.coordinator, service.traffic)
        return {(path, method) for path, methods in table.items() for method in methods}

    documented = {(path, method.upper()) for path, methods in DOCUMENT["paths"].items() for method in methods}

    assert documented == asyncio.run(served())


def test_operation_ids_are_stable_and_each_is_given_once() -> None:
    ids = [operation.id for operation in OPERATIONS]

    assert len(set(ids)) == len(ids)
    assert sorted(ids) == sorted(OPERATION_IDS)


OPERATION_IDS = """
    amendMigration amendStream createGroup createStream deleteGroup deleteStream getAssignments getAutoscale
    getCompatibility getConsumption getDocs getDocsScript getDocsStyle getDocument getGroup getHealth getMetrics
    getMigration getOffsets getProducerRouting getSession getStream heartbeat heartbeats listEvents
    listGrafanaAssignments listGrafanaConsumerGroupOptions listGrafanaGroups listGrafanaMembers
    listGrafanaMessages listGrafanaShardOptions listGrafanaShards listGrafanaStreamOptions listGroups
    listMembers listMessages listMigrations listStreams live login ready revokeToken rollbackMigration routeKey
    scaleGroup scaleStream watch watchGroup
""".split()


def test_every_reference_leads_somewhere() -> None:
    named = set(re.findall(r'"#/components/schemas/(\w+)"', document().decode()))

    assert named <= set(DOCUMENT["components"]["schemas"])
    assert "Problem" in named


def test_patterns_are_written_for_every_reader() -> None:
    assert r"\\A" not in document().decode()
    assert r"\\Z" not in document().decode()


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.example is not None], ids=lambda o: o.id)
def test_an_example_is_accepted_as_a_body(operation: Operation) -> None:
    assert msgspec.convert(operation.example, operation.body)


def test_it_is_served_as_json() -> None:
    async def scenario() -> None:
        async with running() as service:
            answer = await service.http.get("/openapi.json")

        assert (answer.headers["content-type"], answer.json()) == ("application/json", DOCUMENT)

    asyncio.run(scenario())


ANSWERS = {operation.id: operation.answer for operation in OPERATIONS}


def _names(kind: type[Answer]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize("number", [1, 2])
def test_a_heartbeats_answer_has_the_documented_fields(number: int) -> None:
    async def scenario() -> dict[str, Any]:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            body = beat(protocolVersion=number)
            return dict((await service.http.post(GROUP + "/members/web-m0/heartbeat", json=body)).json())

    answer = asyncio.run(scenario())

    assert msgspec.convert(answer, HeartbeatAnswer)
    assert set(answer) == _names(HeartbeatAnswer)


def test_a_watchs_answer_and_a_batchs_have_the_documented_fields() -> None:
    async def scenario() -> tuple[httpx.Response, httpx.Response]:
        async with running() as service:
            await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
            news = await service.http.get(STREAM + "/watch?layout=0&waitMs=0")
            body = {"heartbeats": [beat(streamPrefix="orders", consumerGroup="billing")]}
            return news, await service.http.post("/coord/v1/heartbeats", json=body)

    news, batch = asyncio.run(scenario())

    assert set(news.json()) == _names(ANSWERS["watch"])
    assert set(batch.json()) == _names(ANSWERS["heartbeats"])
    assert msgspec.convert(news.json(), ANSWERS["watch"])
    assert msgspec.convert(batch.json(), ANSWERS["heartbeats"])


def test_the_page_is_served_from_files_of_its_own_under_a_strict_policy() -> None:
    async def scenario() -> None:
        async with running() as service:
            page = await service.http.get("/docs")
            parts = [await service.http.get(f"/docs/page.{kind}") for kind in ("css", "js")]

        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert [part.headers["content-type"] for part in parts] == [
            "text/css; charset=utf-8",
            "text/javascript; charset=utf-8",
        ]
        for answer in (page, *parts):
            assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert not re.search(r"(https?:)?//\w", answer.text.replace("// Draws", "").replace("// A schema", ""))

    asyncio.run(scenario())


def test_the_page_has_no_script_and_no_style_in_its_markup() -> None:
    async def scenario() -> None:
        async with running() as service:
            page = (await service.http.get("/docs")).text

        assert re.findall(r"(?:href|src)=\"([^\"]+)\"", page) == [
            "docs/page.css",
            "docs/page.js",
            "openapi.json",
            "openapi.json",
        ]
        assert not re.search(r"<script>|<style|style=| on\w+=", page)

    asyncio.run(scenario())


def test_all_that_is_answered_is_of_the_documented_type() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service, ticked=True)
            await publish(service, 0, b"a", b"\xff")
            paths = {
                "getOffsets": MONITORED + "/offsets",
                "listMessages": MONITORED + "/shards/0/messages",
                "listEvents": MONITORED + "/events",
                "listMembers": MONITORED + "/members",
                "getStream": STREAM,
                "listStreams": "/coord/v1/streams",
                "getProducerRouting": GROUP + "/producer-routing",
            }
            answers = {id: (await service.http.get(path)).json() for id, path in paths.items()}

        for id, answer in answers.items():
            assert msgspec.convert(answer, ANSWERS[id])
            assert set(answer) == _names(ANSWERS[id])

    asyncio.run(scenario())
