"""How far a group is behind, shard by shard and in all. Unknown is None, and makes every sum unknown."""

from collections.abc import Iterable

import attrs

from streamshard.core.group import ShardProgress
from streamshard.core.ids import MemberId
from streamshard.core.inspection import ShardLook
from streamshard.core.queries import GroupView


@attrs.frozen
class ShardOffset:
    """A shard as Redis shows it, and as its owner last reported on it."""

    look: ShardLook
    owner: MemberId | None = None
    progress: ShardProgress | None = None


@attrs.frozen
class Offsets:
    """A group's shards, by index."""

    view: GroupView
    shards: tuple[ShardOffset, ...]

    @property
    def length(self) -> int | None:
        """Records in all shards."""
        return _sum(s.look.length if s.look.exists else None for s in self.shards)

    @property
    def pending(self) -> int | None:
        """Delivered and not acknowledged."""
        return _sum(s.look.pending for s in self.shards)

    @property
    def lag(self) -> int | None:
        """Undelivered."""
        return _sum(s.look.lag for s in self.shards)

    @property
    def missed(self) -> int | None:
        """Removed before the group had read them."""
        return _sum(s.look.missed for s in self.shards)

    @property
    def missed_exact(self) -> bool:
        """False: ``missed`` is the least it can be."""
        return all(s.look.missed_exact for s in self.shards)

    @property
    def memory_bytes(self) -> int | None:
        """Of all shards."""
        return _sum(s.look.memory_bytes for s in self.shards)

    @property
    def oldest_unacked_ms(self) -> int | None:
        """The age of the oldest record that is not acknowledged."""
        ages = [s.look.oldest_unacked_ms for s in self.shards]
        return None if any(age is None for age in ages) else max((age or 0 for age in ages), default=0)

    @property
    def backlog(self) -> int:
        """What is known to wait: undelivered and pending, at least 1 for a shard whose server has lost count."""
        return sum(shard.look.waiting for shard in self.shards)


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)


def offsets(view: GroupView, looks: Iterable[ShardLook]) -> Offsets:
    """Put what Redis shows beside what the owners report."""
    return Offsets(view, tuple(_offset(view, look) for look in looks))


def _offset(view: GroupView, look: ShardLook) -> ShardOffset:
    holding = view.record.holdings.get(look.shard)
    if holding is None:
        return ShardOffset(look)
    row = view.rows.get(holding.instance)
    progress = next((p for p in row.progress if p.shard == look.shard), None) if row is not None else None
    return ShardOffset(look, holding.member, progress)


@attrs.frozen
class Advice:
    """How many members would do; more than one a shard would be idle."""

    backlog: int
    lag: int | None
    pending: int | None
    shards: int
    suggested: int


def advise(found: Offsets, per_replica: int) -> Advice:
    """One member for every ``per_replica`` records that wait, none for none, never more than shards."""
    shards = len(found.shards)
    suggested = min(shards, -(-found.backlog // per_replica))
    return Advice(found.backlog, found.lag, found.pending, shards, suggested)


NOTHING_TO_DO = Advice(0, 0, 0, 0, 0)
"""What a group that does not exist needs."""
