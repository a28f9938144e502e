"""Records in a SQLite file that several processes of one host may share.

Records are on disk before `commit` returns (``synchronous = FULL``). A commit that writes renewal rows
alone is visible to every process by then, but a power loss may take it (``synchronous = NORMAL``).
Commits that wait at the same time share one SQLite transaction; each is judged by itself.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import attrs

from streamshard.adapters.stores import codec
from streamshard.adapters.stores.codec import AnyGroup, AnyStream
from streamshard.adapters.stores.sqlite_file import Database, checked_path, inode, roll_back, unavailable
from streamshard.adapters.stores.sqlite_writes import LIVE, Outcome, Work, encode, read_versions, write
from streamshard.core.group import Row
from streamshard.core.ids import GroupKey, InstanceId, StreamPrefix, Version
from streamshard.core.ports import GroupSnapshot, StoreSource, StreamSnapshot, Transaction
from streamshard.errors import CommitUncertain, ConfigurationError, MetadataCorrupt, SourceChanged, StoreUnavailable

MOST_TOGETHER = 256
"""How many waiting commits share one SQLite transaction."""

DEFAULT_BUSY_TIMEOUT_MS = 5_000

_STREAM = "SELECT live, lineage, revision, nonce, body FROM stream_records WHERE prefix = ?"
_GROUP = "SELECT live, lineage, revision, nonce, body FROM group_records WHERE prefix = ? AND name = ?"
_ROWS = "SELECT instance, seq, mark, body FROM renewal_rows WHERE prefix = ? AND name = ? ORDER BY instance"
_PREFIXES = "SELECT prefix FROM stream_records WHERE live ORDER BY prefix"

T = TypeVar("T")
R = TypeVar("R", AnyStream, AnyGroup)


@attrs.frozen
class _Waiting:
    """A commit on its way to the writer's thread."""

    work: Work
    done: asyncio.Future[None]

    def settle(self, outcome: Outcome) -> None:
        if self.done.done():
            return
        if outcome is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(outcome)


class SqliteStore:
    """The `MetadataStore` port over one SQLite file; made by `open`, used on one event loop.

    To put another file in the place of this one, stop every coordinator and remove the ``-wal`` and
    ``-shm`` files beside it. A process that has the old one open notices and takes the new one for another
    store, but what starts in between could replay the old file's log onto the new one.
    """

    def __init__(self, database: Database, identity: str, busy_timeout_ms: int) -> None:
        self.path = database.path
        self._busy_timeout_ms = busy_timeout_ms
        self._database: Database | None = database
        self._source = StoreSource(identity, 1)
        self._closed = False
        self._reopening = asyncio.Lock()
        self._waiting: list[_Waiting] = []
        self._draining: asyncio.Task[None] | None = None
        self._decoded: dict[StreamPrefix | GroupKey, tuple[bytes, Any]] = {}

    @classmethod
    async def open(cls, path: str | os.PathLike[str], busy_timeout_ms: int = DEFAULT_BUSY_TIMEOUT_MS) -> "SqliteStore":
        """Open the database, or make it; ``busy_timeout_ms`` is how long to wait for other processes.

        Raises `ConfigurationError` if the path can't hold one, `UnsupportedSchema` if a newer version
        made it, `MetadataCorrupt` if it is damaged, `StoreUnavailable` if it stays locked.
        """
        database = await Database.open(checked_path(path), create=True, busy_timeout_ms=busy_timeout_ms)
        return cls(database, await database.reader.run(database.identity), busy_timeout_ms)

    @property
    def source(self) -> StoreSource:
        """The file and the connection that were last read from."""
        return self._source

    async def load_stream(self, prefix: StreamPrefix) -> StreamSnapshot:
        """Read one stream's record."""
        codec.checked(prefix)
        source, found = await self._read(lambda db: db.execute(_STREAM, (prefix,)).fetchone())
        return StreamSnapshot(source, self._decode(found, prefix, codec.load_stream))

    async def load_group(self, key: GroupKey) -> GroupSnapshot:
        """Read one group's record and rows in one read transaction."""
        names = (codec.checked(key.prefix), codec.checked(key.group))
        source, (found, rows) = await self._read(
            lambda db: (db.execute(_GROUP, names).fetchone(), db.execute(_ROWS, names).fetchall())
        )
        return GroupSnapshot(source, self._decode(found, key, codec.load_group), _decode_rows(rows, key))

    async def prefixes(self) -> tuple[StreamPrefix, ...]:
        """Every stream that has a record, sorted."""
        _, found = await self._read(lambda db: db.execute(_PREFIXES).fetchall())
        return tuple(prefix for (prefix,) in found)

    async def versions(self, keys: Sequence[GroupKey | StreamPrefix]) -> Mapping[GroupKey | StreamPrefix, Version]:
        """The version of each record that there is, tombstones too."""
        _, found = await self._read(partial(read_versions, keys=keys))
        return found

    async def commit(self, transaction: Transaction) -> None:
        """Apply atomically; see the port for what is refused and how."""
        work = encode(transaction)
        await self._current()
        if transaction.source != self._source:
            raise SourceChanged(f"the metadata store is {self._source}, not {transaction.source}")
        waiting = _Waiting(work, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._draining is None or self._draining.done():
            self._draining = asyncio.create_task(self._drain())
        await waiting.done

    async def close(self) -> None:
        """Write what waits, then close the file; idempotent."""
        self._closed = True
        if self._draining is not None:
            await asyncio.wait([self._draining])
        async with self._reopening:
            await self._let_go()

    async def _drain(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
            outcomes: Sequence[Outcome] = [CommitUncertain(f"the writer of {self.path} was stopped") for _ in batch]
            try:
                outcomes = await self._write([waiting.work for waiting in batch])
            finally:
                for waiting, outcome in zip(batch, outcomes, strict=True):
                    waiting.settle(outcome)

    async def _write(self, batch: Sequence[Work]) -> Sequence[Outcome]:
        if (database := self._database) is None:
            return [SourceChanged(f"another file stands at {self.path} now") for _ in batch]
        return await database.writer.run(partial(write, file=database, batch=batch))

    async def _read(self, fetch: Callable[[sqlite3.Connection], T]) -> tuple[StoreSource, T]:
        database = await self._current()
        try:
            identity, found = await database.reader.run(partial(_snapshot, file=database, fetch=fetch))
        except sqlite3.Error as error:
            raise unavailable(error, self.path) from error
        if database.moved():
            raise StoreUnavailable(f"another file was put at {self.path} during a read")
        return self._seen(identity), found

    async def _current(self) -> Database:
        """The database that stands at the path; opened anew if that is another file than before."""
        async with self._reopening:
            if self._closed:
                raise StoreUnavailable(f"the metadata database {self.path} has been closed")
            if self._database is None or self._database.inode != inode(self.path):
                self._database = await self._reopen()
            return self._database

    async def _reopen(self) -> Database:
        if self._database is not None:
            self._database.disown_log()
        await self._let_go()
        try:
            database = await Database.open(self.path, create=False, busy_timeout_ms=self._busy_timeout_ms)
        except ConfigurationError as error:
            raise StoreUnavailable(error.message) from error
        self._seen(await database.reader.run(database.identity))
        return database

    async def _let_go(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            await database.close()

    def _seen(self, identity: str) -> StoreSource:
        if identity != self._source.identity:
            self._source = StoreSource(identity, self._source.connection + 1)
            self._decoded.clear()
        return self._source

    def _decode(self, found: Any, key: Any, load: Callable[[object, Any], R]) -> R | None:
        """Decode a body, or remember what the very same bytes said last time."""
        if found is None:
            self._decoded.pop(key, None)
            return None
        *columns, body = found
        known = self._decoded.get(key)
        if known is None or known[0] != body:
            known = self._decoded[key] = (body, load(body, key))
        record: R = known[1]
        if [isinstance(record, LIVE), *attrs.astuple(record.version)] != columns:
            raise MetadataCorrupt(f"the stored record of {str(key)!r} can't be trusted: body and columns disagree")
        return record


def _snapshot(db: sqlite3.Connection, *, file: Database, fetch: Callable[[sqlite3.Connection], T]) -> tuple[str, T]:
    db.execute("BEGIN")
    try:
        return file.identity(db), fetch(db)
    finally:
        roll_back(db)


def _decode_rows(found: Sequence[Any], key: GroupKey) -> Mapping[InstanceId, Row]:
    rows = {}
    for instance, seq, mark, body in found:
        row = rows[instance] = codec.load_row(body, key, instance)
        if (row.seq, row.mark) != (seq, mark):
            raise MetadataCorrupt(f"the row of {instance!r} in {str(key)!r} can't be trusted: body and mark disagree")
    return MappingProxyType(rows)
