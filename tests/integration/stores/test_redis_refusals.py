"""What the store in Redis does not put up with: servers that would forget, damage, and URLs that are none."""

import asyncio

import pytest

from streamshard.adapters.stores.redis import RedisStore
from streamshard.core.ports import RowWrite, Transaction
from streamshard.errors import (
    ConfigurationError,
    MetadataCorrupt,
    StoreUnavailable,
)
from streamshard.testing.samples import (
    BILLING,
    CREATE,
    CREATE_STREAM,
    KEY,
    ORDERS,
    a_group,
    a_row,
    a_stream,
    put,
    source_of,
    state,
)
from tests.integration.stores.redis_rig import RECORD, ROWS, Server, server, store_at, write_over
from tests.servers import Servers


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
def test_a_server_that_may_evict_is_refused(valkey: Server, policy: str) -> None:
    valkey.ask("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", policy)

    with pytest.raises(ConfigurationError, match=f"{policy}.*set maxmemory-policy noeviction"):
        asyncio.run(RedisStore.open(valkey.url))


@pytest.mark.parametrize(("limit", "policy"), [("0", "allkeys-lru"), ("100mb", "noeviction")])
def test_a_server_that_never_evicts_is_taken(redis: Server, limit: str, policy: str) -> None:
    redis.ask("CONFIG", "SET", "maxmemory", limit, "maxmemory-policy", policy)

    async def scenario() -> tuple[str, ...]:
        async with store_at(redis.url) as store:
            return await store.prefixes()

    assert asyncio.run(scenario()) == ()


def test_a_server_that_may_evict_after_a_reconnect_is_not_used(valkey: Server) -> None:
    async def scenario() -> None:
        async with store_at(valkey.url) as store:
            valkey.ask("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
            valkey.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await asyncio.gather(store.load_stream(ORDERS), return_exceptions=True)
            with pytest.raises(StoreUnavailable, match="noeviction"):
                await store.load_stream(ORDERS)

    asyncio.run(scenario())


def test_a_server_without_a_log_on_disk_is_warned_about(valkey: Server, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with store_at(valkey.url):
            valkey.ask("CONFIG", "SET", "appendonly", "yes")
        async with store_at(valkey.url):
            pass

    asyncio.run(scenario())

    assert [record.message.split("has ")[1] for record in caplog.records] == [
        "no append-only file: a crash loses commits (set appendonly yes)"
    ]


@pytest.mark.parametrize("key", [RECORD, ROWS])
def test_metadata_that_would_expire_is_not_trusted(redis: Server, key: str) -> None:
    async def scenario() -> tuple[object, object, object]:
        async with store_at(redis.url) as store:
            await put(store, CREATE, row=a_row())
            redis.ask("PEXPIRE", key, 1_000_000)
            with pytest.raises(MetadataCorrupt, match="PERSIST"):
                await store.load_group(KEY)
            redis.ask("PERSIST", key)
            return await state(store)

    assert asyncio.run(scenario()) == (None, a_group(), {a_row().instance: a_row()})


def test_nothing_is_written_to_a_record_that_would_expire(redis: Server) -> None:
    async def scenario() -> tuple[object, object, object]:
        async with store_at(redis.url) as store:
            await put(store, CREATE)
            source = await source_of(store)
            redis.ask("PEXPIRE", RECORD, 1_000_000)
            with pytest.raises(MetadataCorrupt, match="PERSIST"):
                await write_over(store, source)
            redis.ask("PERSIST", RECORD)
            return await state(store)

    assert asyncio.run(scenario()) == (None, a_group(), {})


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (("HSET", RECORD, "b", "?"), "disagree"),
        (("HSET", RECORD, "v", "2 lineage nonce-2"), "disagree"),
        (("HSET", RECORD, "k", "dead"), "disagree"),
        (("HSET", RECORD, "k", "?"), "disagree"),
        (("HDEL", RECORD, "b"), "disagree"),
        (("HDEL", RECORD, "v"), "disagree"),
        (("HSET", RECORD, "v", "1 other other", "b", "?"), "does not begin like a record"),
        (("HSET", ROWS, a_row().instance, "9 other {}"), "does not begin like a record"),
        (("HSET", ROWS, a_row().instance, "?"), "does not begin like a record"),
        (("SET", RECORD, "?"), "no hash"),
        (("SET", ROWS, "?"), "no hash"),
    ],
)
def test_a_damaged_record_is_told_and_hurts_no_other(servers: Servers, damage: tuple[str, ...], why: str) -> None:
    with server(servers.binary("valkey")) as redis:

        async def scenario() -> object:
            async with store_at(redis.url) as store:
                await put(store, CREATE_STREAM, CREATE, row=a_row())
                await store.load_group(KEY)
                redis.ask(*damage)
                with pytest.raises(MetadataCorrupt, match=why):
                    await store.load_group(KEY)
                return (await store.load_stream(ORDERS)).record

        assert asyncio.run(scenario()) == a_stream()


@pytest.mark.parametrize("damage", [("HSET", RECORD, "b", "?"), ("SET", RECORD, "?"), ("SET", ROWS, "?")])
def test_nothing_is_created_over_what_is_no_record(redis: Server, damage: tuple[str, ...]) -> None:
    async def scenario() -> tuple[object, object, object]:
        async with store_at(redis.url) as store:
            await put(store, CREATE_STREAM)
            redis.ask(*damage)
            order = Transaction(ORDERS, await source_of(store), groups=(CREATE,), row=RowWrite(BILLING, a_row(), True))
            with pytest.raises(MetadataCorrupt, match="no hash|no record of this version"):
                await store.commit(order)
            redis.ask("DEL", damage[1])
            return await state(store)

    assert asyncio.run(scenario()) == (a_stream(), None, {})


def test_an_account_without_the_permission_is_told_what_to_allow(redis: Server) -> None:
    redis.ask("ACL", "SETUSER", "poor", "on", ">secret", "+@all", "-info", "~*")
    url = redis.url.replace("redis://", "redis://poor:secret@")

    with pytest.raises(ConfigurationError, match="allow it INFO") as refused:
        asyncio.run(RedisStore.open(url))

    assert "secret" not in refused.value.message


def test_a_wrong_password_is_told_without_saying_it(redis: Server) -> None:
    url = redis.url.replace("redis://", "redis://somebody:secret@")

    with pytest.raises(StoreUnavailable, match="AUTH") as refused:
        asyncio.run(RedisStore.open(url))

    assert "secret" not in refused.value.message


def test_a_single_server_is_no_cluster(valkey: Server) -> None:
    with pytest.raises((ConfigurationError, StoreUnavailable), match="no node of a cluster|cluster support disabled"):
        asyncio.run(RedisStore.open(valkey.url.replace("redis://", "redis+cluster://")))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://:secret@host", "begins with none of"),
        ("redis+sentinel://host", "the master's name is missing"),
        ("redis://", "a host is missing"),
        ("redis://:secret@host:port", "port: must be a whole number"),
        ("redis://one:1,two:2", "only a cluster"),
        ("redis+cluster://one:1,", "a host is missing"),
        ("redis+cluster://:secret@one:1/3", "no databases but 0"),
    ],
)
def test_a_url_that_is_none_is_refused_without_its_password(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        asyncio.run(RedisStore.open(url))

    assert "secret" not in refused.value.message
