"""What Redis has to be asked now: read off a stream's record, again and again, until it is done.

No order is ever remembered. Whoever looks at the record, in whichever process, finds the same work to
do; each order may be carried out twice, late, or not at all.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import attrs

from streamshard.core.effects import DropGroup, DropShard, GroupStart, MendLag, Provision, RaiseLayout, Seal
from streamshard.core.group import GroupRecord
from streamshard.core.ids import GroupName, Instant, Millis, RecordId, ShardIndex, stream_key
from streamshard.core.stream import DrainLook, EntryState, Resharding, Shard, ShardPhase, StreamRecord, StreamState
from streamshard.core.stream_events import ProbeShard, ReadFences
from streamshard.core.stream_shape import in_phase, is_drained, is_undone, readable, registered, restoring, scope
from streamshard.core.stream_sight import Look, StreamSight, ignored_groups

Order: TypeAlias = Provision | Seal | RaiseLayout | DropGroup | DropShard | MendLag | ProbeShard | ReadFences


@attrs.frozen
class Pace:
    """How often a coordinator looks, and how long it waits, in milliseconds."""

    tick_ms: Millis = Millis(1_000)
    routing_lease_ms: Millis = Millis(60_000)
    retired_probe_ms: Millis = Millis(60_000)
    retired_watch_ms: int = 7 * 24 * 3_600_000


def wanted(record: StreamRecord, sight: StreamSight, now: Instant, pace: Pace) -> tuple[Order, ...]:
    """Everything to be asked of Redis now. Empty: nothing is to be done, or not before the next tick."""
    return (
        *_fence_reads(record, sight),
        *_provisions(record, sight),
        *_raises(record),
        *_seals(record, sight, now, pace),
        *_drops(record),
        *_data_drops(record, sight),
        *_mends(record, sight, pace),
        *_probes(record, sight, now, pace),
    )


def _fence_reads(record: StreamRecord, sight: StreamSight) -> Iterator[ReadFences]:
    if sight.superseded:
        yield ReadFences(record.prefix, tuple(sorted(sight.superseded)))


def _provisions(record: StreamRecord, sight: StreamSight) -> Iterator[Provision]:
    starts = _starts(record)
    for shard in in_phase(record, ShardPhase.PREPARING):
        if shard.index not in sight.superseded and _is_to_be_made(record, sight, shard):
            yield _provision(record, shard, starts)
    joining = tuple(start for start in _joining(record) if record.state is StreamState.ACTIVE)
    for shard in readable(record) if joining else ():
        yield _provision(record, shard, joining)


def _provision(record: StreamRecord, shard: Shard, groups: tuple[GroupStart, ...]) -> Provision:
    """A later life of a stream's own shard takes over what an earlier one left behind."""
    adopt = record.adopt or (record.state is StreamState.ACTIVE and shard.generation > 1)
    return Provision(record.prefix, shard.index, shard.generation, record.layout_version, groups, adopt)


def _starts(record: StreamRecord) -> tuple[GroupStart, ...]:
    """Groups begin where they were told to on a new stream, and with the first record on an added shard."""
    creating = record.state is StreamState.CREATING
    names = registered(record)
    return tuple(GroupStart(name, record.groups[name].start_from if creating else "0") for name in names)


def _joining(record: StreamRecord) -> Iterator[GroupStart]:
    for entry in record.groups.values():
        if entry.state is EntryState.CREATING:
            yield GroupStart(entry.name, entry.start_from)


def _is_to_be_made(record: StreamRecord, sight: StreamSight, shard: Shard) -> bool:
    """A shard that is being taken back is made only to rescue what an earlier life left on its key."""
    if not is_undone(record, shard):
        return True
    look = sight.look_at(shard)
    if look is None or not look.probe.exists or record.state is StreamState.REMOVING:
        return False
    return look.probe.generation is not None and look.probe.generation < shard.generation


def _raises(record: StreamRecord) -> Iterator[RaiseLayout]:
    for shard in in_phase(record, ShardPhase.DRAINING):
        if shard.index in restoring(record):
            yield RaiseLayout(record.prefix, shard.index, shard.generation, record.layout_version)


def _seals(record: StreamRecord, sight: StreamSight, now: Instant, pace: Pace) -> Iterator[Seal]:
    names, ignored = registered(record), ignored_groups(record)
    for shard in record.shards.values():
        look = sight.look_at(shard)
        if look is None or shard.index in sight.superseded or not _is_proven(record, shard, look, pace):
            continue
        if is_undone(record, shard) or _has_left_routing(record, sight, shard, now, pace):
            yield Seal(record.prefix, shard.index, shard.generation, record.layout_version, names, ignored)


def _is_proven(record: StreamRecord, shard: Shard, look: Look, pace: Pace) -> bool:
    """Empty for a tick; of a shard that nobody was ever told about one look will do, if it is ours at all."""
    if is_undone(record, shard):
        ours = not look.probe.exists or look.probe.generation == shard.generation
        return ours and look.blocker is None
    return look.empty_since is not None and look.seen_at - look.empty_since >= pace.tick_ms


def _has_left_routing(record: StreamRecord, sight: StreamSight, shard: Shard, now: Instant, pace: Pace) -> bool:
    """At a full drain producers keep the shard to the end, so there is no lease to wait for."""
    return shard.index < record.routed_count or sight.silent_routing_ms(now) >= pace.routing_lease_ms


def _drops(record: StreamRecord) -> Iterator[DropGroup]:
    for entry in record.groups.values():
        for shard in readable(record) if entry.state is EntryState.REMOVING else ():
            yield DropGroup(record.prefix, shard.index, shard.generation, record.layout_version, entry.name)


def _data_drops(record: StreamRecord, sight: StreamSight) -> Iterator[DropShard]:
    """Whatever is on the keys of a stream that is removed with its data."""
    for shard in record.shards.values() if record.drop_data else ():
        if shard.phase is not ShardPhase.SEALED and shard.index not in sight.superseded:
            yield DropShard(record.prefix, shard.index, shard.generation, record.layout_version)


def _mends(record: StreamRecord, sight: StreamSight, pace: Pace) -> Iterator[MendLag]:
    for shard in in_phase(record, ShardPhase.DRAINING):
        look = sight.look_at(shard)
        for name, since in sorted(look.off_since.items()) if look is not None else ():
            if look is not None and look.seen_at - since >= pace.tick_ms:
                yield MendLag(record.prefix, shard.index, shard.generation, record.layout_version, name)


def _probes(record: StreamRecord, sight: StreamSight, now: Instant, pace: Pace) -> Iterator[ProbeShard]:
    for shard in record.shards.values():
        if _is_to_be_looked_at(record, sight, shard, now, pace):
            yield ProbeShard(record.prefix, shard.index, shard.generation, record.layout_version, shard.phase)


def _is_to_be_looked_at(record: StreamRecord, sight: StreamSight, shard: Shard, now: Instant, pace: Pace) -> bool:
    retired = sight.retired.get(shard.index)
    if shard.phase is ShardPhase.SEALED and retired is not None:
        watched = now - retired.since < pace.retired_watch_ms
        return watched and (retired.seen_at is None or now - retired.seen_at >= pace.retired_probe_ms)
    if not (is_drained(record, shard) or is_undone(record, shard)):
        return False
    look = sight.look_at(shard)
    return look is None or now - look.seen_at >= pace.tick_ms


def mend_order(record: StreamRecord, index: ShardIndex, floors: Mapping[GroupName, RecordId]) -> Provision | None:
    """The order that makes a vanished key or group again; None unless the shard is one that is read.

    Name a group's acknowledgement floor where the key still stands; every other group starts at 0.
    """
    shard = record.shards.get(index)
    if shard is None or shard not in readable(record):
        return None
    groups = tuple(GroupStart(name, floors.get(name, RecordId("0"))) for name in registered(record))
    return _provision(record, shard, groups)


def drain_looks(record: StreamRecord, sight: StreamSight) -> tuple[DrainLook, ...]:
    """Each shard that a resharding waits for, and why, in words for an operator."""
    waiting = [shard for shard in record.shards.values() if is_drained(record, shard) or is_undone(record, shard)]
    looks = [_shown(record, sight, shard) for shard in waiting]
    looks += [_in_the_way(record, index) for index in sorted(sight.foreign)]
    return tuple(sorted(looks, key=lambda look: look.shard))


def _shown(record: StreamRecord, sight: StreamSight, shard: Shard) -> DrainLook:
    look = sight.look_at(shard)
    if look is None:
        return DrainLook(shard.index, None, 0, None, None, "not looked at yet")
    if look.blocker is not None:
        return look.blocker
    text = "nothing is left on it: it is sealed once no producer may use the old routing any more"
    return DrainLook(shard.index, None, 0, 0, None, text)


def held_looks(resharding: Resharding, groups: Iterable[GroupRecord]) -> tuple[DrainLook, ...]:
    """What a scale-in waits for once all removed shards are sealed: their readers, as last seen, to let go."""
    holders = [
        DrainLook(shard, group.key.group, 0, 0, None, f"sealed: {holding.member} of {group.key.group} is to let it go")
        for group in groups
        for shard, holding in group.holdings.items()
        if shard in scope(resharding)
    ]
    nobody = "sealed: it is over once every group was seen to have let it go"
    free = set(scope(resharding)) - {look.shard for look in holders}
    looks = [*holders, *(DrainLook(ShardIndex(shard), None, 0, 0, None, nobody) for shard in sorted(free))]
    return tuple(sorted(looks, key=lambda look: look.shard))


def _in_the_way(record: StreamRecord, index: ShardIndex) -> DrainLook:
    key = stream_key(record.prefix, index)
    return DrainLook(
        index, None, 0, None, None, f"{key} was not made by this stream: rename or delete it, or roll back"
    )
