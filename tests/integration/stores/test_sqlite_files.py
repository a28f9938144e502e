"""SQLite files that are damaged, replaced, gone, or of a newer schema."""

import asyncio
import contextlib
import os
import sqlite3
from functools import partial
from pathlib import Path

import attrs
import pytest

from streamshard.adapters.stores.sqlite import SqliteStore
from streamshard.core.ids import GroupKey, GroupName, StreamPrefix
from streamshard.core.ports import GroupChange, StreamChange, Transaction
from streamshard.errors import (
    MetadataCorrupt,
    SourceChanged,
    StoreUnavailable,
    UnsupportedSchema,
)
from streamshard.testing.samples import (
    COMPARE,
    CREATE,
    CREATE_STREAM,
    FIRST,
    KEY,
    ONE,
    ORDERS,
    SECOND,
    a_group,
    a_row,
    a_stream,
    put,
    state,
)
from tests.integration.stores.sqlite_rig import filled, play, sql


def test_a_database_of_a_newer_schema_is_left_alone(path: Path) -> None:
    filled(path)
    sql(path, "PRAGMA user_version = 2")
    before = path.read_bytes()

    with pytest.raises(UnsupportedSchema, match=r"meta\.db was made by a newer version \(schema 2.*upgrade"):
        asyncio.run(SqliteStore.open(path))

    assert path.read_bytes() == before


async def _many(store: SqliteStore, count: int) -> None:
    for number in range(count):
        prefix = StreamPrefix(f"stream-{number}")
        await put(store, StreamChange(None, a_stream(prefix=prefix)), prefix=prefix)


def test_a_damaged_file_is_refused_at_opening(path: Path) -> None:
    play(path, partial(_many, count=200))
    whole = bytearray(path.read_bytes())
    for page in range(4096, len(whole), 4096):
        whole[page : page + 64] = b"\xa5" * 64
    path.write_bytes(whole)

    with pytest.raises(MetadataCorrupt, match="damaged, restore it from a backup"):
        asyncio.run(SqliteStore.open(path))


def test_what_a_check_finds_is_said_in_one_line(path: Path) -> None:
    play(path, partial(_many, count=200))
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM stream_records")
        database.commit()
    whole = bytearray(path.read_bytes())
    whole[32:36] = (3).to_bytes(4, "big")  # the first free page is said to be one that is in use
    path.write_bytes(whole)

    with pytest.raises(MetadataCorrupt) as caught:
        asyncio.run(SqliteStore.open(path))

    assert caught.value.message.startswith(f"the metadata database {path} is damaged, restore it from a backup: ***")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE group_records SET body = replace(body, 'lineage', 'linage!') WHERE name = 'billing'",
        "UPDATE group_records SET body = 'text' WHERE name = 'billing'",
        "UPDATE group_records SET revision = 7 WHERE name = 'billing'",
        "UPDATE group_records SET nonce = CAST(x'fffe' AS TEXT) WHERE name = 'billing'",
        "UPDATE group_records SET live = 0 WHERE name = 'billing'",
        "UPDATE renewal_rows SET body = x'00' WHERE name = 'billing'",
        "UPDATE renewal_rows SET seq = 3 WHERE name = 'billing'",
    ],
)
def test_a_damaged_record_freezes_its_group_alone(path: Path, damage: str) -> None:
    shipping = GroupKey(ORDERS, GroupName("shipping"))

    async def scenario(store: SqliteStore) -> None:
        await put(store, CREATE_STREAM, CREATE, GroupChange(shipping, None, a_group(key=shipping)), row=a_row())
        await state(store)
        sql(path, damage)
        with pytest.raises(MetadataCorrupt, match="billing"):
            await store.load_group(KEY)
        assert (await store.load_group(shipping)).record == a_group(key=shipping)
        assert (await store.load_stream(ORDERS)).record == a_stream()
        await put(store, GroupChange(shipping, FIRST, a_group(SECOND, shipping)))

    play(path, scenario)


def test_a_record_of_a_newer_schema_freezes_its_group_alone(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await put(store, CREATE_STREAM, CREATE)
        sql(path, """UPDATE group_records SET body = CAST('{"schema":9,"new":true}' AS BLOB)""")
        with pytest.raises(UnsupportedSchema, match="orders/billing"):
            await store.load_group(KEY)
        assert (await store.load_stream(ORDERS)).record == a_stream()

    play(path, scenario)


def test_a_file_put_in_the_place_of_another_is_another_source(path: Path, tmp_path: Path) -> None:
    backup = filled(tmp_path / "backup.db")

    async def scenario(store: SqliteStore) -> None:
        await put(store, CREATE)
        before = (await store.load_group(KEY)).source
        os.replace(backup, path)
        with pytest.raises(SourceChanged):
            await store.commit(Transaction(ORDERS, before, groups=(GroupChange(KEY, FIRST, a_group(SECOND)),)))
        after = await store.load_group(KEY)
        assert (after.record, dict(after.rows)) == (a_group(), {ONE: a_row()})
        assert after.source.identity != before.identity
        assert after.source.connection == before.connection + 1
        await put(store, GroupChange(KEY, FIRST, a_group(SECOND)))
        assert (await store.load_group(KEY)).source == after.source

    play(path, scenario)


def test_a_file_whose_contents_became_another_databases_is_another_source(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        before = (await store.load_group(KEY)).source
        sql(path, "UPDATE meta SET value = 'another' WHERE name = 'generation'")
        with pytest.raises(SourceChanged):
            await store.commit(Transaction(ORDERS, before, groups=(CREATE,)))
        after = (await store.load_group(KEY)).source
        assert (after.identity == before.identity, after.connection) == (False, before.connection + 1)

    play(path, scenario)


def test_a_file_that_is_gone_is_unavailable_until_it_is_back(path: Path, tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await put(store, CREATE)
        before = (await store.load_group(KEY)).source
        os.rename(path, tmp_path / "aside.db")
        for call in (store.load_group(KEY), store.commit(Transaction(ORDERS, before, groups=(COMPARE,)))):
            with pytest.raises(StoreUnavailable, match=r"meta\.db is gone"):
                await call
        assert not path.exists()
        os.rename(tmp_path / "aside.db", path)
        assert (await store.load_group(KEY)) == attrs.evolve(await store.load_group(KEY), source=before)

    play(path, scenario)


def test_a_file_in_the_place_that_is_no_database_is_unavailable(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await put(store, CREATE)
        path.unlink()
        path.write_text("not what you look for " * 100)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="not a SQLite database"):
                await store.load_group(KEY)

    play(path, scenario)


def test_reopening_the_same_file_is_the_same_identity(path: Path) -> None:
    identities = []

    async def scenario(store: SqliteStore) -> None:
        identities.append((await store.load_stream(ORDERS)).source)

    play(path, scenario)
    play(path, scenario)

    assert identities[0] == identities[1]
