"""What applications hand in by mistake, or at the edge of what is possible."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from streamshard import ConfigurationError, InvalidRequest, Message, StreamApp, StreamNotFound
from tests.integration.client.rig import Rig, redis_rig
from tests.integration.client.script import until

MEGABYTE = 1_000_000


def test_large_wide_and_binary_records_arrive_as_they_were(redis_url: str) -> None:
    records: dict[bytes | str | None, dict[bytes, bytes]] = {
        "large": {b"body": b"\r\n\x00" * (MEGABYTE // 3)},
        "wide": {str(n).encode(): b"v" for n in range(10_000)},
        b"\xff\x00\r\n": {b"\xff\xfe": b"\x00", b"": b""},
        "": {b"of the empty key": b"1"},
        None: {b"of no key": b"1"},
    }
    seen: list[dict[bytes, bytes]] = []

    async def scenario(rig: Rig) -> None:
        app = StreamApp(rig.coordinator, rig.log)
        orders = app.producer("orders", "billing")

        @app.listener("orders", group="billing")
        async def handle(message: Message) -> None:
            seen.append(dict(message.fields))
            await message.ack()

        async with app:
            for key, fields in records.items():
                await orders.publish(key, fields)
            await until(lambda: len(seen) == len(records))

    play(redis_url, scenario)
    assert sorted(seen, key=repr) == sorted(records.values(), key=repr)


@pytest.mark.parametrize(
    ("key", "fields", "kind", "why"),
    [
        (7, {"a": 1}, TypeError, "key"),
        ("a", {}, InvalidRequest, "needs at least one field"),
        ("a", {"a": None}, TypeError, "must be str, bytes, int or float, not NoneType"),
        ("a", {"a": True}, TypeError, "not bool"),
        ("a", {"a": [1]}, TypeError, "not list"),
        ("a", {"a": {"b": 1}}, TypeError, "not dict"),
        ("a", {1: "a"}, TypeError, "the name must be str or bytes, not int"),
        ("a", [("a", 1)], TypeError, "must be a mapping"),
        ("a", {"a": "\ud800"}, InvalidRequest, "lone surrogate"),
        ("a", {"a": 1, b"a": 2}, InvalidRequest, "two names are the same bytes"),
        ("a", {"a": bytes(257 * 1024 * 1024)}, InvalidRequest, "store a reference instead"),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value)[:20],
)
def test_what_can_t_be_a_record_is_refused_before_anything_is_sent(
    redis_url: str, key: Any, fields: Any, kind: type[Exception], why: str
) -> None:
    async def scenario(rig: Rig) -> None:
        app = StreamApp(rig.coordinator, rig.log)
        orders = app.producer("orders", "billing")
        async with app:
            with pytest.raises(kind, match=why):
                await orders.publish(key, fields)
            with pytest.raises(kind, match=why):
                await orders.publish_many([("fine", {"a": 1}), (key, fields)])
            with pytest.raises(TypeError, match="records: each must be a pair of a key and fields"):
                await orders.publish_many([("fine", {"a": 1}), ("a",)])  # type: ignore[list-item]  # what it is about
            await orders.publish("fine", {"n": 1})
        async with Redis.from_url(redis_url) as redis:
            assert sum([await redis.xlen(f"orders:{shard}") for shard in range(4)]) == 1

    play(redis_url, scenario)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"failure": "retry"}, "failure: must be 'leave_pending' or 'xnack', not 'retry'"),
        ({"ack_mode": "none"}, "ack_mode: must be 'auto' or 'xack' or 'xackdel', not 'none'"),
        ({"max_deliveries": 0}, "max_deliveries: must be a whole number from 2 to 100000, not 0"),
        ({"redeliver_after": -1}, "redeliver_after: must be a number of seconds from 0.05 to 86400, not -1"),
        ({"page": 0}, "page: must be a whole number from 1 to 10000, not 0"),
        ({"sweep_every": float("nan")}, "sweep_every: must be a number of seconds from 0.05 to 86400, not nan"),
        ({"concurrency": None}, "concurrency: must be a whole number from 1 to 1000, not None"),
    ],
)
def test_options_of_a_listener_are_named_with_what_they_may_be(
    redis_url: str, options: dict[str, Any], why: str
) -> None:
    async def scenario(rig: Rig) -> None:
        app = StreamApp(rig.coordinator, rig.log)

        async def handle(message: Message) -> None:
            raise AssertionError("nothing was started")

        with pytest.raises(ConfigurationError, match=why):
            app.listener("orders", group="billing", **options)(handle)

    play(redis_url, scenario)


def test_a_stream_that_nobody_created_is_named_with_the_remedy(redis_url: str) -> None:
    async def scenario(rig: Rig) -> None:
        app = StreamApp(rig.coordinator, rig.log)
        invoices = app.producer("invoices", "billing")

        @app.listener("invoices", group="billing")
        async def handle(message: Message) -> None:
            raise AssertionError("nothing was started")

        with pytest.raises(StreamNotFound, match="no stream 'invoices': create it first"):
            await app.start()
        with pytest.raises(StreamNotFound, match="no stream 'invoices': create it first"):
            await invoices.publish("a", {"a": 1})

    play(redis_url, scenario)


def play(url: str, scenario: Any) -> None:
    async def main() -> None:
        async with redis_rig(url, 4) as rig:
            await scenario(rig)

    asyncio.run(main())
