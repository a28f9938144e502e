"""What one coordinator has itself seen of a group, and since when on its own boot clock.

No instant in here came from another host, and none is ever stored: a coordinator that restarts, was
paused, or lost its store for a while starts every timer anew, and so expires nobody for it.
"""

from collections.abc import Mapping

import attrs

from streamshard.core.group import GroupRecord, Row
from streamshard.core.ids import InstanceId, Instant, Lineage, Millis, Nonce, ShardIndex, Token, Version
from streamshard.core.ports import StoreSource

GrantKey = tuple[ShardIndex, Token]


@attrs.frozen(slots=False)  # made for every heartbeat: faster without
class Sighting:
    """A renewal row's mark (None: no row), and since when it has not changed."""

    mark: Nonce | None
    since: Instant


@attrs.define
class GroupSight:
    """A coordinator's own memory of one group. Deciding reads it; only the coordinator writes it."""

    source: StoreSource
    version: Version
    lineage_since: Instant
    seen_at: Instant
    """When the rows were last read: silence is counted up to here, never up to a later now."""
    rows: dict[InstanceId, Sighting] = attrs.field(factory=dict)
    to_drain: dict[GrantKey, Instant] = attrs.field(factory=dict)
    """Holdings that have to be given up, since this coordinator first saw that."""
    lapsed: dict[GrantKey, Instant] = attrs.field(factory=dict)
    """Committed lapses, since this coordinator first saw them."""
    raised: set[GrantKey] = attrs.field(factory=set)
    """Grants whose fence this coordinator has had acknowledged."""
    proven: bool = False
    """The fences were compared with the record since the store was last connected."""

    @classmethod
    def first(cls, source: StoreSource, record: GroupRecord, now: Instant) -> "GroupSight":
        """The sight of a first load."""
        return cls(source=source, version=record.version, lineage_since=now, seen_at=now)

    @property
    def lineage(self) -> Lineage:
        """The lineage seen last."""
        return self.version.lineage

    def observe(self, record: GroupRecord, rows: Mapping[InstanceId, Row], now: Instant) -> None:
        """Take in a fresh load: timers of whatever changed start now, what is gone is forgotten."""
        self.follow(record, rows, now)
        self.seen_at = now

    def follow(self, record: GroupRecord, rows: Mapping[InstanceId, Row], now: Instant) -> None:
        """Take in a record that this coordinator committed itself; nobody's row was read for it."""
        if record.lineage != self.lineage:
            self.restart(now)
        self.version = record.version
        self._watch_rows(record, rows, now)
        self.to_drain = _since(self.to_drain, _to_drain(record), now)
        self.lapsed = _since(self.lapsed, _lapsed(record), now)
        self.raised &= {(shard, h.token) for shard, h in record.holdings.items()}

    def _watch_rows(self, record: GroupRecord, rows: Mapping[InstanceId, Row], now: Instant) -> None:
        watched: dict[InstanceId, Sighting] = {}
        for instance in record.longest_leases:
            mark = rows[instance].mark if instance in rows else None
            seen = self.rows.get(instance)
            watched[instance] = seen if seen and seen.mark == mark else Sighting(mark, now)
        self.rows = watched

    def renewed(self, instance: InstanceId, mark: Nonce, now: Instant) -> None:
        """Take in a renewal that this coordinator wrote itself."""
        self.rows[instance] = Sighting(mark, now)

    def restart(self, now: Instant) -> None:
        """Start every timer anew: time up to now can't be trusted to have been healthy."""
        self.lineage_since = now
        self.rows = {i: Sighting(s.mark, now) for i, s in self.rows.items()}
        self.to_drain = dict.fromkeys(self.to_drain, now)
        self.lapsed = dict.fromkeys(self.lapsed, now)

    def silent_ms(self, instance: InstanceId) -> Millis:
        """How long this coordinator has seen the instance's row unchanged; 0 for one never seen."""
        seen = self.rows.get(instance)
        return Millis(max(0, self.seen_at - seen.since)) if seen else Millis(0)


def _since(known: Mapping[GrantKey, Instant], present: set[GrantKey], now: Instant) -> dict[GrantKey, Instant]:
    return {key: known.get(key, now) for key in sorted(present)}


def _lapsed(record: GroupRecord) -> set[GrantKey]:
    return {(shard, h.token) for shard, h in record.holdings.items() if h.lapsed}


def _to_drain(record: GroupRecord) -> set[GrantKey]:
    return {
        (shard, h.token)
        for shard, h in record.holdings.items()
        if h.draining or record.targets.get(shard) != h.member or not _current(record, shard)
    }


def _current(record: GroupRecord, shard: ShardIndex) -> bool:
    holding = record.holdings[shard]
    member = record.members.get(holding.member)
    return member is not None and member.instance == holding.instance
