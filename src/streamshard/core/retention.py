"""Which shards to trim now. What may go from a shard is decided where it is done, in one step with the look at it.

A stream with retention ``acknowledged`` loses what none of its groups needs any more. Of the others nothing goes;
they are looked at all the same, to count what producers and operators removed before it was read.
"""

import enum
from collections.abc import Collection

import attrs

from streamshard.core.effects import Trim, Trimmed
from streamshard.core.ids import GroupName, Instant, Millis, ShardIndex
from streamshard.core.stream import EntryState, Retention, ShardPhase, StreamRecord, StreamState
from streamshard.core.stream_shape import in_phase, registered

RECORDS_A_TRIM = 50_000
"""How many records a server removes at most before it answers others: a few milliseconds."""

SHARDS_A_ROUND = 64
"""How many shards of a stream a tick looks at."""


@attrs.define
class TrimSight:
    """When this coordinator last looked at each shard of a stream, and which group held it back."""

    groups: tuple[GroupName, ...] = ()
    """The registered groups when it looked: another one is looked at as soon as it is in use."""
    looked: dict[ShardIndex, Instant] = attrs.field(factory=dict)
    holders: dict[ShardIndex, GroupName] = attrs.field(factory=dict)

    def observe(self, record: StreamRecord) -> None:
        """Take in a fresh load."""
        if self.groups != registered(record):
            self.groups = registered(record)
            self.looked.clear()

    def hear(self, order: Trim, answer: Trimmed, now: Instant) -> None:
        """Take in an answer; where about as much went as could, there is more, and the next round goes on."""
        self.looked[order.shard] = now
        if order.limit and answer.removed >= order.limit // 2:
            del self.looked[order.shard]
        self.holders.pop(order.shard, None)
        if answer.holder is not None:
            self.holders[order.shard] = answer.holder

    def is_due(self, shard: ShardIndex, now: Instant, every: Millis) -> bool:
        """Whether it is time to look at a shard."""
        return shard not in self.looked or now - self.looked[shard] >= every


class Doubt(enum.Enum):
    """Why nothing of a stream is touched."""

    UNSETTLED = "the stream or one of its groups is being made or removed"
    NOBODY = "nobody reads it"
    GROUP = "a group's record is not to be trusted just now"


def doubt(record: StreamRecord, sound: Collection[GroupName]) -> Doubt | None:
    """Why nothing may be trimmed; None if every group is in use and among the ``sound`` ones."""
    entries = record.groups.values()
    if record.state is not StreamState.ACTIVE or any(entry.state is not EntryState.ACTIVE for entry in entries):
        return Doubt.UNSETTLED
    if not entries:
        return Doubt.NOBODY
    return None if all(name in sound for name in record.groups) else Doubt.GROUP


def trims(
    record: StreamRecord, sight: TrimSight, doubtful: Collection[ShardIndex], now: Instant, every: Millis
) -> tuple[Trim, ...]:
    """The looks that are due at open shards, those first that were not looked at longest.

    A shard that is drained is left alone: it goes as a whole, once it is proven empty.
    """
    open_shards = [shard for shard in in_phase(record, ShardPhase.OPEN) if shard.index not in doubtful]
    due = [shard for shard in open_shards if sight.is_due(shard.index, now, every)]
    due.sort(key=lambda shard: (sight.looked.get(shard.index, -1), shard.index))
    limit = RECORDS_A_TRIM if record.retention is Retention.ACKNOWLEDGED else 0
    names = registered(record)
    return tuple(
        Trim(record.prefix, shard.index, shard.generation, record.layout_version, names, limit)
        for shard in due[:SHARDS_A_ROUND]
    )
