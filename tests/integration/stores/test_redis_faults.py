"""What a server does to the store in Redis: refusals, restarts, lost answers, damage, and being the wrong one."""

import asyncio

import pytest

from streamshard.adapters.stores.redis import RedisStore
from streamshard.core.ids import Millis
from streamshard.core.ports import StoreSource
from streamshard.errors import (
    CommitUncertain,
    SourceChanged,
    StoreUnavailable,
)
from streamshard.testing.samples import (
    CREATE,
    CREATE_STREAM,
    KEY,
    SECOND,
    a_group,
    a_row,
    put,
    source_of,
    state,
)
from tests.integration.stores.redis_rig import Server, server, silent_proxy, store_at, write_over
from tests.servers import Servers


@pytest.mark.parametrize(
    ("trouble", "remedy", "word"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "OOM"),
        (
            ("CONFIG", "SET", "min-replicas-to-write", "1"),
            ("CONFIG", "SET", "min-replicas-to-write", "0"),
            "NOREPLICAS|Not enough good replicas",
        ),
        (
            ("ACL", "SETUSER", "default", "-hset"),
            ("ACL", "SETUSER", "default", "+hset"),
            "NOPERM|can't run this command|permissions",
        ),
    ],
)
def test_a_server_that_refuses_writes_has_changed_nothing(
    redis: Server, trouble: tuple[str, ...], remedy: tuple[str, ...], word: str
) -> None:
    async def scenario() -> list[tuple[object, object, object]]:
        async with store_at(redis.url) as store:
            await put(store, CREATE, row=a_row())
            source = await source_of(store)
            redis.ask(*trouble)
            with pytest.raises(StoreUnavailable, match=word):
                await write_over(store, source)
            redis.ask(*remedy)
            refused = await state(store)
            await write_over(store, source)
            return [refused, await state(store)]

    one = a_row().instance
    assert asyncio.run(scenario()) == [
        (None, a_group(), {one: a_row()}),
        (None, a_group(SECOND), {one: a_row(2)}),
    ]


def test_a_demoted_server_is_neither_read_nor_written(redis: Server, servers: Servers) -> None:
    with server(servers.binary("valkey")) as other:

        async def scenario() -> None:
            async with store_at(redis.url) as store:
                await put(store, CREATE)
                source = await source_of(store)
                redis.ask("REPLICAOF", "127.0.0.1", other.port)
                with pytest.raises(StoreUnavailable, match="READONLY"):
                    await write_over(store, source)
                with pytest.raises(StoreUnavailable, match="is a replica: the metadata store has to be a primary"):
                    await write_over(store, source)
                for _ in range(2):
                    with pytest.raises(StoreUnavailable, match="replica"):
                        await store.load_group(KEY)

        asyncio.run(scenario())


def test_a_demoted_server_is_not_read_even_if_nobody_writes(redis: Server, servers: Servers) -> None:
    with server(servers.binary("valkey")) as other:

        async def scenario() -> None:
            async with store_at(redis.url) as store:
                await put(store, CREATE)
                redis.ask("REPLICAOF", "127.0.0.1", other.port)
                with pytest.raises(StoreUnavailable, match="replica"):
                    await store.load_group(KEY)

        asyncio.run(scenario())


def test_a_replica_is_refused_at_the_start(redis: Server, servers: Servers) -> None:
    with server(servers.binary("valkey")) as other:
        redis.ask("REPLICAOF", "127.0.0.1", other.port)

        with pytest.raises(StoreUnavailable, match="replica"):
            asyncio.run(RedisStore.open(redis.url))


def test_a_server_that_was_a_replica_in_between_is_another_store(redis: Server) -> None:
    """Its connection lived through it: only the server can tell."""

    async def scenario() -> tuple[StoreSource, StoreSource]:
        async with store_at(redis.url) as store:
            await put(store, CREATE)
            before = await source_of(store)
            redis.ask("REPLICAOF", "127.0.0.1", 1)
            redis.ask("REPLICAOF", "NO", "ONE")
            after = (await store.load_group(KEY)).source
            with pytest.raises(SourceChanged):
                await write_over(store, before)
            return before, after

    before, after = asyncio.run(scenario())

    assert after.identity != before.identity
    assert after.connection > before.connection


def test_a_restart_that_kept_everything_is_still_another_store(servers: Servers) -> None:
    with server(servers.binary("valkey"), "--appendonly", "yes", "--appendfsync", "always") as redis:

        async def scenario() -> tuple[StoreSource, StoreSource, object]:
            async with store_at(redis.url) as store:
                await put(store, CREATE_STREAM, CREATE)
                before = await source_of(store)
                await asyncio.to_thread(redis.restart)
                with pytest.raises((SourceChanged, StoreUnavailable)):
                    await write_over(store, before)
                found = await store.load_group(KEY)
                with pytest.raises(SourceChanged):
                    await write_over(store, before)
                return before, found.source, found.record

        before, after, record = asyncio.run(scenario())

        assert after.identity != before.identity
        assert record == a_group()


def test_a_killed_connection_is_a_new_one_to_the_same_store(redis: Server) -> None:
    async def scenario() -> tuple[StoreSource, StoreSource, object]:
        async with store_at(redis.url) as store:
            await put(store, CREATE)
            before = await source_of(store)
            redis.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            with pytest.raises((SourceChanged, CommitUncertain)):
                await write_over(store, before)
            with pytest.raises(SourceChanged):
                await write_over(store, before)
            found = await store.load_group(KEY)
            return before, found.source, found.record

    before, after, record = asyncio.run(scenario())

    assert (after.identity, record) == (before.identity, a_group())
    assert after.connection > before.connection


def test_a_lost_answer_is_an_unknown_outcome_for_commits_alone(valkey: Server) -> None:
    async def scenario() -> list[object]:
        async with silent_proxy(valkey.port) as proxy, store_at(proxy.url, Millis(300)) as store:
            await put(store, CREATE)
            source = await source_of(store)
            proxy.deaf = True
            with pytest.raises(StoreUnavailable, match="no answer in time"):
                await store.load_group(KEY)
            proxy.deaf = False
            source = await source_of(store)
            proxy.deaf = True
            with pytest.raises(CommitUncertain):
                await write_over(store, source)
            proxy.deaf = False
            return [(await store.load_group(KEY)).record]

    assert asyncio.run(scenario()) == [a_group(SECOND)]


def test_a_server_that_answers_nothing_is_not_tried_again_for_as_long_as_that_took(valkey: Server) -> None:
    async def scenario() -> int:
        async with silent_proxy(valkey.port) as proxy, store_at(proxy.url, Millis(500)) as store:
            proxy.deaf = True
            before = proxy.clients
            for _ in range(4):  # the first one loses its answer, the second one finds out that nobody is there
                with pytest.raises(StoreUnavailable, match="no answer in time"):
                    await store.load_group(KEY)
            return proxy.clients - before

    assert asyncio.run(scenario()) == 1


def test_a_connection_cut_between_commit_and_answer_is_an_unknown_outcome(valkey: Server) -> None:
    async def scenario() -> list[object]:
        async with silent_proxy(valkey.port) as proxy, store_at(proxy.url) as store:
            await put(store, CREATE)
            source = await source_of(store)
            proxy.deaf = True
            commits = [asyncio.create_task(write_over(store, source)) for _ in range(3)]
            await proxy.asked.wait()
            proxy.deaf = False
            proxy.cut()
            outcomes = await asyncio.gather(*commits, return_exceptions=True)
            return [*(type(outcome) for outcome in outcomes), (await store.load_group(KEY)).record]

    assert asyncio.run(scenario()) == [CommitUncertain] * 3 + [a_group(SECOND)]


def test_closing_in_the_middle_leaves_nobody_waiting(valkey: Server) -> None:
    async def scenario() -> list[type[object]]:
        async with silent_proxy(valkey.port) as proxy, store_at(proxy.url) as store:
            await put(store, CREATE)
            source = await source_of(store)
            proxy.deaf = True
            waiting = [asyncio.create_task(write_over(store, source)), asyncio.create_task(store.prefixes())]
            await proxy.asked.wait()
            await store.close()
            return [type(outcome) for outcome in await asyncio.gather(*waiting, return_exceptions=True)]

    assert asyncio.run(scenario()) == [CommitUncertain, StoreUnavailable]


def test_a_commit_that_had_not_left_when_the_store_was_closed_has_changed_nothing(valkey: Server) -> None:
    async def scenario() -> object:
        async with store_at(valkey.url) as store, store_at(valkey.url) as other:
            await put(store, CREATE)
            late = asyncio.create_task(write_over(store, await source_of(store)))
            await asyncio.sleep(0)
            await store.close()
            async with asyncio.timeout(5):
                with pytest.raises(SourceChanged):
                    await late
            return (await other.load_group(KEY)).record

    assert asyncio.run(scenario()) == a_group()


def test_a_server_that_is_gone_is_unavailable_until_it_is_back(servers: Servers) -> None:
    with server(servers.binary("valkey"), "--appendonly", "yes", "--appendfsync", "always") as redis:

        async def scenario() -> object:
            async with store_at(redis.url) as store:
                await put(store, CREATE)
                source = await source_of(store)
                redis.kill()
                await asyncio.sleep(0.05)
                outcomes = await asyncio.gather(
                    *(store.load_group(KEY) for _ in range(20)), write_over(store, source), return_exceptions=True
                )
                assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
                await asyncio.to_thread(redis.restart)
                return (await store.load_group(KEY)).record

        assert asyncio.run(scenario()) == a_group()


def test_a_server_that_is_not_there_is_unavailable(valkey: Server) -> None:
    valkey.kill()

    with pytest.raises(StoreUnavailable, match="can't be reached"):
        asyncio.run(RedisStore.open(valkey.url))


def test_a_server_that_still_reads_its_data_is_unavailable(servers: Servers) -> None:
    slow = ("--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024")
    with server(servers.binary("redis-bundled"), *slow) as redis:
        for number in range(100):
            redis.ask("SET", f"key-{number}", "x" * 4_096)
        redis.ask("SAVE")
        redis.restart(answering=b"LOADING")

        with pytest.raises(StoreUnavailable, match="LOADING"):
            asyncio.run(RedisStore.open(redis.url))
