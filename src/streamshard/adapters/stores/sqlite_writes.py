"""Commits inside SQLite's own transaction: compare everything, then write everything."""

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain

import attrs

from streamshard.adapters.stores import codec
from streamshard.adapters.stores.sqlite_file import Database, primary_code, roll_back, unavailable
from streamshard.core.group import GroupRecord, Row
from streamshard.core.ids import GroupKey, GroupName, InstanceId, Nonce, StreamPrefix, Version
from streamshard.core.ports import GroupChange, Transaction
from streamshard.core.stream import StreamRecord
from streamshard.errors import (
    CommitUncertain,
    RevisionConflict,
    SourceChanged,
    StaleSequence,
    StoreSignal,
    StreamshardError,
)

Outcome = StreamshardError | None
LIVE = (StreamRecord, GroupRecord)
"""What is no tombstone."""

_UNDONE_AT_COMMIT = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL)
"""Failures of COMMIT after which nothing of it can come back, not even by recovery after a crash."""

PUT_STREAM = "INSERT OR REPLACE INTO stream_records VALUES (?, ?, ?, ?, ?, ?)"
PUT_GROUP = "INSERT OR REPLACE INTO group_records VALUES (?, ?, ?, ?, ?, ?, ?)"
PUT_ROW = "INSERT OR REPLACE INTO renewal_rows VALUES (?, ?, ?, ?, ?, ?)"
STREAM_VERSION = "SELECT live, lineage, revision, nonce FROM stream_records WHERE prefix = ?"
GROUP_VERSION = "SELECT live, lineage, revision, nonce FROM group_records WHERE prefix = ? AND name = ?"
ROW_MARK = "SELECT seq, mark FROM renewal_rows WHERE prefix = ? AND name = ? AND instance = ?"
DROP_ROW = "DELETE FROM renewal_rows WHERE prefix = ? AND name = ? AND instance = ?"
DROP_ROWS = "DELETE FROM renewal_rows WHERE prefix = ? AND name = ?"


@attrs.frozen
class Work:
    """A transaction with its bodies encoded, so that nothing can fail any more but the database."""

    order: Transaction
    stream: bytes | None
    groups: tuple[bytes | None, ...]
    row: bytes | None

    @property
    def durable(self) -> bool:
        """Changes a record, which has to be on disk before anybody hears of it."""
        return self.stream is not None or any(body is not None for body in self.groups)


def encode(order: Transaction) -> Work:
    """Raises `InvalidRequest` if a name or a value has no encoding."""
    for name in (order.prefix, *chain(*order.same_rows), *chain(*order.drop_rows)):
        codec.checked(name)
    for change in order.groups:
        codec.checked(change.key.prefix + change.key.group)
    if order.row is not None:
        codec.checked(order.row.group)
    return Work(
        order,
        stream=None if order.stream is None else codec.dump_stream(order.stream.value),
        groups=tuple(None if each.value is None else codec.dump_group(each.value) for each in order.groups),
        row=None if order.row is None else codec.dump_row(order.row.row),
    )


def read_versions(
    db: sqlite3.Connection, *, keys: Sequence[GroupKey | StreamPrefix]
) -> Mapping[GroupKey | StreamPrefix, Version]:
    """The versions of those records that there are; bodies are not touched."""
    found: dict[GroupKey | StreamPrefix, Version] = {}
    for key in keys:
        sql, names = (GROUP_VERSION, (key.prefix, key.group)) if isinstance(key, GroupKey) else (STREAM_VERSION, (key,))
        columns = db.execute(sql, names).fetchone()
        if columns is not None:
            found[key] = Version(*columns[1:])
    return found


def write(db: sqlite3.Connection, *, file: Database, batch: Sequence[Work]) -> list[Outcome]:
    """Write each of ``batch`` that passes its comparisons, all in one SQLite transaction."""
    level = "FULL" if any(work.durable for work in batch) else "NORMAL"
    try:
        db.execute(f"PRAGMA synchronous = {level}")
        db.execute("BEGIN IMMEDIATE")
        outcomes = _judge_all(db, file, batch)
    except sqlite3.Error as error:
        roll_back(db)
        return [unavailable(error, file.path) for _ in batch]
    if None not in outcomes:
        roll_back(db)
        return outcomes
    return _finish(db, file, outcomes)


def _judge_all(db: sqlite3.Connection, file: Database, batch: Sequence[Work]) -> list[Outcome]:
    identity = file.identity(db)
    if file.moved():
        return [SourceChanged(f"another file stands at {file.path} now") for _ in batch]
    return [_judge(db, identity, work) for work in batch]


def _finish(db: sqlite3.Connection, file: Database, outcomes: list[Outcome]) -> list[Outcome]:
    try:
        db.execute("COMMIT")
    except sqlite3.Error as error:
        roll_back(db)
        undone = primary_code(error) in _UNDONE_AT_COMMIT and not db.in_transaction
        return [each or (unavailable if undone else _uncertain)(error, file.path) for each in outcomes]
    if file.moved():
        lost = f"{file.path} was replaced in the middle of a commit"
        return [each or CommitUncertain(lost) for each in outcomes]
    return outcomes


def _uncertain(error: sqlite3.Error, path: object) -> StreamshardError:
    return CommitUncertain(f"whether the metadata database {path} kept a commit is unknown: {error}")


def _judge(db: sqlite3.Connection, identity: str, work: Work) -> Outcome:
    if work.order.source.identity != identity:
        return SourceChanged(f"the metadata store is {identity}, not {work.order.source.identity}")
    try:
        _compare(db, work.order)
    except StoreSignal as signal:
        return signal
    _put_records(db, work)
    _put_rows(db, work)
    return None


def _compare(db: sqlite3.Connection, order: Transaction) -> None:
    if order.stream is not None:
        _same(f"stream {order.prefix!r}", _version(db, STREAM_VERSION, order.prefix), order.stream.expected)
    live = {}
    for change in order.groups:
        stored = _version(db, GROUP_VERSION, change.key.prefix, change.key.group)
        _same(f"group {str(change.key)!r}", stored, change.expected)
        live[change.key.group] = _live_after(stored, change)
    for (group, instance), mark in order.same_rows.items():
        _same_row(db, order, (group, instance), mark)
    if order.row is not None:
        _check_row(db, order, live)


def _live_after(stored: tuple[int, Version] | None, change: GroupChange) -> bool:
    if change.value is not None:
        return isinstance(change.value, LIVE)
    return stored is not None and bool(stored[0])


def _version(db: sqlite3.Connection, sql: str, *names: str) -> tuple[int, Version] | None:
    found = db.execute(sql, names).fetchone()
    return None if found is None else (found[0], Version(*found[1:]))


def _same(name: str, stored: tuple[int, Version] | None, expected: Version | None) -> None:
    if (stored[1] if stored is not None else None) != expected:
        raise RevisionConflict(f"{name} has moved on")


def _same_row(
    db: sqlite3.Connection, order: Transaction, named: tuple[GroupName, InstanceId], mark: Nonce | None
) -> None:
    found = db.execute(ROW_MARK, (order.prefix, *named)).fetchone()
    if (found[1] if found is not None else None) != mark:
        raise RevisionConflict(f"the row of instance {named[1]!r} in group {named[0]!r} has moved on")


def _check_row(db: sqlite3.Connection, order: Transaction, live: dict[GroupName, bool]) -> None:
    assert order.row is not None
    group, row = order.row.group, order.row.row
    if group not in live:
        stored = _version(db, GROUP_VERSION, order.prefix, group)
        live[group] = stored is not None and bool(stored[0])
    if not live[group]:
        raise RevisionConflict(f"group {group!r} has no record that a row could stand beside")
    found = db.execute(ROW_MARK, (order.prefix, group, row.instance)).fetchone()
    if found is not None and not order.row.force and row.seq <= found[0]:
        raise StaleSequence(f"instance {row.instance!r} has been renewed by seq {found[0]}")


def _put_records(db: sqlite3.Connection, work: Work) -> None:
    order = work.order
    if order.stream is not None:
        value = order.stream.value
        live = isinstance(value, LIVE)
        db.execute(PUT_STREAM, (order.prefix, live, *attrs.astuple(value.version), work.stream))
    for change, body in zip(order.groups, work.groups, strict=True):
        if change.value is not None:
            names = (change.key.prefix, change.key.group)
            live = isinstance(change.value, LIVE)
            db.execute(PUT_GROUP, (*names, live, *attrs.astuple(change.value.version), body))
            if not live:
                db.execute(DROP_ROWS, names)


def _put_rows(db: sqlite3.Connection, work: Work) -> None:
    order = work.order
    for group, instance in order.drop_rows:
        db.execute(DROP_ROW, (order.prefix, group, instance))
    if order.row is not None:
        row: Row = order.row.row
        db.execute(PUT_ROW, (order.prefix, order.row.group, row.instance, row.seq, row.mark, work.row))
