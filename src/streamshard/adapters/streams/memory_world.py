"""Streams as a Redis server keeps them, in this process: entries, groups, pending lists, lag and fences."""

import copy
from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs

from streamshard.adapters.streams.record_ids import id_order, id_text
from streamshard.core.ids import Generation, GroupName, LayoutVersion, RecordId, Token
from streamshard.core.records import Record
from streamshard.errors import StreamUnavailable

Id: TypeAlias = tuple[int, int]
ZERO_ID: Id = (0, 0)


@attrs.define
class Pending:
    """A record that was delivered and not acknowledged."""

    consumer: str
    deliveries: int = 1


@attrs.define
class Group:
    """A consumer group of one stream."""

    last_delivered: Id
    entries_read: int | None = None
    pending: dict[Id, Pending] = attrs.field(factory=dict)
    consumers: set[str] = attrs.field(factory=set)

    def held_by(self, consumer: str) -> int:
        """How many records are pending under a name."""
        return sum(entry.consumer == consumer for entry in self.pending.values())


@attrs.define
class Stream:
    """One stream key, with the counters from which a server works out the lag."""

    entries: dict[Id, dict[bytes, bytes]] = attrs.field(factory=dict)
    groups: dict[GroupName, Group] = attrs.field(factory=dict)
    last_id: Id = ZERO_ID
    added: int = 0
    highest_deleted: Id = ZERO_ID

    def create_group(self, name: GroupName, start_id: str) -> None:
        """Make a group; ``$`` starts behind the last record."""
        if start_id == "$":
            self.groups[name] = Group(self.last_id, self.added)
        else:
            self.groups[name] = Group(id_order(start_id))

    def add(self, milliseconds: int, fields: dict[bytes, bytes], max_len: int | None) -> Id:
        """Append an entry under the next id."""
        last_ms, last_seq = self.last_id
        self.last_id = (milliseconds, 0) if milliseconds > last_ms else (last_ms, last_seq + 1)
        self.entries[self.last_id] = fields
        self.added += 1
        while max_len is not None and len(self.entries) > max_len:
            del self.entries[min(self.entries)]
        return self.last_id

    def delete(self, entry: Id) -> None:
        """Delete one entry, as XDEL does: the counters are off from then on."""
        if self.entries.pop(entry, None) is not None:
            self.highest_deleted = max(self.highest_deleted, entry)

    def after(self, position: Id) -> list[Id]:
        """The entries behind a position, in order."""
        return [entry for entry in self.entries if entry > position]

    def deliver(self, name: GroupName, consumer: str, count: int) -> tuple[Record, ...]:
        """Give the next records of a group to a consumer."""
        group = self.groups[name]
        group.consumers.add(consumer)
        chosen = self.after(group.last_delivered)[:count]
        for entry in chosen:
            group.last_delivered = entry
            group.pending[entry] = Pending(consumer)
            group.entries_read = self._read_after(group.entries_read, entry)
        return tuple(Record(id_text(entry), dict(self.entries[entry])) for entry in chosen)

    def take_over(self, name: GroupName, consumer: str, page: list[Id], counting: int = 1) -> tuple[Record, ...]:
        """Give pending records to a consumer; what was deleted meanwhile leaves the pending list."""
        group = self.groups[name]
        group.consumers.add(consumer)
        return tuple(self._take_over_one(group, consumer, entry, counting) for entry in page)

    def delete_if_acknowledged(self, entry: Id) -> None:
        """Delete an entry that no group has still to read or to acknowledge."""
        wanted = any(entry in g.pending or g.last_delivered < entry for g in self.groups.values())
        if not wanted:
            self.delete(entry)

    def lag(self, group: Group) -> int | None:
        """What a server says is undelivered; None where it has lost count."""
        if not self.entries:
            return 0
        first = min(self.entries)
        if group.last_delivered < first > self.highest_deleted:
            return len(self.entries)
        read = group.entries_read
        if read is None or self._deleted_from(group.last_delivered):
            read = self._estimate(group.last_delivered)
        return None if read is None else self.added - read

    def _take_over_one(self, group: Group, consumer: str, entry: Id, counting: int) -> Record:
        if entry not in self.entries:
            del group.pending[entry]
            return Record(id_text(entry), None)
        held = group.pending[entry]
        group.pending[entry] = Pending(consumer, held.deliveries + counting)
        return Record(id_text(entry), dict(self.entries[entry]), held.deliveries + counting)

    def _read_after(self, read: int | None, entry: Id) -> int | None:
        if read is not None and not self._deleted_from(entry):
            return read + 1
        return self._estimate(entry)

    def _deleted_from(self, position: Id) -> bool:
        return bool(self.entries) and position <= self.highest_deleted != ZERO_ID

    def _estimate(self, position: Id) -> int | None:
        # How many entries were ever added up to a position: a server knows it at the ends only.
        if position == self.last_id or (not self.entries and position < self.last_id):
            return self.added
        if not self.entries or position > self.last_id or ZERO_ID < position < self.highest_deleted:
            return None
        first = min(self.entries)
        if self.highest_deleted >= first or position > first:
            return None
        return self.added - len(self.entries) + (position == first)


@attrs.define
class Tally:
    """How many records a group missed: they were removed before it had read them."""

    base: int | None = None
    """Up to which of all records ever added the group was accounted for."""
    total: int = 0
    exact: bool = True
    looked: bool = False
    """False: made with the group, and nobody has counted yet."""


@attrs.define
class Fence:
    """The marks beside a shard's key."""

    generation: Generation | None = None
    sealed: bool = False
    layout: LayoutVersion | None = None
    tokens: dict[GroupName, Token] = attrs.field(factory=dict)
    tallies: dict[GroupName, Tally] = attrs.field(factory=dict)

    def later_than(self, generation: Generation, layout: LayoutVersion) -> bool:
        """A later life or layout of the shard is known than an order's."""
        return (self.generation or 0) > generation or (self.layout or 0) > layout

    def sealed_in(self, generation: Generation) -> bool:
        """This very life of the shard is retired."""
        return self.sealed and self.generation == generation


@attrs.frozen
class Checkpoint:
    """What a `MemoryStreams` held at one moment."""

    streams: dict[str, Stream]
    fences: dict[str, Fence]


class MemoryStreams:
    """What two adapters share instead of a server; for one thread.

    Record ids come from ``wall`` (Unix milliseconds), or from a counter if none is given.
    """

    def __init__(self, wall: Callable[[], int] | None = None) -> None:
        self.streams: dict[str, Stream] = {}
        self.fences: dict[str, Fence] = {}
        self._wall = wall
        self._count = 0
        self._down = False
        self._listeners: list[Callable[[], None]] = []

    def entries(self, key: str) -> tuple[Record, ...]:
        """Every record of a key, in order."""
        stream = self.streams.get(key, Stream())
        return tuple(Record(id_text(entry), dict(fields)) for entry, fields in stream.entries.items())

    def lose_shard(self, key: str) -> None:
        """Delete a key with its groups, as DEL does; the fence stays."""
        self.streams.pop(key, None)

    def lose_group(self, key: str, group: GroupName) -> None:
        """Destroy a group, as an operator might."""
        if key in self.streams:
            self.streams[key].groups.pop(group, None)

    def forget_fence(self, key: str) -> None:
        """Lose the marks beside a key."""
        self.fences.pop(key, None)

    def delete_record(self, key: str, record: RecordId) -> None:
        """Delete one record, as XDEL does."""
        self.streams[key].delete(id_order(record))

    def create_foreign(self, key: str, groups: tuple[GroupName, ...] = ()) -> None:
        """Make a key with groups that nobody ordered, or add groups to one."""
        stream = self.streams.setdefault(key, Stream())
        for name in groups:
            stream.create_group(name, "0")

    def add(self, key: str, fields: Mapping[bytes, bytes], max_len: int | None = None) -> RecordId | None:
        """Append a record to a key; None if there is no such key."""
        self.check_up()
        stream = self.streams.get(key)
        if stream is None:
            return None
        added = stream.add(self._milliseconds(), dict(fields), max_len)
        for listener in tuple(self._listeners):
            listener()
        return id_text(added)

    def go_down(self) -> None:
        """Answer nothing from now on."""
        self._down = True

    def come_back(self) -> None:
        """Answer again, with everything as it was."""
        self._down = False

    def check_up(self) -> None:
        """Raise `StreamUnavailable` while down."""
        if self._down:
            raise StreamUnavailable("The streams in memory are down")

    def checkpoint(self) -> Checkpoint:
        """Everything as it is now."""
        return copy.deepcopy(Checkpoint(self.streams, self.fences))

    def roll_back(self, checkpoint: Checkpoint) -> None:
        """Lose every write since a checkpoint, as a failover may."""
        kept = copy.deepcopy(checkpoint)
        self.streams, self.fences = kept.streams, kept.fences

    def listen(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after each append, until it is `unlisten`ed."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call it no more."""
        self._listeners.remove(listener)

    def _milliseconds(self) -> int:
        if self._wall is not None:
            return self._wall()
        self._count += 1
        return self._count
