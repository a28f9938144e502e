"""The coordinator over HTTP: against the real server's routes and bodies, and against broken ones."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine

import attrs
import httpx
import pytest

from streamshard import ConfigurationError, CoordinatorUnreachable, HttpCoordinator, InvalidRequest
from streamshard.adapters.client.wire import error_of, heartbeat_body, reply_of, routing_of
from streamshard.core.admin import Author, CreateStream, GroupSpec
from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.group import ShardProgress
from streamshard.core.ids import Epoch, InstanceId, MemberId, Millis, RecordId, Seq, ShardIndex, Token, View, WallMillis
from streamshard.core.replies import Extension, Grant, HeartbeatReply, RetryReason, Status
from streamshard.entrypoints.http.heartbeats import decode_heartbeat, encode_reply
from streamshard.entrypoints.http.replies import routing_body, routing_tag
from streamshard.errors import (
    Conflict,
    GroupNotFound,
    StateConflict,
    StoreUnavailable,
    StreamNotFound,
    StreamshardError,
    Unauthenticated,
)
from tests.integration.client.script import FIRST_GENERATION, ORDERS, reply, routing
from tests.integration.http.service import running

Answer = Callable[[httpx.Request], httpx.Response] | Callable[[httpx.Request], Coroutine[None, None, httpx.Response]]

BEAT = Heartbeat(
    member=MemberId("10.0.0.7-m0"),
    intent=Intent.STAY,
    epoch=Epoch(4),
    instance=InstanceId("0f" * 16),
    seq=Seq(9),
    holds=(Hold(ShardIndex(1), Token(77)), Hold(ShardIndex(2), Token(2**53 - 1), draining=True)),
    view=View("v.abc"),
    metadata_version=12,
    member_name="billing",
    request_id="r-9",
    max_concurrency=8,
    available=7,
    owned=(ShardIndex(1),),
    revoking=(ShardIndex(2),),
    progress=(ShardProgress(ShardIndex(1), RecordId("5-1"), RecordId("5-0"), RecordId("5-0"), 1, 1, "READING"),),
    advertised_url="http://10.0.0.7",
    client_version="0.1.0",
)
FULL = HeartbeatReply(
    status=Status.RETRY,
    member=BEAT.member,
    epoch=Epoch(4),
    seq=Seq(9),
    heartbeat_ms=Millis(3_000),
    rebalance_timeout_ms=Millis(60_000),
    lease_ms=Millis(15_000),
    response_to="r-9",
    group_epoch=Epoch(6),
    assignment_epoch=Epoch(5),
    metadata_version=13,
    assigned=(ShardIndex(1),),
    pending=(ShardIndex(3),),
    grants=(Grant(ShardIndex(1), Token(77), FIRST_GENERATION),),
    extended=(Extension(ShardIndex(2), Token(2**53 - 1)),),
    view=View("v.def"),
    retry_after_ms=Millis(250),
    retry_reason=RetryReason.CONFLICT,
    message="again",
)


def over(answer: Answer, *urls: str, deadline: int = 5_000) -> HttpCoordinator:
    transport = httpx.MockTransport(answer)
    return HttpCoordinator(urls or ["http://one"], deadline=Millis(deadline), token="secret", transport=transport)


def ask_routing(answer: Answer, *urls: str, deadline: int = 5_000) -> object:
    """The routing, or the error that came instead."""

    async def scenario() -> object:
        async with over(answer, *urls, deadline=deadline) as api:
            try:
                return await api.routing(ORDERS)
            except StreamshardError as error:
                return error

    return asyncio.run(scenario())


def four(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=routing_body(routing(4)), headers={"ETag": routing_tag(routing(4))})


class TestWire:
    @pytest.mark.parametrize(("intent", "epoch"), [(Intent.STAY, 4), (Intent.JOIN, 0), (Intent.LEAVE, -1)])
    def test_the_server_reads_what_the_client_writes(self, intent: Intent, epoch: int) -> None:
        sent = attrs.evolve(BEAT, intent=intent, epoch=Epoch(epoch))

        body = json.dumps(heartbeat_body(ORDERS, sent, WallMillis(0))).encode()

        assert decode_heartbeat(body).command(sent.member) == sent

    @pytest.mark.parametrize("answer", [FULL, reply()])
    def test_the_client_reads_what_the_server_writes(self, answer: HeartbeatReply) -> None:
        assert reply_of(json.loads(encode_reply(answer))) == answer

    def test_a_routing_survives_the_wire(self) -> None:
        body = json.loads(routing_body(routing(3)))

        assert routing_of(ORDERS, body, "") == routing(3)

    def test_without_a_lineage_in_the_body_the_entity_tag_tells_it(self) -> None:
        body = {**json.loads(routing_body(routing(3))), "lineage": None}

        assert routing_of(ORDERS, body, 'W/"a-1"') == routing(3)
        with pytest.raises(CoordinatorUnreachable, match="does not end in the layout version"):
            routing_of(ORDERS, body, '"something"')

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"status": "SURE"}, "SURE"),
            ({"seq": None}, "None is no whole number"),
            ({"leaseMs": True}, "True is no whole number"),
            ({"grants": [{"shardIndex": 1}]}, "'token' is missing"),
            ({"assignment": [1]}, "attribute"),
            ({"leaseMs": -5}, "-5 is not from 0 to 31622400000"),
            ({"heartbeatIntervalMs": 10**400}, r"1000.*characters\)$"),
            ({"extended": [{"shardIndex": 10**9, "token": 1}]}, "1000000000 is not from 0 to 16383"),
            ({"grants": [{"shardIndex": 1, "token": 2**53, "generation": 1}]}, "9007199254740992 is not from 0"),
            ({"memberId": 7}, "7 is no text"),
            ({"status": "\x1b[31m" * 10_000}, r"\\x1b\[31m.* \(\d+ characters\)$"),
        ],
    )
    def test_an_answer_that_can_t_be_used_is_no_answer(self, change: dict[str, object], why: str) -> None:
        with pytest.raises(CoordinatorUnreachable, match=why):
            reply_of({**json.loads(encode_reply(FULL)), **change})

    def test_a_routing_of_absurdly_many_shards_is_refused_at_once(self) -> None:
        body = {**json.loads(routing_body(routing(3))), "shardCount": 10**9}

        with pytest.raises(CoordinatorUnreachable, match="1000000000 is not from 0 to 16384"):
            routing_of(ORDERS, body, "")

    def test_a_routing_that_lists_other_shards_than_it_counts_is_refused(self) -> None:
        body = {**json.loads(routing_body(routing(3))), "shardCount": 4}

        with pytest.raises(CoordinatorUnreachable, match="lists 3 shards that are not the 4"):
            routing_of(ORDERS, body, "")

    @pytest.mark.parametrize(
        ("code", "kind"),
        [
            ("GROUP_NOT_FOUND", GroupNotFound),
            ("STREAM_NOT_FOUND", StreamNotFound),
            ("STATE_VERSION_CONFLICT", StateConflict),
            ("METADATA_STORE_UNAVAILABLE", StoreUnavailable),
            ("UNAUTHENTICATED", Unauthenticated),
            ("SOMETHING_NEW", StreamshardError),
        ],
    )
    def test_errors_become_their_classes(self, code: str, kind: type[StreamshardError]) -> None:
        error = error_of(409, {"errorCode": code, "message": "so it is", "details": {"a": 1}})

        assert (type(error), str(error), error and error.details) == (kind, "so it is", {"a": 1})
        assert issubclass(StateConflict, Conflict)

    def test_a_body_of_another_shape_is_no_error_of_ours(self) -> None:
        assert error_of(502, "<html>") is None
        assert error_of(502, {"detail": "no"}) is None


class TestCalls:
    def test_a_real_application_answers(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                groups = (GroupSpec(ORDERS.group),)
                await service.coordinator.create_stream(CreateStream(ORDERS.prefix, Author("me"), 2, groups=groups))
                transport = httpx.ASGITransport(app=service.app)
                async with HttpCoordinator("http://test/", transport=transport) as api:
                    found = await api.routing(ORDERS)
                    assert found == await service.coordinator.routing(ORDERS)
                    joined = await api.heartbeat(
                        ORDERS, Heartbeat(BEAT.member, Intent.JOIN, Epoch(0), BEAT.instance, Seq(1))
                    )
                    assert (joined.status, joined.seq, joined.epoch > 0) == (Status.OK, 1, True)
                    assert joined.assigned == (0, 1)

        asyncio.run(scenario())

    def test_names_and_the_token_are_carried_safely(self) -> None:
        seen: list[tuple[bytes, str]] = []

        def answer(request: httpx.Request) -> httpx.Response:
            seen.append((request.url.raw_path, request.headers["Authorization"]))
            return httpx.Response(200, content=encode_reply(FULL))

        async def scenario() -> HeartbeatReply:
            async with over(answer) as api:
                return await api.heartbeat(ORDERS, attrs.evolve(BEAT, member=MemberId("a b?c#d%")))

        assert asyncio.run(scenario()) == FULL
        path = b"/coord/v1/streams/orders/groups/billing/members/a%20b%3Fc%23d%25/heartbeat"
        assert seen == [(path, "Bearer secret")]

    def test_the_next_url_is_asked_when_one_refuses_or_is_unavailable_and_then_first(self) -> None:
        asked: list[str] = []

        def answer(request: httpx.Request) -> httpx.Response:
            asked.append(request.url.host)
            if request.url.host == "one":
                raise httpx.ConnectError("refused")
            return httpx.Response(503) if request.url.host == "two" else four(request)

        async def scenario() -> None:
            async with over(answer, "http://one", "http://two", "http://three") as api:
                assert await api.routing(ORDERS) == routing(4)
                assert await api.routing(ORDERS) == routing(4)

        asyncio.run(scenario())
        assert asked == ["one", "two", "three", "three"]

    def test_a_url_that_hangs_does_not_eat_the_time_of_the_others(self) -> None:
        async def answer(request: httpx.Request) -> httpx.Response:
            if request.url.host == "one":
                await asyncio.Event().wait()
            return four(request)

        assert ask_routing(answer, "http://one", "http://two", deadline=200) == routing(4)

    def test_the_deadline_is_total(self) -> None:
        async def drip(request: httpx.Request) -> httpx.Response:
            await asyncio.Event().wait()
            return four(request)

        error = ask_routing(drip, deadline=50)

        assert isinstance(error, CoordinatorUnreachable)
        assert str(error) == "no coordinator answered: http://one: no answer in time"

    def test_nobody_answering_says_why_for_each(self) -> None:
        body = {"errorCode": "COORDINATOR_TERMINATING", "message": "shutting down"}

        error = ask_routing(lambda request: httpx.Response(503, json=body), "http://one", "http://two")

        assert isinstance(error, CoordinatorUnreachable)
        assert str(error) == ("no coordinator answered: http://one: 503 shutting down; http://two: 503 shutting down")

    def test_redirects_are_not_followed(self) -> None:
        error = ask_routing(lambda request: httpx.Response(307, headers={"Location": "http://elsewhere"}))

        assert isinstance(error, CoordinatorUnreachable)
        told = "answered 307, a redirect to http://elsewhere, which is not followed: mend the base URL"
        assert str(error) == f"no coordinator answered: http://one: {told}"

    def test_a_missing_group_is_told_from_a_missing_answer(self) -> None:
        body = {"errorCode": "GROUP_NOT_FOUND", "message": "no such group"}

        error = ask_routing(lambda request: httpx.Response(404, json=body))

        assert isinstance(error, GroupNotFound)

    def test_a_request_that_can_t_be_understood_is_not_repeated(self) -> None:
        body = {"errorCode": "INVALID_REQUEST", "message": "memberName: is missing"}

        error = ask_routing(lambda request: httpx.Response(400, json=body), "http://one", "http://two")

        assert isinstance(error, InvalidRequest)

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"<html>", "something that is no JSON (text/html): is a coordinator behind this URL?"),
            (b"\xff", "something that is no JSON (text/html): is a coordinator behind this URL?"),
            (b'{"shardCount": 4', "something that is no JSON (text/html): is a coordinator behind this URL?"),
            (b"[" * 200_000, "something that is no JSON (text/html): is a coordinator behind this URL?"),
            (b"[]", "JSON that no coordinator sends: is a coordinator behind this URL?"),
        ],
    )
    def test_garbage_is_no_answer_and_the_next_url_is_asked(self, content: bytes, why: str) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            if request.url.host == "two":
                return four(request)
            return httpx.Response(200, content=content, headers={"Content-Type": "text/html"})

        error = ask_routing(answer)

        assert isinstance(error, CoordinatorUnreachable)
        assert str(error) == f"no coordinator answered: http://one: answered 200 with {why}"
        assert ask_routing(answer, "http://one", "http://two") == routing(4)

    def test_an_object_of_another_kind_is_no_answer(self) -> None:
        error = ask_routing(lambda request: httpx.Response(200, json={"status": "UP"}))

        assert isinstance(error, CoordinatorUnreachable)
        assert str(error) == f"the routing of {ORDERS} can't be used: 'layoutVersion' is missing"

    def test_an_answer_without_end_is_given_up(self) -> None:
        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield b" " * 1_000_000

        error = ask_routing(lambda request: httpx.Response(200, content=endless()), deadline=30_000)

        assert isinstance(error, CoordinatorUnreachable)
        told = "an answer of more than 16000000 bytes: is a coordinator behind this URL?"
        assert str(error) == f"no coordinator answered: http://one: {told}"

    def test_the_options_are_checked(self) -> None:
        with pytest.raises(ConfigurationError, match=r"url: 'localhost:8080' must begin with http://"):
            HttpCoordinator("localhost:8080")
        with pytest.raises(ConfigurationError, match=r"url: 'http://\[::1' can't be read: write it like http://127"):
            HttpCoordinator("http://[::1")
        with pytest.raises(ConfigurationError, match=r"url: 'http://' can't be read: write it like http://127"):
            HttpCoordinator(["http://one", "http://"])
        with pytest.raises(ConfigurationError, match=r"url: needs at least one base URL"):
            HttpCoordinator([])
        with pytest.raises(ConfigurationError, match=r"deadline: must be at least 1 ms, not 0"):
            HttpCoordinator("http://one", deadline=Millis(0))
