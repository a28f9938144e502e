"""Batches and watches over HTTP: against the real coordinator, an older one, and broken ones."""

import asyncio
import json

import attrs
import httpx
import pytest

from streamshard import CoordinatorUnreachable, HttpCoordinator
from streamshard.core.admin import Author, CreateStream, GroupSpec, Scale
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.ids import Epoch, InstanceId, LayoutVersion, Lineage, MemberId, Millis, ReshardingId, Seq
from streamshard.core.notices import GroupWatch, LayoutWatch
from streamshard.core.replies import HeartbeatReply, News, Status
from streamshard.entrypoints.http.heartbeats import encode_reply
from streamshard.errors import GroupNotFound, ListenerRejected, NotFound, StreamshardError
from tests.integration.client.script import ORDERS, reply
from tests.integration.client.test_http import Answer, over
from tests.integration.http.service import Running, running

TESTER = Author("tester", "a test")
LONG, NONE = Millis(20_000), Millis(0)
BATCH = "/coord/v1/heartbeats"


def join(name: str) -> Heartbeat:
    return Heartbeat(MemberId(name), Intent.JOIN, Epoch(0), InstanceId(name.encode().hex().rjust(32, "0")), Seq(1))


def beats(*names: str) -> list[tuple[object, Heartbeat]]:
    return [(ORDERS, join(name)) for name in names]


async def made(service: Running) -> HttpCoordinator:
    await service.coordinator.create_stream(CreateStream(ORDERS.prefix, TESTER, 4, groups=(GroupSpec(ORDERS.group),)))
    return HttpCoordinator("http://test", transport=httpx.ASGITransport(app=service.app))


def told(request: httpx.Request) -> list[str]:
    """Whose heartbeats a request carries."""
    body = json.loads(request.content)
    return [item["memberId"] for item in body.get("heartbeats", [body])]


def answered(request: httpx.Request) -> httpx.Response:
    """An answer to each of them, in either shape."""
    replies = [encode_reply(attrs.evolve(reply(), member=MemberId(name), seq=Seq(1))) for name in told(request)]
    if request.url.path != BATCH:
        return httpx.Response(200, content=replies[0])
    return httpx.Response(200, content=b'{"replies":[' + b",".join(replies) + b"]}")


def ask(answer: Answer, *names: str, times: int = 1) -> list[tuple[HeartbeatReply | StreamshardError, ...]]:
    async def scenario() -> list[tuple[HeartbeatReply | StreamshardError, ...]]:
        async with over(answer) as api:
            return [await api.heartbeats(beats(*names)) for _ in range(times)]  # type: ignore[arg-type]

    return asyncio.run(scenario())


def test_a_batch_of_the_client_is_one_that_the_coordinator_understands() -> None:
    async def scenario() -> None:
        async with running() as service, await made(service) as api:
            replies = await api.heartbeats(beats("a", "b"))  # type: ignore[arg-type]

            first, second = replies
            assert isinstance(first, HeartbeatReply)
            assert isinstance(second, HeartbeatReply)
            assert (first.member, first.status, len(first.grants)) == ("a", Status.OK, 4)
            assert (second.member, second.status, second.seq) == ("b", Status.OK, 1)

    asyncio.run(scenario())


def test_one_heartbeat_alone_goes_its_old_way() -> None:
    paths: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return answered(request)

    ask(answer, "a")

    assert paths == ["/coord/v1/streams/orders/groups/billing/members/a/heartbeat"]


@pytest.mark.parametrize("status", [404, 405])
def test_an_older_coordinator_is_asked_singly_and_not_tried_again_at_once(status: int) -> None:
    asked: list[list[str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(told(request))
        refusal = {"status": "X", "errorCode": "NOT_FOUND", "message": "nothing is served at this path"}
        return httpx.Response(status, json=refusal) if request.url.path == BATCH else answered(request)

    both = ask(answer, "a", "b", times=2)

    assert asked == [["a", "b"], ["a"], ["b"], ["a"], ["b"]]
    assert [[each.member for each in replies if isinstance(each, HeartbeatReply)] for replies in both] == [
        ["a", "b"]
    ] * 2


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_batch_that_is_refused_as_a_whole_is_sent_again_singly_so_that_nobody_pays_for_another(status: int) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        refusal = {"status": "X", "errorCode": "INVALID_REQUEST", "message": "no"}
        refused = request.url.path == BATCH or told(request) == ["b"]
        return httpx.Response(status, json=refusal) if refused else answered(request)

    ((first, second),) = ask(answer, "a", "b")

    assert isinstance(first, HeartbeatReply)
    assert isinstance(second, StreamshardError)


def test_a_refused_login_is_everybodys() -> None:
    refusal = {"status": "UNAUTHORIZED", "errorCode": "UNAUTHENTICATED", "message": "who are you?"}

    ((first, second),) = ask(lambda request: httpx.Response(401, json=refusal), "a", "b")

    assert isinstance(first, ListenerRejected)
    assert first is second


@pytest.mark.parametrize("body", [{}, {"replies": []}, {"replies": 5}, [], {"replies": [{}, {}, {}]}])
def test_answers_that_cannot_be_told_apart_count_for_nobody(body: object) -> None:
    ((first, second),) = ask(lambda request: httpx.Response(200, json=body), "a", "b")

    assert isinstance(first, CoordinatorUnreachable)
    assert isinstance(second, CoordinatorUnreachable)


def test_one_garbled_reply_is_the_trouble_of_one() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        good = json.loads(answered(request).content)["replies"]
        return httpx.Response(200, json={"replies": [good[0], {"status": "WHAT"}]})

    ((first, second),) = ask(answer, "a", "b")

    assert isinstance(first, HeartbeatReply)
    assert isinstance(second, CoordinatorUnreachable)


def test_a_large_process_sends_several_batches() -> None:
    sizes: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sizes.append(len(told(request)))
        return answered(request)

    (replies,) = ask(answer, *(f"m{n}" for n in range(250)))

    assert sorted(sizes) == [50, 100, 100]
    assert [each.member for each in replies if isinstance(each, HeartbeatReply)] == [f"m{n}" for n in range(250)]


def test_a_watch_is_held_until_there_is_news() -> None:
    async def scenario() -> None:
        async with running() as service, await made(service) as api:
            routing = await api.routing(ORDERS)
            held = LayoutWatch(ORDERS.prefix, routing.layout_version, routing.lineage)
            nothing = await api.watch(held, NONE)
            waiting = asyncio.create_task(api.watch(held, LONG))
            await asyncio.sleep(0.02)

            await service.coordinator.scale(Scale(ORDERS.prefix, TESTER, 5, ReshardingId("r")))
            news = await waiting

            stream = await service.coordinator.stream(ORDERS.prefix)
            assert (nothing.changed, nothing.layout_version) == (False, routing.layout_version)
            assert (news.changed, news.lineage, news.layout_version) == (True, stream.lineage, stream.layout_version)

    asyncio.run(scenario())


def test_a_watch_of_a_group_names_who_is_concerned() -> None:
    async def scenario() -> None:
        async with running() as service, await made(service) as api:
            await api.heartbeat(ORDERS, join("a & b"))
            first = await api.watch(GroupWatch(ORDERS), LONG)
            named = GroupWatch(ORDERS, first.view, (MemberId("a & b"), MemberId("c")))
            await api.heartbeat(ORDERS, join("c"))

            news = await api.watch(named, LONG)

            assert (news.changed, news.members) == (True, ("a & b",))
            assert news.metadata_version > first.metadata_version
            with pytest.raises(GroupNotFound):
                await api.watch(GroupWatch(attrs.evolve(ORDERS, group="nobody")), LONG)  # type: ignore[arg-type]

    asyncio.run(scenario())


def watch(answer: Answer, *urls: str) -> object:
    async def scenario() -> object:
        async with over(answer, *urls, deadline=50) as api:
            try:
                return await api.watch(LayoutWatch(ORDERS.prefix, LayoutVersion(1), Lineage("a")), LONG)
            except StreamshardError as error:
                return error

    return asyncio.run(scenario())


def test_a_watch_may_take_longer_than_other_calls_and_goes_to_the_next_coordinator_if_one_ends() -> None:
    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.1)
        if request.url.host == "one":
            return httpx.Response(503, json={"status": "X", "errorCode": "COORDINATOR_TERMINATING", "message": "bye"})
        assert dict(request.url.params) == {"layout": "a-1", "waitMs": "20000"}
        return httpx.Response(200, json={"changed": True, "layoutVersion": 2, "metadataVersion": 3, "layout": "a-2"})

    assert watch(answer, "http://one", "http://two") == News(True, Lineage("a"), LayoutVersion(2), 3)


def test_an_older_coordinator_knows_no_watches() -> None:
    refusal = {"status": "NOT_FOUND", "errorCode": "NOT_FOUND", "message": "nothing is served at this path"}

    assert isinstance(watch(lambda request: httpx.Response(404, json=refusal)), NotFound)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"changed": True, "layoutVersion": "2", "metadataVersion": 3},
        {"changed": True, "layoutVersion": 2, "metadataVersion": None},
        {"changed": True, "layoutVersion": 2, "metadataVersion": 3, "layout": "a-9"},
        {"changed": True, "layoutVersion": 2, "metadataVersion": 3, "members": 5},
    ],
)
def test_news_that_cannot_be_used_are_none(body: object) -> None:
    assert isinstance(watch(lambda request: httpx.Response(200, json=body)), CoordinatorUnreachable)
