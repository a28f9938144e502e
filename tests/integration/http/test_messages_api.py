"""Records of a shard over HTTP: page by page, octet by octet."""

import asyncio
import base64

import pytest

from tests.integration.http.service import running
from tests.integration.http.stage import MONITORED, get, owning, publish


def test_records_are_paged_from_either_end_and_nobodys_position_moves() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            ids = await publish(service, 0, b"a", b"b", b"c")
            path = MONITORED + "/shards/0/messages"

            newest = await get(service, path, limit=2)
            rest = await get(service, path, limit=2, cursor=newest["nextCursor"])
            oldest = await get(service, path, direction="FORWARD", limit=1)
            offsets = await get(service, MONITORED + "/offsets")

        assert [r["recordId"] for r in newest["records"] + rest["records"]] == [ids[2], ids[1], ids[0]]
        assert (rest["nextCursor"], oldest["nextCursor"]) == (None, ids[0])
        assert {**oldest, "records": 0} == {
            "streamPrefix": "orders",
            "consumerGroup": "billing",
            "shard": {"shardIndex": 0},
            "streamKey": "orders:0",
            "direction": "FORWARD",
            "limit": 1,
            "records": 0,
            "nextCursor": ids[0],
        }
        assert oldest["records"] == [
            {
                "recordId": "1700000000001-0",
                "fields": {"payload": "a"},
                "fieldsBase64": None,
                "payload": "a",
                "recordTime": "2023-11-14T22:13:20.001Z",
                "recordTimestampMs": 1_700_000_000_001,
            }
        ]
        assert (offsets["totalPendingCount"], offsets["totalLag"]) == (0, 3)

    asyncio.run(scenario())


def test_what_is_no_text_is_shown_octet_by_octet() -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            service.world.add("orders:0", {b"\xff": b"\x00", b"payload": b"ok"})
            (record,) = (await get(service, MONITORED + "/shards/0/messages"))["records"]

        octets = [(base64.b64decode(f["name"]), base64.b64decode(f["value"])) for f in record["fieldsBase64"]]
        assert octets == [(b"\xff", b"\x00"), (b"payload", b"ok")]
        assert (record["fields"], record["payload"]) == ({"payload": "ok"}, "ok")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=1e3", "limit"),
        ("limit=", "limit"),
        ("limit=%D9%A1", "limit"),
        ("direction=forward", "direction"),
        ("direction=", "direction"),
        ("cursor=x", "cursor"),
        ("cursor=5", "cursor"),
        ("cursor=99999999999999999999-0", "cursor"),
        ("cursor=%ff", "query"),
    ],
)
def test_a_page_that_can_not_be_is_refused(query: str, field: str) -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            answer = await service.http.get(f"{MONITORED}/shards/0/messages?{query}")

        assert (answer.status_code, answer.json()["message"].partition(":")[0]) == (400, field)

    asyncio.run(scenario())


@pytest.mark.parametrize(("shard", "status"), [("2", 404), ("x", 400), ("-1", 400), ("16384", 400), ("", 400)])
def test_a_shard_that_can_not_be_is_400_and_one_that_is_not_404(shard: str, status: int) -> None:
    async def scenario() -> None:
        async with running() as service:
            await owning(service)
            answer = await service.http.get(f"{MONITORED}/shards/{shard}/messages")

        assert answer.status_code == status

    asyncio.run(scenario())
