"""What the store in Redis sends: one script call a commit, bodies only when they changed, many commits a write."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping

import attrs
import pytest

from streamshard.core.group import GroupRecord
from streamshard.core.ids import (
    Epoch,
    GroupKey,
    GroupName,
    InstanceId,
    MemberId,
    Nonce,
    ShardIndex,
    StreamPrefix,
    Version,
)
from streamshard.core.ports import GroupChange, RowWrite, Transaction
from streamshard.core.stream import StreamRecord
from streamshard.errors import StreamshardError
from streamshard.testing.samples import (
    BILLING,
    COMPARE,
    CREATE,
    CREATE_STREAM,
    FIRST,
    KEY,
    ONE,
    ORDERS,
    SECOND,
    a_group,
    a_group_tombstone,
    a_row,
    a_stream,
    put,
    source_of,
    state,
)
from tests.integration.cluster import ask
from tests.integration.stores.redis_rig import RECORD, ROWS, Server, store_at

INDEX = "streamshard:streams"


def test_an_unchanged_heartbeat_is_one_script_call(redis: Server) -> None:
    async def scenario() -> dict[str, int]:
        async with store_at(redis.url) as store:
            await put(store, CREATE_STREAM, CREATE, row=a_row())
            source = await source_of(store)
            redis.ask("CONFIG", "RESETSTAT")
            await store.commit(Transaction(ORDERS, source, groups=(COMPARE,), row=RowWrite(BILLING, a_row(2))))
            return redis.calls()

    calls = asyncio.run(scenario())

    calls.pop("config|resetstat", None)
    assert calls == {"evalsha": 1, "hmget": 1, "pttl": 1, "hget": 1, "hset": 1}


SITUATIONS: dict[str, tuple[str | int, ...]] = {
    "as it was": ("PING",),
    "no record": ("DEL", RECORD),
    "no version": ("HDEL", RECORD, "v"),
    "another version": ("HSET", RECORD, "v", "2 lineage nonce-2"),
    "a tombstone": ("HSET", RECORD, "k", "dead"),
    "a time to live": ("PEXPIRE", RECORD, 1_000_000),
    "no hash for a record": ("SET", RECORD, "text"),
    "no row": ("DEL", ROWS),
    "a row that can't be read": ("HSET", ROWS, ONE, "text"),
    "the same row": ("HSET", ROWS, ONE, "2 mark-2 {}"),
    "a newer row": ("HSET", ROWS, ONE, "7 mark-7 {}"),
    "no hash for rows": ("SET", ROWS, "text"),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_script_for_renewals_does_and_says_what_the_one_for_all_commits_does(redis: Server, situation: str) -> None:
    async def outcome(*compared: GroupChange) -> tuple[object, ...]:
        redis.ask("FLUSHALL")
        async with store_at(redis.url) as store:
            await put(store, CREATE_STREAM, CREATE, row=a_row())
            source = await source_of(store)
            redis.ask(*SITUATIONS[situation])
            said: object = None
            try:
                await store.commit(Transaction(ORDERS, source, groups=compared, row=RowWrite(BILLING, a_row(2))))
            except StreamshardError as error:
                said = error
            return type(said), str(said), redis.ask("DUMP", RECORD), redis.ask("DUMP", ROWS)

    async def scenario() -> None:
        # Compared twice, it is no plain renewal, and means the same.
        assert await outcome(COMPARE) == await outcome(COMPARE, COMPARE)

    asyncio.run(scenario())


def test_one_load_of_a_group_with_its_rows_is_one_script_call(valkey: Server) -> None:
    async def scenario() -> dict[str, int]:
        async with store_at(valkey.url) as store:
            await put(store, CREATE, row=a_row())
            valkey.ask("CONFIG", "RESETSTAT")
            await store.load_group(KEY)
            return valkey.calls()

    calls = asyncio.run(scenario())

    assert calls["evalsha"] == 1
    assert {"eval", "script|load", "smembers", "sadd"} & set(calls) == set()


def test_a_body_crosses_the_wire_once_per_version(valkey: Server) -> None:
    targets = {ShardIndex(n): MemberId(f"member-{n}") for n in range(5_000)}
    large = attrs.evolve(a_group(), targets=targets)

    def sent() -> int:
        text: str = valkey.ask("INFO", "stats").decode()
        return int(text.split("total_net_output_bytes:")[1].split()[0])

    async def scenario() -> tuple[list[int], list[object]]:
        async with store_at(valkey.url) as writer, store_at(valkey.url) as store:
            await put(writer, GroupChange(KEY, None, large))
            steps, records = [sent()], []
            for _ in range(2):
                records.append((await store.load_group(KEY)).record)
                steps.append(sent())
            changed = attrs.evolve(large, version=SECOND, group_epoch=Epoch(9))
            await put(writer, GroupChange(KEY, FIRST, changed))
            steps.append(sent())
            records.append((await store.load_group(KEY)).record)
            return [*steps, sent()], [*records, changed]

    (start, first, second, before, third), (one, two, three, changed) = asyncio.run(scenario())

    assert (one, two, three) == (large, large, changed)
    assert first - start > 100_000
    assert second - first < 20_000
    assert third - before > 100_000


def test_commits_of_one_moment_travel_together(valkey: Server) -> None:
    def reads() -> int:
        text: str = valkey.ask("INFO", "stats").decode()
        return int(text.split("total_reads_processed:")[1].split()[0])

    async def scenario() -> tuple[int, dict[str, int], int]:
        async with store_at(valkey.url) as store:
            await put(store, CREATE)
            source = await source_of(store)
            rows = [RowWrite(BILLING, a_row(1, InstanceId(f"{n:032x}"))) for n in range(100)]
            valkey.ask("CONFIG", "RESETSTAT")
            before = reads()
            await asyncio.gather(
                *(store.commit(Transaction(ORDERS, source, groups=(COMPARE,), row=row)) for row in rows)
            )
            return reads() - before, valkey.calls(), len((await store.load_group(KEY)).rows)

    together, calls, rows = asyncio.run(scenario())

    assert (calls["evalsha"], rows) == (100, 100)
    assert together < 25


def test_a_server_that_forgot_the_scripts_learns_them_again(redis: Server) -> None:
    async def scenario() -> tuple[object, object, object]:
        async with store_at(redis.url) as store:
            await put(store, CREATE_STREAM)
            source = await source_of(store)
            redis.ask("SCRIPT", "FLUSH")
            await store.commit(Transaction(ORDERS, source, groups=(CREATE,)))
            redis.ask("SCRIPT", "FLUSH")
            return await state(store)

    assert asyncio.run(scenario()) == (a_stream(), a_group(), {})


def test_processes_that_increment_at_once_lose_none(redis: Server) -> None:
    async def begin() -> None:
        async with store_at(redis.url) as store:
            await put(store, CREATE_STREAM, CREATE)

    async def end() -> tuple[object, object, object]:
        async with store_at(redis.url) as store:
            return await state(store)

    asyncio.run(begin())
    command = [sys.executable, "-m", "tests.integration.stores.writer", redis.url]
    writers = [
        subprocess.Popen([*command, name, "50"], stdout=subprocess.PIPE, text=True) for name in ("one", "two", "three")
    ]
    said = [writer.communicate(timeout=60)[0].split()[1:] for writer in writers]
    stream, group, _ = asyncio.run(end())

    assert sorted(int(number) for numbers in said for number in numbers) == list(range(2, 152))
    assert isinstance(stream, StreamRecord)
    assert isinstance(group, GroupRecord)
    assert (stream.routed_count, group.group_epoch, stream.version.revision) == (151, 151, 151)


def test_a_lost_index_is_rebuilt_from_the_records(redis: Server) -> None:
    async def scenario() -> list[tuple[str, ...]]:
        async with store_at(redis.url) as store:
            for name in ("a", "주문:1", "100%"):
                await put(store, attrs.evolve(CREATE_STREAM, value=a_stream(prefix=name)), prefix=StreamPrefix(name))
            redis.ask("DEL", INDEX)
            redis.ask("SET", "streamshard:{p:a}:streams", "no record")
            redis.ask("XADD", "a:0", "*", "some", "record")
            return [await store.prefixes(), await store.rebuild_index(), await store.prefixes()]

    everything = ("100%", "a", "주문:1")
    assert asyncio.run(scenario()) == [(), everything, everything]


def test_whoever_reads_a_stream_puts_it_back_into_the_index(valkey: Server) -> None:
    async def scenario() -> tuple[str, ...]:
        async with store_at(valkey.url) as store:
            await put(store, CREATE_STREAM)
        valkey.ask("DEL", INDEX)
        async with store_at(valkey.url) as store:
            await store.load_stream(ORDERS)
            return await store.prefixes()

    assert asyncio.run(scenario()) == ("orders",)


def test_whoever_listed_a_stream_before_does_so_again_once_it_saw_the_index_without_it(valkey: Server) -> None:
    async def scenario() -> list[tuple[str, ...]]:
        async with store_at(valkey.url) as store:
            await put(store, CREATE_STREAM)
            valkey.ask("DEL", INDEX)
            lost = await store.prefixes()
            await store.load_stream(ORDERS)
            return [lost, await store.prefixes()]

    assert asyncio.run(scenario()) == [(), ("orders",)]


def test_a_stream_is_in_the_index_before_its_record_is_there(valkey: Server) -> None:
    """So a crash in between leaves a name that leads nowhere, and never a stream that nobody looks after."""
    valkey.ask("SADD", INDEX, "orders")

    async def scenario() -> list[tuple[str, ...]]:
        async with store_at(valkey.url) as store:
            nowhere = await store.prefixes()
            ask(valkey.port, "DEL", INDEX)
            with pytest.raises(Exception, match="moved on"):
                await put(store, attrs.evolve(CREATE_STREAM, expected=FIRST))
            return [nowhere, tuple(name.decode() for name in valkey.ask("SMEMBERS", INDEX))]

    assert asyncio.run(scenario()) == [(), ("orders",)]


def test_a_cancelled_commit_leaves_the_connection_to_the_others(valkey: Server) -> None:
    async def scenario() -> tuple[object, object, object]:
        async with store_at(valkey.url) as store:
            await put(store, CREATE_STREAM)
            source = await source_of(store)
            order = Transaction(ORDERS, source, groups=(CREATE,))
            doomed = asyncio.create_task(store.commit(order))
            await asyncio.sleep(0)
            doomed.cancel()
            await asyncio.wait([doomed])
            return await state(store)

    stream, group, rows = asyncio.run(scenario())

    assert (stream, rows) == (a_stream(), {})
    assert group in (None, a_group())


def test_a_version_is_compared_whatever_its_parts_contain(valkey: Server) -> None:
    odd = attrs.evolve(FIRST, nonce=Nonce("a b"))
    twin = attrs.evolve(FIRST, nonce=Nonce("a%20b"))

    async def scenario() -> list[object]:
        async with store_at(valkey.url) as store:
            await put(store, GroupChange(KEY, None, a_group(odd)))
            refused = await asyncio.gather(put(store, GroupChange(KEY, twin)), return_exceptions=True)
            await put(store, GroupChange(KEY, odd))
            return [type(refused[0]).__name__, (await store.load_group(KEY)).record]

    assert asyncio.run(scenario()) == ["RevisionConflict", a_group(odd)]


def test_the_versions_of_many_records_are_read_in_one_write(valkey: Server) -> None:
    tombstone = GroupKey(ORDERS, GroupName("buried"))
    keys: list[StreamPrefix | GroupKey] = [
        ORDERS,
        KEY,
        tombstone,
        StreamPrefix("none"),
        GroupKey(ORDERS, GroupName("none")),
    ]

    def reads() -> int:
        text: str = valkey.ask("INFO", "stats").decode()
        return int(text.split("total_reads_processed:")[1].split()[0])

    async def scenario() -> tuple[Mapping[GroupKey | StreamPrefix, Version], int]:
        async with store_at(valkey.url) as store:
            await put(store, CREATE_STREAM, CREATE)
            await put(store, GroupChange(tombstone, None, a_group_tombstone(key=tombstone)))
            before = reads()
            return await store.versions(keys * 20), reads() - before

    versions, together = asyncio.run(scenario())

    assert versions == {ORDERS: FIRST, KEY: FIRST, tombstone: SECOND}
    assert together < 10
