"""Looking into shards for people: how long, how far behind, what is in there. It never changes anything."""

import enum
from collections.abc import Sequence
from typing import Protocol

import attrs

from streamshard.core.ids import GroupName, RecordId, ShardIndex, StreamPrefix

PLAUSIBLE_MS = 100_000_000_000
"""Unix milliseconds of 1973: an id below was not made from a clock, so it has no age."""


@attrs.frozen
class GroupLook:
    """One consumer group on a shard."""

    last_delivered: RecordId
    pending: int
    lag: int | None
    """What the server counts as undelivered; None where it can't tell."""
    oldest_pending: RecordId | None
    first_undelivered: RecordId | None
    missed: int | None = None
    """Records that were removed before the group had read them, as far as a coordinator has counted; None: unknown."""
    missed_exact: bool = True
    """False: ``missed`` is the least it can be."""


@attrs.frozen
class ShardLook:
    """One shard, all of it seen at one moment."""

    shard: ShardIndex
    exists: bool
    length: int = 0
    first_id: RecordId | None = None
    last_id: RecordId | None = None
    last_generated: RecordId | None = None
    group: GroupLook | None = None
    """None if the group is not there."""
    node: str | None = None
    """The server that was asked, ``host:port``."""
    memory_bytes: int | None = None
    now_ms: int | None = None
    """The server's own clock, which record ids come from."""

    @property
    def pending(self) -> int | None:
        """Delivered and not acknowledged; None if nobody can tell."""
        return None if self.group is None else self.group.pending

    @property
    def lag(self) -> int | None:
        """Undelivered. What is really in the stream counts for more than the server's counter, which may be off."""
        group = self.group
        if group is None:
            return None
        if group.first_undelivered is None:
            return 0
        return group.lag or None

    @property
    def missed(self) -> int | None:
        """Removed before the group had read them; None if nobody can tell."""
        return None if self.group is None else self.group.missed

    @property
    def missed_exact(self) -> bool:
        """False: ``missed`` is the least it can be."""
        return self.group is None or self.group.missed_exact

    @property
    def waiting(self) -> int:
        """What is known to wait for a consumer: one at least where the server has lost count."""
        group = self.group
        if group is None:
            return 0
        undelivered = 0 if group.first_undelivered is None else max(1, group.lag or 0)
        return group.pending + undelivered

    @property
    def oldest_unacked_ms(self) -> int | None:
        """The age of the oldest record that the group has not acknowledged; 0 if there is none, None if unknown."""
        if self.group is None or self.now_ms is None:
            return None
        waiting = [milliseconds(i) for i in (self.group.oldest_pending, self.group.first_undelivered) if i is not None]
        if not waiting:
            return 0
        return max(0, self.now_ms - min(waiting)) if min(waiting) >= PLAUSIBLE_MS else None


def milliseconds(record: RecordId) -> int:
    """The time in a record's id."""
    return int(record.partition("-")[0])


class Direction(enum.Enum):
    """From which end a page of records is read."""

    FORWARD = "FORWARD"
    BACKWARD = "BACKWARD"


@attrs.frozen
class Wanted:
    """A page to be read: at most ``limit`` records behind ``cursor``, or from the end that ``direction`` begins at."""

    direction: Direction
    limit: int
    cursor: RecordId | None = None


@attrs.frozen
class Entry:
    """A record as it stands in the stream: fields in their order, repeated names and all."""

    id: RecordId
    fields: tuple[tuple[bytes, bytes], ...]


@attrs.frozen
class Page:
    """Some records, and from where to go on; ``cursor`` is None where there are no more."""

    entries: tuple[Entry, ...]
    cursor: RecordId | None = None


class StreamInspector(Protocol):
    """The monitoring's side of Redis; reads only. Raises `StreamUnavailable` if Redis does not answer."""

    async def look(self, prefix: StreamPrefix, shards: Sequence[ShardIndex], group: GroupName) -> tuple[ShardLook, ...]:
        """Look at shards, each in one atomic step, in one round trip to each server; in the order of ``shards``."""
        ...

    async def pages(self, prefix: StreamPrefix, shards: Sequence[ShardIndex], wanted: Wanted) -> tuple[Page, ...]:
        """Read a page of each shard, in one round trip to each server; in the order of ``shards``."""
        ...
