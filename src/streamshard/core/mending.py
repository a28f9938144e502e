"""Keys and groups that vanished from Redis: made again by a coordinator, guarded, never by a member."""

from collections.abc import Iterable, Mapping

from streamshard.core.chronicle import Event
from streamshard.core.desk import Desk, KnownGroup
from streamshard.core.effects import Provision, ProvisionResult, ShardProbe
from streamshard.core.ids import GroupName, RecordId, ShardIndex, StreamPrefix
from streamshard.core.stream import StreamRecord
from streamshard.core.stream_shape import registered
from streamshard.core.stream_wants import mend_order

MISSING = "MISSING"
Floors = Mapping[ShardIndex, Mapping[GroupName, RecordId]]


async def mend(desk: Desk, record: StreamRecord, groups: Iterable[KnownGroup]) -> None:
    """Make again what members or raised fences found missing.

    A group goes on from its owner's acknowledgement floor where the stream is still the same, and from
    the start where the stream is new or the floor is unknown: rather twice than never.
    """
    floors = _reported(groups)
    shards = sorted({*floors, *desk.vanished.get(record.prefix, set())})
    if not shards:
        return
    probes = await desk.streams.probe(record.prefix, shards)
    found = {p.shard: floors.get(p.shard, {}) if p.exists else {} for p in probes if _is_missing(record, p)}
    orders = [order for s in found if (order := mend_order(record, s, found[s])) is not None]
    results = await desk.streams.provision(orders) if orders else ()
    desk.vanished.pop(record.prefix, None)  # whoever misses it still will say so again
    desk.note(_event(record.prefix, o) for o, r in zip(orders, results, strict=True) if r is ProvisionResult.DONE)


def _is_missing(record: StreamRecord, probe: ShardProbe) -> bool:
    """A report may be older than the mending of what it misses."""
    shard = record.shards.get(probe.shard)
    here = {group.name for group in probe.groups}
    whole = probe.exists and here.issuperset(registered(record))
    return shard is not None and not (whole and probe.generation == shard.generation)


def _reported(groups: Iterable[KnownGroup]) -> Floors:
    """The shards that their holders report as missing, with the floors they know."""
    floors: dict[ShardIndex, dict[GroupName, RecordId]] = {}
    for known in groups:
        for shard, holding in known.record.holdings.items():
            row = known.rows.get(holding.instance)
            for progress in row.progress if row is not None else ():
                if progress.shard == shard and progress.read_state == MISSING:
                    floor = floors.setdefault(shard, {})
                    if progress.ack_floor is not None:
                        floor[known.record.key.group] = progress.ack_floor
    return floors


def _event(prefix: StreamPrefix, order: Provision) -> Event:
    starts = ", ".join(f"{group.name} from {group.start_id}" for group in order.groups)
    return Event("recreated", prefix, f"its key or a group had vanished: {starts}", shard=order.shard)
