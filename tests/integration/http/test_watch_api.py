"""GET …/watch: held until there is news, strict about what it is asked, and in nobody's way."""

import asyncio
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.types import Message

from streamshard.entrypoints.http.app import create_app
from streamshard.entrypoints.http.exchange import raw_path
from tests.integration.http.service import ASKED, GROUP, STREAM, Running, beat, error, running

WATCH = STREAM + "/watch"


async def made(service: Running) -> None:
    await service.http.post(STREAM, json={**ASKED, "initialShardCount": 2, "consumerGroups": ["billing"]})


async def layout(service: Running) -> str:
    return (await service.http.get(GROUP + "/producer-routing")).headers["etag"]


async def ask(service: Running, query: str) -> httpx.Response:
    return await service.http.get(f"{WATCH}?{query}")


async def held(service: Running, query: str) -> "asyncio.Task[httpx.Response]":
    """A watch that is waiting by the time this returns."""
    task = asyncio.create_task(ask(service, query))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    return task


def test_a_layout_that_is_held_already_is_no_news_and_another_one_is_at_once() -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)
            tag = await layout(service)
            version = int(tag.strip('"').rpartition("-")[2])

            same = await ask(service, f"layout={quote(tag)}&waitMs=0")
            bare = await ask(service, f"layout={version}&waitMs=0")
            other = await ask(service, f"layout={version - 1}")
            past = await ask(service, f"layout=past-{version}")

            assert (same.status_code, same.json()) == (
                200,
                {
                    "changed": False,
                    "layoutVersion": version,
                    "metadataVersion": same.json()["metadataVersion"],
                    "layout": tag.strip('"'),
                    "view": None,
                    "members": None,
                },
            )
            assert [answer.json()["changed"] for answer in (bare, other, past)] == [False, True, True]

    asyncio.run(scenario())


def test_a_held_watch_is_answered_by_a_scale() -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)
            waiting = await held(service, f"layout={quote(await layout(service))}")

            await service.http.post(STREAM + "/scale", json={**ASKED, "targetShardCount": 3})
            await service.tick(2)

            assert (await waiting).json()["changed"] is True

    asyncio.run(scenario())


def test_a_held_watch_of_a_group_is_answered_by_a_join_that_concerns_a_member_of_it() -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)
            joined = (await service.http.post(GROUP + "/members/web-m0/heartbeat", json=beat())).json()
            waiting = await held(service, f"group=billing&view={joined['view']}&member=web-m0&member=web-m1")

            other = beat("b", instanceId="b" * 32)
            reply = (await service.http.post(GROUP + "/members/b/heartbeat", json=other)).json()
            news = (await waiting).json()

            assert (news["changed"], news["members"]) == (True, ["web-m0", "web-m1"])
            assert (news["view"], news["metadataVersion"]) == (reply["view"], reply["metadataVersion"])

    asyncio.run(scenario())


def test_whoever_has_no_view_yet_gets_one_at_once() -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)

            first = (await ask(service, "group=billing")).json()
            second = (await ask(service, f"group=billing&view={first['view']}&waitMs=1")).json()

            assert (first["changed"], second) == (True, {**first, "changed": False})

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "group: give either group (with view), or layout"),
        ("group=billing&layout=1", "group: give either group (with view), or layout"),
        ("layout=", "layout: must be a layout version, or the ETag of a producer routing"),
        ("layout=one", "layout: must be a layout version, or the ETag of a producer routing"),
        ("layout=1&waitMs=30001", "waitMs: must be a whole number from 0 to 30000"),
        ("layout=1&waitMs=-1", "waitMs: must be a whole number from 0 to 30000"),
        ("layout=1&waitMs=1e3", "waitMs: must be a whole number from 0 to 30000"),
        ("layout=1&waitMs=", "waitMs: must be a whole number from 0 to 30000"),
        ("layout=1&layout=2", "layout: stands there twice: send it once"),
        ("layout=1&view=x", "view: goes with group, and so does member"),
        ("layout=1&member=a", "view: goes with group, and so does member"),
        ("group=billing&view=", "view: must be the one of the last answer, or be left out"),
        ("group=billing&view=" + "x" * 501, "view: must be the one of the last answer, or be left out"),
        ("group=billing&view=a.1.b.c", "view: is none of this group: send the one of the last answer, or none"),
        ("group=%FF", "query: can't be read: percent-encode UTF-8, name 1000 members at most"),
        (
            "group=billing" + "&member=a" * 1_001,
            "member: names 1001 members: name 1000 at most, or none for all",
        ),
        (
            "group=billing" + "&member=a" * 2_000,
            "query: can't be read: percent-encode UTF-8, name 1000 members at most",
        ),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(query: str, message: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)

            answer = await ask(service, query)

            assert (answer.status_code, answer.json()) == (400, error("BAD_REQUEST", "INVALID_REQUEST", message))

    asyncio.run(scenario())


@pytest.mark.parametrize("query", ["group=a%2Fb", "group=", "group=billing&member=a%0A", "group=billing&member="])
def test_bad_names_are_refused(query: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)

            answer = await ask(service, query)

            assert (answer.status_code, answer.json()["errorCode"]) == (400, "INVALID_REQUEST")

    asyncio.run(scenario())


def test_what_is_not_there_is_not_found() -> None:
    async def scenario() -> None:
        async with running() as service:
            nothing = await ask(service, "layout=1")
            await made(service)
            group = await ask(service, "group=nobody")

            assert (nothing.status_code, nothing.json()["errorCode"]) == (404, "STREAM_NOT_FOUND")
            assert (group.status_code, group.json()["errorCode"]) == (404, "GROUP_NOT_FOUND")

    asyncio.run(scenario())


def test_a_coordinator_that_ends_turns_waiters_away_at_once() -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)
            waiting = await held(service, f"layout={quote(await layout(service))}")

            service.traffic.close()
            answer = await waiting

            assert (answer.status_code, answer.json()["errorCode"]) == (503, "COORDINATOR_TERMINATING")
            assert answer.headers["retry-after"] == "1"

    asyncio.run(scenario())


def test_a_tick_does_not_wait_for_held_watches() -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)
            waiting = await held(service, f"layout={quote(await layout(service))}")

            async with asyncio.timeout(5):
                await service.traffic.let_pass(60)

            assert not waiting.done()
            waiting.cancel()

    asyncio.run(scenario())


def test_a_caller_who_hangs_up_is_forgotten() -> None:
    async def scenario() -> None:
        async with running() as service:
            await made(service)
            messages: asyncio.Queue[Message] = asyncio.Queue()
            sent: list[Message] = []

            async def send(message: Message) -> None:
                sent.append(message)

            query = f"layout={(await layout(service)).strip(chr(34))}".encode()
            scope: dict[str, Any] = {
                "type": "http",
                "method": "GET",
                "path": WATCH,
                "raw_path": WATCH.encode(),
                "query_string": query,
                "headers": [],
            }
            assert raw_path(scope) == WATCH.encode()
            answering = asyncio.ensure_future(create_app(service.coordinator)(scope, messages.get, send))
            await messages.put({"type": "http.request", "body": b"", "more_body": False})
            for _ in range(20):
                await asyncio.sleep(0)
            waiting = not answering.done()
            await messages.put({"type": "http.disconnect"})
            await answering

            assert waiting
            assert sent == []
            assert service.coordinator._desk.notices._listeners == []

    asyncio.run(scenario())
