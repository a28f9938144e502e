"""What is kept of a stream, chosen and changed over HTTP, and what went unread, shown."""

import asyncio

from streamshard.core.ids import GroupName
from tests.integration.http.service import ASKED, GROUP, STREAM, Running, running

MONITORED = GROUP.replace("/coord/v1", "/coord/v1/monitoring")
KEPT = {**ASKED, "initialShardCount": 1, "consumerGroups": ["billing"], "retention": "acknowledged"}
BILLING = GroupName("billing")
ALL = {**ASKED, "retention": "none"}


async def shown(service: Running) -> str:
    return str((await service.http.get(STREAM)).json()["retention"])


def add(service: Running, count: int, max_len: int | None = None) -> None:
    for _ in range(count):
        service.world.add("orders:0", {b"payload": b"x"}, max_len)


def test_a_stream_keeps_everything_unless_it_is_told_otherwise() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(STREAM, json={**ASKED, "initialShardCount": 1})
            listed = (await service.http.get("/coord/v1/streams")).json()["streams"]

            assert (await shown(service), [stream["retention"] for stream in listed]) == ("none", ["none"])

    asyncio.run(scenario())


def test_the_retention_is_chosen_at_the_creation_and_changed_later() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(STREAM, json=KEPT)
            before = await shown(service)
            changed = await service.http.patch(STREAM, json=ALL)

            assert (before, changed.status_code, changed.json()["retention"]) == ("acknowledged", 200, "none")
            assert changed.json() == (await service.http.get(STREAM)).json()

    asyncio.run(scenario())


def test_a_change_that_is_repeated_under_its_key_is_answered_alike() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(STREAM, json=KEPT)
            key = {"Idempotency-Key": "once"}

            first, again = [await service.http.patch(STREAM, json=ALL, headers=key) for _ in range(2)]
            other = await service.http.patch(STREAM, json={**ALL, "retention": "acknowledged"}, headers=key)

        assert (first.status_code, again.status_code, again.json()) == (200, 200, first.json())
        assert (other.status_code, other.json()["errorCode"]) == (422, "IDEMPOTENCY_KEY_REUSED")

    asyncio.run(scenario())


def test_a_bad_change_is_refused_naming_the_field() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(STREAM, json=KEPT)
            answers = [
                await service.http.patch(STREAM, json={**ASKED, "retention": "for-ever"}),
                await service.http.patch(STREAM, json=ASKED),
                await service.http.patch(STREAM, json={"retention": "none", "requestedBy": "ann"}),
                await service.http.post("/coord/v1/streams/new", json={**KEPT, "retention": None}),
                await service.http.patch("/coord/v1/streams/nowhere", json=ALL),
            ]
            kept = await shown(service)

        assert [(answer.status_code, answer.json()["message"].partition(":")[0]) for answer in answers] == [
            (400, "retention"),
            (400, "retention"),
            (400, "reason"),
            (400, "retention"),
            (404, "no stream 'nowhere'"),
        ]
        assert kept == "acknowledged"

    asyncio.run(scenario())


def test_what_is_acknowledged_goes_and_the_group_that_holds_the_rest_is_named() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(STREAM, json=KEPT)
            add(service, 5)
            stream = service.world.streams["orders:0"]
            stream.deliver(BILLING, "c", 5)
            stream.groups[BILLING].pending.clear()

            await service.tick(1)

            (shard,) = (await service.http.get(STREAM)).json()["shards"]
            assert (len(stream.entries), shard["heldBackBy"]) == (1, "billing")

    asyncio.run(scenario())


def test_records_that_a_group_never_got_to_read_are_shown() -> None:
    async def scenario() -> None:
        async with running() as service:
            await service.http.post(STREAM, json={**KEPT, "retention": "none"})
            unknown = (await service.http.get(MONITORED + "/offsets")).json()
            add(service, 9, max_len=4)

            await service.tick(1)

            offsets = (await service.http.get(MONITORED + "/offsets")).json()
            metrics = (await service.http.get("/metrics")).text
        assert (unknown["totalTrimmedUnreadCount"], unknown["shards"][0]["trimmedUnreadCount"]) == (None, None)
        assert (offsets["totalTrimmedUnreadCount"], offsets["trimmedUnreadEstimated"]) == (5, False)
        assert 'streamshard_records_trimmed_unread_total{group="billing",stream="orders"} 5.0' in metrics

    asyncio.run(scenario())
