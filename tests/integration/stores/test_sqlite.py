"""What a SQLite file adds: other processes, names and paths, crashes."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import attrs
import pytest

from streamshard.adapters.stores.sqlite import SqliteStore
from streamshard.adapters.stores.sqlite_file import prepare
from streamshard.core.group import GroupRecord
from streamshard.core.ids import GroupKey, GroupName, Nonce, next_version
from streamshard.core.ports import GroupChange, RowWrite, Transaction
from streamshard.core.stream import StreamRecord
from streamshard.errors import (
    ConfigurationError,
    InvalidRequest,
    StoreUnavailable,
)
from streamshard.testing.samples import (
    BILLING,
    COMPARE,
    CREATE,
    FIRST,
    KEY,
    ONE,
    ORDERS,
    SECOND,
    a_group,
    a_row,
    opened,
    put,
    source_of,
    state,
)
from tests.integration.stores.sqlite_rig import filled, play, sql

ROOT = Path(__file__).parents[3]


def _writer(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.integration.stores.writer", str(path), name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_several_processes_incrementing_lose_none(path: Path) -> None:
    filled(path)

    writers = [_writer(path, name, 50) for name in ("one", "two", "three")]
    said = [writer.communicate(timeout=60)[0].split()[1:] for writer in writers]

    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert sorted(int(number) for numbers in said for number in numbers) == list(range(2, 152))


def test_processes_that_open_a_new_file_at_once_all_succeed(path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from streamshard.adapters.stores.sqlite import SqliteStore\n"
        "async def main():\n"
        "    store = await SqliteStore.open(sys.argv[1])\n"
        "    print(store.source.identity)\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )

    openers = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    identities = [opener.communicate(timeout=60)[0] for opener in openers]

    assert [opener.returncode for opener in openers] == [0, 0, 0, 0]
    assert len(set(identities)) == 1


def test_tables_that_another_process_makes_while_one_looks_are_no_strangers(path: Path) -> None:
    def make_them(statement: str) -> None:
        if "sqlite_master" in statement:
            with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(connect(path)) as other:
                prepare(other, path)

    with contextlib.closing(connect(path)) as db:
        db.set_trace_callback(make_them)
        prepare(db, path)

    play(path, lambda store: put(store, CREATE))


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0.1, isolation_level=None)


def test_a_killed_writer_leaves_no_half_commit_and_loses_nothing_it_was_told(path: Path) -> None:
    filled(path)

    for turn in range(8):
        with _writer(path, f"writer-{turn}", 0) as writer:
            assert writer.stdout is not None
            told = [writer.stdout.readline() for _ in range(3 + 5 * turn)]
            writer.kill()
            told += writer.stdout.readlines()
        last = [int(line) for line in told if line.endswith("\n") and line.strip().isdigit()][-1]

        async def whole(store: SqliteStore, last: int = last) -> None:
            stream, group, _ = await state(store)
            assert isinstance(stream, StreamRecord)
            assert isinstance(group, GroupRecord)
            assert stream.version == group.version
            assert (stream.routed_count, group.group_epoch) == (stream.version.revision, stream.version.revision)
            assert last <= stream.version.revision <= last + 1

        play(path, whole)


def test_a_cancelled_commit_leaves_no_transaction_open(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await put(store, CREATE)
        source = await source_of(store)
        for seq in range(1, 40):
            write = RowWrite(BILLING, a_row(seq))
            task = asyncio.create_task(store.commit(Transaction(ORDERS, source, groups=(COMPARE,), row=write)))
            for _ in range(seq % 7):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        async with opened(lambda: SqliteStore.open(path)) as other:
            await put(other, COMPARE, row=a_row(99))
        assert (await store.load_group(KEY)).rows == {ONE: a_row(99)}

    play(path, scenario)


def test_a_locked_database_is_unavailable_and_nothing_is_changed(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await put(store, CREATE)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="locked"):
                await put(store, GroupChange(KEY, FIRST, a_group(SECOND)))
            other.execute("ROLLBACK")
        assert await state(store) == (None, a_group(), {})
        await put(store, GroupChange(KEY, FIRST, a_group(SECOND)))

    play(path, scenario, busy_timeout_ms=50)


def test_a_full_database_is_unavailable_and_nothing_is_changed(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await put(store, CREATE)
        database = await store._current()
        await database.writer.run(lambda db: db.execute("PRAGMA max_page_count = 1"))
        big = attrs.evolve(a_group(SECOND), store="x" * 500_000)
        with pytest.raises(StoreUnavailable, match="full"):
            await put(store, GroupChange(KEY, FIRST, big))
        assert await state(store) == (None, a_group(), {})
        await put(store, COMPARE, row=a_row())
        assert await state(store) == (None, a_group(), {ONE: a_row()})

    play(path, scenario)


@pytest.mark.parametrize("name", [":memory:", "", "file:meta.db?mode=memory"])
def test_a_name_that_is_no_file_is_refused_with_a_hint(name: str) -> None:
    with pytest.raises(ConfigurationError, match="MemoryStore"):
        asyncio.run(SqliteStore.open(name))


def test_paths_that_cannot_hold_a_database_are_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database, but longer than the header of one would be " * 20)
    sql(tmp_path / "shop.db", "CREATE TABLE orders (id INTEGER)")
    reasons = {
        tmp_path: "is a directory",
        tmp_path / "none" / "meta.db": "make it first",
        tmp_path / "notes.txt": "not a SQLite database",
        tmp_path / "shop.db": "another application",
    }

    for path, reason in reasons.items():
        with pytest.raises(ConfigurationError, match=reason) as caught:
            asyncio.run(SqliteStore.open(path))
        assert str(path.parent if reason == "make it first" else path) in str(caught.value)


def test_a_file_that_cannot_be_opened_leaves_no_thread_behind(tmp_path: Path) -> None:
    (tmp_path / "loop.db").symlink_to(tmp_path / "loop.db")
    before = threading.enumerate()

    async def scenario() -> list[threading.Thread]:
        with pytest.raises(ConfigurationError, match="can't be opened"):
            await SqliteStore.open(tmp_path / "loop.db")
        workers = [thread for thread in threading.enumerate() if "_connection_worker" in thread.name]
        return [thread for thread in workers if thread not in before]

    assert asyncio.run(scenario()) == []


def test_awkward_paths_are_paths(tmp_path: Path) -> None:
    path = tmp_path / "100%25 sure? #1 주문.db"

    filled(path)

    assert path.exists()


@pytest.mark.parametrize("name", ["\ud800", "a\udfffb"])
def test_names_that_no_key_can_hold_are_refused_and_hurt_nobody(path: Path, name: str) -> None:
    key = GroupKey(ORDERS, GroupName(name))

    async def scenario(store: SqliteStore) -> None:
        await put(store, CREATE)
        with pytest.raises(InvalidRequest, match="not valid Unicode"):
            await store.load_group(key)
        refused, _ = await asyncio.gather(
            put(store, GroupChange(key, None)), put(store, COMPARE, row=a_row()), return_exceptions=True
        )
        assert isinstance(refused, InvalidRequest)
        assert await state(store) == (None, a_group(), {ONE: a_row()})

    play(path, scenario)


def test_commits_on_their_way_at_closing_are_settled(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await put(store, CREATE)
        source = await source_of(store)
        version = FIRST
        tasks = []
        for turn in range(5):
            after = next_version(version, Nonce(f"{turn}"))
            change = (GroupChange(KEY, version, a_group(after)),)
            tasks.append(asyncio.create_task(store.commit(Transaction(ORDERS, source, groups=change))))
            version = after
        await asyncio.sleep(0)
        await store.close()
        assert await asyncio.gather(*tasks, return_exceptions=True) == [None] * 5

    play(path, scenario)
