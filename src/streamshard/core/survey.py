"""One look at everything that a coordinator has in memory, for metrics: nothing is asked of anybody for it."""

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from streamshard.core.group import GroupRecord, Row
from streamshard.core.ids import GroupKey, InstanceId, Instant, Millis, ShardIndex, StreamPrefix, WallMillis
from streamshard.core.queries import is_present
from streamshard.core.stream import StreamRecord
from streamshard.core.timing import expiry_wait_ms

Vacant = Mapping[ShardIndex, Instant]


@attrs.frozen
class GroupSurvey:
    """A group, and this coordinator's own sight of it."""

    record: GroupRecord
    heard: Mapping[InstanceId, Instant]
    """Since when this coordinator has seen no renewal of an instance, on its boot clock."""
    to_drain: int
    """Holdings that have to be given up."""
    vacant: Vacant | None = None
    """Shards that nobody present holds, since a tick first saw that; None before the first tick."""
    rows: Mapping[InstanceId, Row] = attrs.field(factory=dict)

    def silent_ms(self, instance: InstanceId, now: Instant) -> Millis | None:
        """How long ago the instance was last heard of; None for one that is not watched."""
        since = self.heard.get(instance)
        return None if since is None else Millis(max(0, now - since))

    def lease_ms(self, instance: InstanceId, now: Instant) -> Millis | None:
        """How long from now on this coordinator will wait for the instance; None for one that is not watched."""
        silent, longest = self.silent_ms(instance, now), self.record.longest_leases.get(instance)
        return None if silent is None or longest is None else Millis(max(0, expiry_wait_ms(longest) - silent))


@attrs.frozen
class Survey:
    """Everything, as of one moment; what it consists of does not change any more."""

    now: Instant
    wall: WallMillis
    up: bool
    """Ticks go through, and the store takes what is written."""
    streams: tuple[StreamRecord, ...]
    groups: tuple[GroupSurvey, ...]

    def stream(self, prefix: StreamPrefix) -> StreamRecord | None:
        """The stream of that prefix, if it is known."""
        return next((stream for stream in self.streams if stream.prefix == prefix), None)


class Vacancies:
    """Since when shards have had no reader, as ticks see it: what is given up and taken at once never shows."""

    def __init__(self) -> None:
        self._seen: dict[GroupKey, tuple[GroupRecord, Vacant]] = {}

    def look(self, record: GroupRecord, now: Instant) -> None:
        """Take in a group's record as it is now."""
        before = self._seen.get(record.key)
        if before is not None and before[0] is record:
            return
        known: Vacant = {} if before is None else before[1]
        vacant = {shard: known.get(shard, now) for shard in record.layout if not is_read(record, shard)}
        self._seen[record.key] = (record, MappingProxyType(vacant))

    def of(self, key: GroupKey) -> Vacant | None:
        """Of one group; None if no tick has looked at it."""
        seen = self._seen.get(key)
        return None if seen is None else seen[1]

    def keep(self, keys: Mapping[GroupKey, object]) -> None:
        """Forget every group but these."""
        self._seen = {key: seen for key, seen in self._seen.items() if key in keys}


def is_read(record: GroupRecord, shard: ShardIndex) -> bool:
    """Somebody present holds the shard, and its holding has not lapsed."""
    holding = record.holdings.get(shard)
    return holding is not None and not holding.lapsed and is_present(record, holding)
