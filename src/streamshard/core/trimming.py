"""Trimming at every tick: a few shards at a time, and a word to the operator where records went unread."""

from collections.abc import Iterable, Mapping, Set

import attrs

from streamshard.core.chronicle import TRIMMED_UNREAD, Event
from streamshard.core.desk import Desk, KnownGroup
from streamshard.core.effects import Missed, Trim, TrimVerdict
from streamshard.core.ids import GroupKey, GroupName, Instant, Millis, ShardIndex, StreamPrefix
from streamshard.core.ports import Trimming
from streamshard.core.retention import TrimSight, doubt, trims
from streamshard.core.stream import StreamRecord
from streamshard.core.stream_work import StreamWork

TELL_EVERY_MS = Millis(60_000)
"""How often an operator hears of one group's losses; they add up in between."""


@attrs.define
class Losses:
    """What a group missed since that was last told."""

    found: int = 0
    exact: bool = True
    shards: set[ShardIndex] = attrs.field(factory=set)
    told_at: Instant | None = None

    def add(self, missed: Missed, shard: ShardIndex) -> None:
        """One more find."""
        self.found += missed.found
        self.exact &= missed.exact
        self.shards.add(shard)

    def text(self) -> str:
        """For the log."""
        least = "" if self.exact else "at least "
        records = "1 record was" if self.found == 1 else f"{self.found} records were"
        where = ", ".join(str(shard) for shard in sorted(self.shards))
        return (
            f"{least}{records} removed from shard {where} before this group had read them: a producer's max_len or "
            "somebody's XTRIM or XDEL is ahead of it"
        )


class Trimmer:
    """Looks at shards in turn, and has what is not needed any more removed where the stream's retention says so."""

    def __init__(self, desk: Desk, work: StreamWork) -> None:
        self._desk = desk
        self._work = work
        self._sights: dict[StreamPrefix, TrimSight] = {}
        self._losses: dict[GroupKey, Losses] = {}
        self.found: dict[GroupKey, int] = {}
        """How many unread records this coordinator found gone since it began; no group it could not look at."""

    def holders(self, prefix: StreamPrefix) -> Mapping[ShardIndex, GroupName]:
        """The group that needs the oldest record of each shard, as last seen."""
        return dict(self._sights.get(prefix, TrimSight()).holders)

    def forget_streams(self, present: Set[StreamPrefix]) -> None:
        """Drop what was seen of every stream but these."""
        self._sights = {prefix: sight for prefix, sight in self._sights.items() if prefix in present}
        self._keep({key for key in self.found if key.prefix in present})

    def _keep(self, keys: Set[GroupKey]) -> None:
        self._losses = {key: losses for key, losses in self._losses.items() if key in keys}
        self.found = {key: count for key, count in self.found.items() if key in keys}

    async def round(self, record: StreamRecord, groups: Iterable[KnownGroup]) -> None:
        """One round for one stream; nothing while anything about it is in doubt."""
        streams, here = self._desk.streams, {GroupKey(record.prefix, name) for name in record.groups}
        self._keep({key for key in self.found if key.prefix != record.prefix or key in here})
        if not isinstance(streams, Trimming) or doubt(record, {g.record.key.group for g in groups if _is_sound(g)}):
            return
        sight = self._sights.setdefault(record.prefix, TrimSight())
        sight.observe(record)
        doubtful, every = self._work.sight(record).superseded, self._desk.settings.trim_every_ms
        orders = trims(record, sight, doubtful, self._desk.clock.boot(), every)
        answers = await streams.trim(orders) if orders else ()
        now = self._desk.clock.boot()
        for order, answer in zip(orders, answers, strict=True):
            sight.hear(order, answer, now)
            if answer.verdict is TrimVerdict.DONE:
                self._count(order, answer.missed, now)
        self._tell(here, now)

    def _count(self, order: Trim, missed: Iterable[Missed], now: Instant) -> None:
        for one in missed:
            key = GroupKey(order.prefix, one.group)
            self.found[key] = self.found.get(key, 0) + one.found
            if one.found:
                self._losses.setdefault(key, Losses()).add(one, order.shard)

    def _tell(self, keys: Set[GroupKey], now: Instant) -> None:
        for key in sorted(keys & self._losses.keys()):
            losses = self._losses[key]
            if losses.found and (losses.told_at is None or now - losses.told_at >= TELL_EVERY_MS):
                self._desk.note([Event(TRIMMED_UNREAD, key.prefix, losses.text(), key.group)])
                self._losses[key] = Losses(told_at=now)


def _is_sound(known: KnownGroup) -> bool:
    """Its record is proven to be the newest, and nothing is wrong with it."""
    return known.sight.proven and known.record.quarantine is None and known.lost is None and not known.broken
