"""Records in this process's memory: for tests, simulations and trying things out."""

import contextlib
import enum
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NoReturn, TypeVar

import attrs

from streamshard.adapters.stores.codec import AnyGroup, AnyStream
from streamshard.core.group import GroupRecord, Row
from streamshard.core.ids import GroupKey, InstanceId, StreamPrefix, Version
from streamshard.core.ports import GroupSnapshot, RowWrite, StoreSource, StreamSnapshot, Transaction
from streamshard.core.stream import StreamRecord
from streamshard.errors import (
    CommitUncertain,
    RevisionConflict,
    SourceChanged,
    StaleSequence,
    StoreSignal,
    StoreUnavailable,
)

REMEMBERED_COMMITS = 256
"""How far back `MemoryStore.lose_suffix` can go."""

K = TypeVar("K")
V = TypeVar("V")


class Fault(enum.Enum):
    """What may befall the next call."""

    UNAVAILABLE = "UNAVAILABLE"  # the next call of any kind fails, nothing done
    UNCERTAIN_APPLIED = "UNCERTAIN_APPLIED"  # the next commit is applied, its answer lost
    UNCERTAIN_LOST = "UNCERTAIN_LOST"  # the next commit is lost on its way


@attrs.define
class _Shelf:
    """What several connections share."""

    identity: str
    streams: dict[StreamPrefix, AnyStream] = attrs.field(factory=dict)
    groups: dict[GroupKey, AnyGroup] = attrs.field(factory=dict)
    rows: dict[GroupKey, dict[InstanceId, Row]] = attrs.field(factory=dict)
    undo: deque[list[Callable[[], object]]] = attrs.field(factory=lambda: deque(maxlen=REMEMBERED_COMMITS))


class MemoryStore:
    """The `MetadataStore` port in memory; no method ever suspends.

    One store may be shared, or each coordinator gets a connection of its own from `connect`. The methods
    after `close` are for simulations: they make the store behave as badly as a real one may.
    """

    def __init__(self, identity: str = "memory:1") -> None:
        self._shelf = _Shelf(identity)
        self._connection = 1
        self._source = StoreSource(identity, self._connection)
        self._faults: deque[Fault] = deque()
        self._closed = False

    @property
    def source(self) -> StoreSource:
        """What every answer names as its source."""
        if self._source.identity != self._shelf.identity or self._source.connection != self._connection:
            self._source = StoreSource(self._shelf.identity, self._connection)
        return self._source

    def connect(self) -> "MemoryStore":
        """Another connection to the same records, with its own faults and connection number."""
        other = MemoryStore()
        other._shelf = self._shelf
        return other

    async def load_stream(self, prefix: StreamPrefix) -> StreamSnapshot:
        """Read one stream's record."""
        self._answer()
        return StreamSnapshot(self.source, self._shelf.streams.get(prefix))

    async def load_group(self, key: GroupKey) -> GroupSnapshot:
        """Read one group's record and rows."""
        self._answer()
        rows = self._shelf.rows.get(key, {})
        return GroupSnapshot(self.source, self._shelf.groups.get(key), MappingProxyType(dict(sorted(rows.items()))))

    async def commit(self, transaction: Transaction) -> None:
        """Apply atomically; see the port for what is refused and how."""
        if self._closed or self._faults:
            self._answer()
        if self._faults:
            self._fail(transaction, self._faults.popleft())
        if not self._renew(transaction):
            self._apply(transaction)

    async def prefixes(self) -> tuple[StreamPrefix, ...]:
        """Every stream that has a record, sorted."""
        self._answer()
        streams = self._shelf.streams.items()
        return tuple(sorted(prefix for prefix, record in streams if isinstance(record, StreamRecord)))

    async def versions(self, keys: Sequence[GroupKey | StreamPrefix]) -> Mapping[GroupKey | StreamPrefix, Version]:
        """The version of each record that there is, tombstones too."""
        self._answer()
        found: dict[GroupKey | StreamPrefix, Version] = {}
        for key in keys:
            record = self._shelf.groups.get(key) if isinstance(key, GroupKey) else self._shelf.streams.get(key)
            if record is not None:
                found[key] = record.version
        return found

    async def close(self) -> None:
        """Refuse every later call over this connection; the records stay for the others."""
        self._closed = True

    def fail_next(self, fault: Fault) -> None:
        """Let the next call over this connection fail; further faults queue up behind."""
        self._faults.append(fault)

    def reconnect(self) -> None:
        """Go on over a new connection, as after a broken one."""
        self._connection += 1

    def replace_identity(self, identity: str) -> None:
        """Claim to be another store from now on, for every connection."""
        self._shelf.identity = identity

    def put_back(self, record: GroupRecord, rows: Mapping[InstanceId, Row]) -> None:
        """Have a group stored as it was at some moment, whatever has been committed since; silent."""
        self._shelf.groups[record.key] = record
        self._shelf.rows[record.key] = dict(rows)
        self._shelf.undo.clear()

    def lose_rows(self) -> None:
        """Forget every renewal row, as a crash may."""
        self._shelf.rows.clear()

    def lose_suffix(self, commits: int) -> int:
        """Forget the last so many commits that changed records; returns how many were still remembered.

        Silent: to be a failover that the coordinators notice, `reconnect` them as well. Rows of groups
        that are back to having no record go too.
        """
        lost = min(commits, len(self._shelf.undo))
        for _ in range(lost):
            for step in reversed(self._shelf.undo.pop()):
                step()
        for key in [key for key in self._shelf.rows if not self._live(key)]:
            del self._shelf.rows[key]
        return lost

    def _answer(self) -> None:
        if self._closed:
            raise StoreUnavailable("this metadata store has been closed")
        if self._faults and self._faults[0] is Fault.UNAVAILABLE:
            self._faults.popleft()
            raise StoreUnavailable("the metadata store does not answer")

    def _fail(self, transaction: Transaction, fault: Fault) -> NoReturn:
        if fault is Fault.UNCERTAIN_APPLIED:
            with contextlib.suppress(StoreSignal):
                self._apply(transaction)
        raise CommitUncertain(f"the answer to a commit of stream {transaction.prefix!r} was lost")

    def _renew(self, transaction: Transaction) -> bool:
        """Write a newer row beside a record that is what it was: nearly every commit is no more than this.

        False, with nothing done, for whatever is more or does not plainly hold: that is for `_apply` to judge.
        """
        groups, write, shelf, source = transaction.groups, transaction.row, self._shelf, transaction.source
        if write is None or len(groups) != 1 or source is not self._source or source.identity is not shelf.identity:
            return False
        if (
            transaction.same_rows
            or transaction.drop_rows
            or transaction.stream
            or source.connection != self._connection
        ):
            return False
        change, row = groups[0], write.row
        record, rows = shelf.groups.get(change.key), shelf.rows.get(change.key)
        if rows is None or record is None or record.version is not change.expected or change.value is not None:
            return False
        stored = rows.get(row.instance)
        if stored is None or row.seq <= stored.seq or change.key.group != write.group:
            return False
        rows[row.instance] = row
        return True

    def _apply(self, transaction: Transaction) -> None:
        self._compare(transaction)
        undo: list[Callable[[], object]] = []
        if (change := transaction.stream) is not None:
            _put(self._shelf.streams, transaction.prefix, change.value, undo)
        for group in transaction.groups:
            if group.value is not None:
                self._write_group(group.key, group.value, undo)
        if undo:
            self._shelf.undo.append(undo)
        for name, instance in transaction.drop_rows:
            self._shelf.rows.get(GroupKey(transaction.prefix, name), {}).pop(instance, None)
        if (write := transaction.row) is not None:
            self._shelf.rows.setdefault(_beside(transaction, write), {})[write.row.instance] = write.row

    def _write_group(self, key: GroupKey, value: AnyGroup, undo: list[Callable[[], object]]) -> None:
        _put(self._shelf.groups, key, value, undo)
        if not isinstance(value, GroupRecord):
            self._shelf.rows.pop(key, None)

    def _compare(self, transaction: Transaction) -> None:
        if transaction.source is not self.source and transaction.source != self.source:
            raise SourceChanged(f"the metadata store is {self.source}, not {transaction.source}")
        self._compare_records(transaction)
        for (name, instance), mark in transaction.same_rows.items():
            row = self._row(GroupKey(transaction.prefix, name), instance)
            if (row.mark if row is not None else None) != mark:
                raise RevisionConflict(f"the row of instance {instance!r} in group {name!r} has moved on")
        if transaction.row is not None:
            self._check_row(transaction, transaction.row)

    def _compare_records(self, transaction: Transaction) -> None:
        if (change := transaction.stream) is not None:
            if not _is(self._shelf.streams.get(transaction.prefix), change.expected):
                raise RevisionConflict(f"stream {transaction.prefix!r} has moved on")
        for group in transaction.groups:
            if not _is(self._shelf.groups.get(group.key), group.expected):
                raise RevisionConflict(f"group {str(group.key)!r} has moved on")

    def _check_row(self, transaction: Transaction, write: RowWrite) -> None:
        key = _beside(transaction, write)
        written = [change.value for change in transaction.groups if change.value is not None and change.key == key]
        if not isinstance(written[-1] if written else self._shelf.groups.get(key), GroupRecord):
            raise RevisionConflict(f"group {str(key)!r} has no record that a row could stand beside")
        stored = self._row(key, write.row.instance)
        if stored is not None and not write.force and write.row.seq <= stored.seq:
            raise StaleSequence(f"instance {write.row.instance!r} has been renewed by seq {stored.seq}")

    def _row(self, key: GroupKey, instance: InstanceId) -> Row | None:
        return self._shelf.rows.get(key, {}).get(instance)

    def _live(self, key: GroupKey) -> bool:
        return isinstance(self._shelf.groups.get(key), GroupRecord)


def _beside(transaction: Transaction, write: RowWrite) -> GroupKey:
    """The key of the row's record; the very one that the transaction names, if it does, as that is found faster."""
    for change in transaction.groups:
        if change.key.group == write.group:
            return change.key
    return GroupKey(transaction.prefix, write.group)


def _is(stored: AnyStream | AnyGroup | None, expected: Version | None) -> bool:
    version = stored.version if stored is not None else None
    return version is expected or version == expected


def _put(table: dict[K, V], key: K, value: V, undo: list[Callable[[], object]]) -> None:
    if key in table:
        undo.append(partial(table.__setitem__, key, table[key]))
    else:
        undo.append(partial(table.pop, key, None))
    table[key] = value
