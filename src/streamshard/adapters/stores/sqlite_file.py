"""A SQLite file as a place for metadata: opening it, telling it from others, and saying what is wrong with it."""

import asyncio
import contextlib
import os
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import aiosqlite
import attrs

from streamshard.errors import (
    ConfigurationError,
    MetadataCorrupt,
    StoreUnavailable,
    StreamshardError,
    UnsupportedSchema,
)

FILE_SCHEMA = 1
"""Kept as ``PRAGMA user_version``; raised when an older version could misread the tables."""

APPLICATION_ID = 0x53745368
_PAUSE_S = 0.05

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE stream_records (
    prefix TEXT PRIMARY KEY, live INTEGER NOT NULL,
    lineage TEXT NOT NULL, revision INTEGER NOT NULL, nonce TEXT NOT NULL, body BLOB NOT NULL
);
CREATE TABLE group_records (
    prefix TEXT NOT NULL, name TEXT NOT NULL, live INTEGER NOT NULL,
    lineage TEXT NOT NULL, revision INTEGER NOT NULL, nonce TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (prefix, name)
);
CREATE TABLE renewal_rows (
    prefix TEXT NOT NULL, name TEXT NOT NULL, instance TEXT NOT NULL,
    seq INTEGER NOT NULL, mark TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (prefix, name, instance)
) WITHOUT ROWID;
"""

T = TypeVar("T")

_MISCONFIGURED = {
    sqlite3.SQLITE_NOTADB: "is not a SQLite database: name another file",
    sqlite3.SQLITE_CANTOPEN: "can't be opened: make its directory writable for this user, or name another file",
    sqlite3.SQLITE_READONLY: "can't be written: give this user write permission on it and on its directory",
    sqlite3.SQLITE_PERM: "can't be opened: give this user read and write permission on it",
    sqlite3.SQLITE_AUTH: "can't be opened: give this user read and write permission on it",
}


class Session(aiosqlite.Connection):
    """An aiosqlite connection that runs a whole transaction in one visit to its thread.

    Statement by statement, tasks could interleave within a transaction, a cancelled task could leave
    one open, and every statement would cost a change of threads.
    """

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` to its end in the connection's thread, also if the caller is cancelled."""
        result: T = await self._execute(work, self._conn)  # type: ignore[no-untyped-call]
        return result

    async def opened(self) -> "Session":
        """Open the file; when that fails the thread has ended before the error is raised.

        aiosqlite tells it to end and does not wait: it would answer an event loop that is closed by then.
        """
        try:
            await self
        except BaseException:
            await asyncio.to_thread(self._thread.join)
            raise
        return self


@attrs.frozen
class Database:
    """One file, open for writing and, beside that, for reading."""

    path: Path
    inode: str
    """What the path led to when it was opened."""
    log: str
    """What the write-ahead log beside it was then."""
    writer: Session
    reader: Session

    @classmethod
    async def open(cls, path: Path, *, create: bool, busy_timeout_ms: int) -> "Database":
        """Raises what is wrong with the file, in one sentence."""
        try:
            writer = await _session(path, busy_timeout_ms, create=create)
            async with _closed_on_error(writer):
                found = inode(path)
                await _prepare_patiently(writer, path, busy_timeout_ms)
                reader = await _session(path, busy_timeout_ms, create=False)
                async with _closed_on_error(reader):
                    database = cls(path, found, inode(_beside(path, "-wal")), writer, reader)
                    await database._check()
        except sqlite3.Error as error:
            raise refusal(error, path) from error
        return database

    async def _check(self) -> None:
        await self.reader.run(lambda db: db.execute("PRAGMA query_only = ON"))
        await self.reader.run(self.identity)
        if self.moved():
            raise StoreUnavailable(f"the metadata database {self.path} was replaced while it was opened")

    def identity(self, db: sqlite3.Connection) -> str:
        """Which store a transaction is working on: the file, and the random name it was given when it was made."""
        found = db.execute("SELECT value FROM meta WHERE name = 'generation'").fetchone()
        return f"sqlite:{self.inode}:{found[0] if found is not None else ''}"

    def moved(self) -> bool:
        """The path leads elsewhere by now, or nowhere."""
        return moved(self.path, self.inode)

    def disown_log(self) -> None:
        """Remove this file's write-ahead log from beside the file that took its place.

        SQLite finds a log by the path and would replay it onto the new file. To be called before
        `close`: while the log is open, no other file can have its inode.
        """
        log = _beside(self.path, "-wal")
        if self.moved() and not moved(log, self.log):
            for name in (log, _beside(self.path, "-shm")):
                name.unlink(missing_ok=True)

    async def close(self) -> None:
        """Close both connections; the last one of all processes folds the write-ahead log into the file."""
        for session in (self.reader, self.writer):
            with contextlib.suppress(sqlite3.Error):
                await session.close()


async def _session(path: Path, busy_timeout_ms: int, *, create: bool) -> Session:
    uri = f"{path.as_uri()}?mode={'rwc' if create else 'rw'}"

    def connector() -> sqlite3.Connection:
        db = sqlite3.connect(uri, timeout=busy_timeout_ms / 1000, isolation_level=None, uri=True)
        # A damaged text column must reach the comparisons, not fail the whole statement.
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        return db

    return await Session(connector, iter_chunk_size=64).opened()


@contextlib.asynccontextmanager
async def _closed_on_error(session: Session) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        await session.close()
        raise


def checked_path(path: str | os.PathLike[str]) -> Path:
    """The absolute path of a database; raises `ConfigurationError` for what can't be one."""
    name = os.fspath(path)
    if name in ("", ":memory:") or name.startswith("file:"):
        raise ConfigurationError(f"{name!r} names no file: give a path, or use MemoryStore to keep nothing")
    found = Path(name).absolute()
    if found.is_dir():
        raise ConfigurationError(f"{found} is a directory: name a file in it")
    if not found.parent.is_dir():
        raise ConfigurationError(f"{found.parent} is not a directory: make it first, or name another file")
    return found


def inode(path: Path) -> str:
    """What the path leads to now; raises `StoreUnavailable` if that is nothing."""
    try:
        found = path.stat()
    except OSError as error:
        raise StoreUnavailable(f"the metadata database {path} is gone ({error.strerror}): put it back") from error
    return f"{found.st_dev}.{found.st_ino}"


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def moved(path: Path, opened: str) -> bool:
    """The path leads elsewhere than when it was opened, or nowhere."""
    try:
        return inode(path) != opened
    except StoreUnavailable:
        return True


async def _prepare_patiently(session: Session, path: Path, busy_timeout_ms: int) -> None:
    loop = asyncio.get_running_loop()
    give_up = loop.time() + busy_timeout_ms / 1000
    while True:
        try:
            return await session.run(lambda db: prepare(db, path))
        except sqlite3.OperationalError as error:
            # Turning on the write-ahead log does not wait for another process that is doing the same.
            if primary_code(error) != sqlite3.SQLITE_BUSY or loop.time() > give_up:
                raise
        await asyncio.sleep(_PAUSE_S)


def prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or see that they are ours; raises what is wrong with the file."""
    with _transaction(db, "DEFERRED"):  # one look: another process may be making the tables
        _check_schema(db, path)
    db.execute("PRAGMA synchronous = FULL")
    mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise ConfigurationError(f"{path} is on a file system without shared memory: put it on a local disk")
    with _transaction(db, "IMMEDIATE"):
        if _check_schema(db, path) == 0:
            _make_tables(db)
    findings = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if findings != "ok":
        raise _damaged(path, str(findings))


def _check_schema(db: sqlite3.Connection, path: Path) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    application = db.execute("PRAGMA application_id").fetchone()[0]
    empty = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if application != APPLICATION_ID and not empty:
        raise ConfigurationError(f"{path} is the database of another application: name another file")
    if version > FILE_SCHEMA:
        raise UnsupportedSchema(
            f"{path} was made by a newer version (schema {version}, this one knows up to {FILE_SCHEMA}): "
            "upgrade streamshard, or name another file"
        )
    return version


def _make_tables(db: sqlite3.Connection) -> None:
    for statement in TABLES.split(";")[:-1]:
        db.execute(statement)
    db.execute("INSERT INTO meta VALUES ('generation', ?)", (secrets.token_hex(16),))
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {FILE_SCHEMA}")


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection, kind: str) -> Iterator[None]:
    """Committed at the end, rolled back on any error; ``IMMEDIATE`` to write."""
    db.execute(f"BEGIN {kind}")
    try:
        yield
        db.execute("COMMIT")
    finally:
        roll_back(db)


def roll_back(db: sqlite3.Connection) -> None:
    """Leave the open transaction, if there is one."""
    if db.in_transaction:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; 0 if the error is the driver's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def refusal(error: sqlite3.Error, path: Path) -> StreamshardError:
    """Why a database can't be opened, in one sentence."""
    if (advice := _MISCONFIGURED.get(primary_code(error))) is not None:
        return ConfigurationError(f"{path} {advice}")
    return unavailable(error, path)


def unavailable(error: sqlite3.Error, path: Path) -> StreamshardError:
    """Why a statement on an open database did nothing."""
    if primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _damaged(path, str(error))
    return StoreUnavailable(f"the metadata database {path} does not answer: {error}")


def _damaged(path: Path, finding: str) -> MetadataCorrupt:
    one_line = " ".join(finding.split())
    return MetadataCorrupt(f"the metadata database {path} is damaged, restore it from a backup: {one_line}")
