"""Retiring shards: what a seal, a raised layout mark or an exact look makes of the stream's record."""

import attrs

from streamshard.core.effects import GuardResult, ShardProbe
from streamshard.core.ids import ShardIndex
from streamshard.core.proof import judge
from streamshard.core.stream import (
    Shard,
    ShardPhase,
    StreamRecord,
    StreamState,
)
from streamshard.core.stream_events import LayoutRaised, Probed, Sealed, StreamOutcome
from streamshard.core.stream_fences import after_seal, born_again, past_return
from streamshard.core.stream_shape import is_undone, registered, restoring, with_shards


def sealed(record: StreamRecord, command: Sealed) -> StreamOutcome:
    """Take in seals. That a life of a key is over is true for good, whichever layout asked for it."""
    over = [
        record.shards[order.shard]
        for order, result in command.answers
        if result is GuardResult.DONE and _is_present(record, order.shard, order.generation)
    ]
    return StreamOutcome(_over(record, over))


def _is_present(record: StreamRecord, index: ShardIndex, generation: int | None) -> bool:
    return index in record.shards and record.shards[index].generation == generation


def _over(record: StreamRecord, shards: list[Shard]) -> StreamRecord:
    ended = [after_seal(record, shard) for shard in shards]
    retired = {shard.index for shard in ended if shard.phase is ShardPhase.SEALED}
    return past_return(with_shards(record, ended), retired)


def layout_raised(record: StreamRecord, command: LayoutRaised) -> StreamOutcome:
    """Open the shards that no older seal can reach any more; one that a seal reached is made anew."""
    moved: list[Shard] = []
    for order, result in command.answers:
        if order.layout != record.layout_version or not _is_present(record, order.shard, order.generation):
            continue
        shard = record.shards[order.shard]
        if shard.phase is not ShardPhase.DRAINING or shard.index not in restoring(record):
            continue
        if result is GuardResult.DONE:
            moved.append(attrs.evolve(shard, phase=ShardPhase.OPEN))
        elif result is GuardResult.SEALED:
            moved.append(after_seal(record, shard))
    return StreamOutcome(with_shards(record, moved))


def probed(record: StreamRecord, command: Probed) -> StreamOutcome:
    """Take in what only a look can tell: a seal nobody recorded, a key that came back or was never made."""
    after, revived = record, []
    for order, probe in command.answers:
        shard = after.shards.get(order.shard)
        if shard is None or order.generation != shard.generation or order.phase is not shard.phase:
            continue
        if probe.sealed and probe.generation == shard.generation and shard.phase is not ShardPhase.SEALED:
            after = _over(after, [shard])
        elif shard.phase is ShardPhase.SEALED and _came_back(record, shard, probe):
            revived.append(shard.index)
            after = with_shards(after, [born_again(shard)])
        elif is_undone(record, shard) and order.layout == record.layout_version:
            after = with_shards(after, [_undone(record, shard, probe)])
    return StreamOutcome(after, revived=tuple(revived))


def _came_back(record: StreamRecord, shard: Shard, probe: ShardProbe) -> bool:
    """A failover undid the seal, or somebody wrote to a retired key. Other marks are others' keys."""
    if record.state is not StreamState.ACTIVE or _being_taken_back(record, shard):
        return False
    return probe.exists and probe.generation == shard.generation


def _being_taken_back(record: StreamRecord, shard: Shard) -> bool:
    return is_undone(record, attrs.evolve(shard, phase=ShardPhase.PREPARING))


def _undone(record: StreamRecord, shard: Shard, probe: ShardProbe) -> Shard:
    if not probe.exists:
        return shard
    if probe.generation == shard.generation:
        return _to_drain(record, shard, probe)
    foreign = probe.generation is None or record.state is StreamState.REMOVING
    return attrs.evolve(shard, phase=ShardPhase.SEALED) if foreign else shard


def _to_drain(record: StreamRecord, shard: Shard, probe: ShardProbe) -> Shard:
    """Somebody wrote to a shard that was never routed: its groups read it before it goes."""
    ignored = record.resharding.ignore_foreign_groups if record.resharding is not None else ()
    verdict = judge(record.prefix, probe, registered(record), ignored)
    if verdict.look is None or record.state is StreamState.REMOVING:
        return shard
    return attrs.evolve(shard, phase=ShardPhase.DRAINING)
