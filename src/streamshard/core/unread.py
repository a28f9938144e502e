"""Assigned but not read: shards that somebody holds, could read, and does not.

It is judged on what members tell of themselves with each heartbeat, for people to read and for no decision. Ages
are the member's own, on its own boot clock: nothing here compares clocks. A shard is not to be read while it is
given up, while a handler of it runs, and while none of its member's workers is free: then the member is busy,
which is told as such. A member that does not tell when it read is never said to be remiss.
"""

from collections.abc import Collection, Mapping

import attrs

from streamshard.core.chronicle import Event
from streamshard.core.group import GroupRecord, Holding, Row, ShardProgress
from streamshard.core.ids import GroupKey, InstanceId, MemberId, Millis, ShardIndex

UNREAD_BEATS = 3
"""After so many heartbeats without a read; a reader that is well reads an empty shard about once a second."""


@attrs.frozen
class Unread:
    """A shard that went without a read for too long, as its owner itself tells."""

    member: MemberId
    for_ms: Millis
    read_state: str


def unread_for(progress: ShardProgress, available: int, heartbeat: Millis) -> Millis | None:
    """How long a shard has gone without a read that it should have had; None: as it should be, or unknown."""
    ago = progress.read_ago
    if ago is None or ago <= UNREAD_BEATS * heartbeat:
        return None
    return None if progress.in_flight or not available or progress.read_state == "DRAINING" else ago


def unread_shards(record: GroupRecord, rows: Mapping[InstanceId, Row], heartbeat: Millis) -> dict[ShardIndex, Unread]:
    """The shards of a group that are assigned and not read, by index."""
    found: dict[ShardIndex, Unread] = {}
    for instance, row in rows.items():
        for progress in row.progress:
            ago = unread_for(progress, row.available, heartbeat)
            holding = record.holdings.get(progress.shard)
            if ago is not None and holding is not None and _to_be_read(record, progress.shard, holding, instance):
                found[progress.shard] = Unread(holding.member, ago, progress.read_state)
    return dict(sorted(found.items()))


def _to_be_read(record: GroupRecord, shard: ShardIndex, holding: Holding, instance: InstanceId) -> bool:
    if holding.instance != instance or holding.draining or holding.lapsed:
        return False
    return record.targets.get(shard) == holding.member


def longest_handling(row: Row) -> Millis | None:
    """How long the handler has been running that runs longest; None if none runs, or for no time worth telling."""
    return max((p.handling_for for p in row.progress if p.handling_for is not None), default=None)


class UnreadWatch:
    """What ticks have found assigned and not read; told once when it begins and once when it is over."""

    def __init__(self) -> None:
        self._found: dict[GroupKey, Mapping[ShardIndex, Unread]] = {}

    def look(self, record: GroupRecord, rows: Mapping[InstanceId, Row], heartbeat: Millis) -> tuple[Event, ...]:
        """Take in a group as it is now; returns what there is to tell of it."""
        before, now = self.of(record.key), unread_shards(record, rows, heartbeat)
        if not now and not before:
            return ()
        self._found[record.key] = now
        begun = [_event(record, "unread", s, _why(u)) for s, u in now.items() if not _same(before.get(s), u)]
        over = [_event(record, "read-again", s, f"by {u.member}, or it is no longer its") for s, u in before.items()]
        return (*begun, *(event for event in over if event.shard not in now))

    def of(self, key: GroupKey) -> Mapping[ShardIndex, Unread]:
        """Of one group, as the last tick found it."""
        return self._found.get(key, {})

    def lines(self) -> tuple[str, ...]:
        """All of them, each in a sentence."""
        return tuple(
            f"{key} shard {shard}: {_why(unread)}"
            for key, found in sorted(self._found.items())
            for shard, unread in found.items()
        )

    def keep(self, keys: Collection[GroupKey]) -> None:
        """Forget every group but these."""
        self._found = {key: found for key, found in self._found.items() if key in keys}


def _same(before: Unread | None, now: Unread) -> bool:
    return before is not None and before.member == now.member


def _event(record: GroupRecord, kind: str, shard: ShardIndex, text: str) -> Event:
    return Event(kind, record.key.prefix, text, record.key.group, shard)


def _why(unread: Unread) -> str:
    why = (
        "its key or its group is missing in Redis"
        if unread.read_state == "MISSING"
        else "no handler of it runs, so it could"
    )
    return f"{unread.member} holds it and has not read it for {unread.for_ms // 1000} s: {why}"
