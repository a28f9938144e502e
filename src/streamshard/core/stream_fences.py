"""What the marks in Redis say about a stream's record: the next life of a shard, and lost writes."""

from collections.abc import Iterable, Mapping, Set

import attrs

from streamshard.core.admin import CreateGroup, CreateStream, Scale
from streamshard.core.ids import Generation, LayoutVersion, ShardIndex
from streamshard.core.settings import MAX_SHARDS
from streamshard.core.stream import FenceMark, ReshardingState, Shard, ShardPhase, StreamRecord, StreamTombstone
from streamshard.core.stream_events import FencesSeen, StreamCommand, StreamContext, StreamOutcome
from streamshard.core.stream_shape import is_undone, restoring, scope, with_shards


def fences_wanted(
    record: StreamRecord | StreamTombstone | None,
    command: StreamCommand,
    default_shard_count: int,
    max_shard_count: int = MAX_SHARDS,
) -> tuple[ShardIndex, ...]:
    """The shards whose fences a command's context must carry, read after the record was.

    None for a count that is refused anyway.
    """
    wanted = _wanted(record, command, default_shard_count)
    return tuple(ShardIndex(index) for index in wanted) if wanted.stop <= max_shard_count else ()


def _wanted(record: StreamRecord | StreamTombstone | None, command: StreamCommand, default_shard_count: int) -> range:
    match command:
        case CreateStream():
            return range(command.shard_count)
        case CreateGroup() if not isinstance(record, StreamRecord):
            return range(command.shard_count or default_shard_count)
        case Scale() if isinstance(record, StreamRecord):
            return range(record.routed_count, command.target)
    return range(0)


def by_shard(marks: Iterable[FenceMark]) -> Mapping[ShardIndex, FenceMark]:
    """Marks by the shard they stand beside."""
    return {mark.shard: mark for mark in marks}


def next_generation(known: Generation | None, mark: FenceMark | None) -> Generation:
    """A life of a shard's key that neither the record nor the fence has seen yet."""
    marked = mark.generation if mark is not None else None
    return Generation(max(known or 0, marked or 0) + 1)


def highest_layout(marks: Iterable[FenceMark]) -> LayoutVersion:
    """The latest layout version that any of these fences was told."""
    return LayoutVersion(max((mark.layout or 0 for mark in marks), default=0))


def fences_seen(record: StreamRecord, command: FencesSeen, context: StreamContext) -> StreamOutcome:
    """Catch up with marks above the record, in a new lineage: only a store that lost writes is behind them."""
    known = [(record.shards[mark.shard], mark) for mark in command.marks if mark.shard in record.shards]
    strange = strangers(record, command.marks)
    evidence = _evidence(record, known, context) or _forgotten(record, strange)
    shards = [_caught_up(record, shard, mark) for shard, mark in known]
    shards += [_found(mark) for mark in strange]
    layout = max(record.layout_version, highest_layout(command.marks))
    after = attrs.evolve(with_shards(record, shards), layout_version=layout, store=context.store)
    retired = {shard.index for shard in shards if shard.phase is ShardPhase.SEALED}
    return StreamOutcome(past_return(after, retired), discontinuity=evidence)


def strangers(record: StreamRecord, marks: Iterable[FenceMark]) -> tuple[FenceMark, ...]:
    """Marks of ours beside shards that the record never knew: a scale-out that the store forgot."""
    return tuple(mark for mark in marks if mark.shard not in record.shards and mark.generation is not None)


def _forgotten(record: StreamRecord, strange: Iterable[FenceMark]) -> str | None:
    """Over an adopted stream's keys nobody ever promised that the store knows them all."""
    alive = [mark.shard for mark in strange if mark.key_exists and not mark.sealed]
    if not alive or record.adopt:
        return None
    return f"shard {alive[0]} exists and the store does not know of it: it has lost writes"


def _found(mark: FenceMark) -> Shard:
    """What still has a key is read until nothing is left on it, and then sealed."""
    alive = mark.key_exists and not mark.sealed
    return Shard(mark.shard, mark.generation or Generation(0), ShardPhase.DRAINING if alive else ShardPhase.SEALED)


def _evidence(record: StreamRecord, known: Iterable[tuple[Shard, FenceMark]], context: StreamContext) -> str | None:
    if record.store != context.store:
        return f"the store was replaced by another one: it is {context.store} now"
    for shard, mark in known:
        if (mark.generation or 0) > shard.generation or (mark.layout or 0) > record.layout_version:
            return f"the fence of shard {shard.index} is ahead of the store, which has lost writes"
        if shard.phase is ShardPhase.OPEN and sealed_in(mark, shard) and not record.drop_data:
            return f"shard {shard.index} is sealed and the store does not know: it has lost writes"
    return None


def sealed_in(mark: FenceMark, shard: Shard) -> bool:
    """The present life of the shard is over, says its fence."""
    return mark.sealed and mark.generation == shard.generation


def _caught_up(record: StreamRecord, shard: Shard, mark: FenceMark) -> Shard:
    generation = mark.generation or Generation(0)
    if sealed_in(mark, shard):
        return after_seal(record, shard)
    if generation <= shard.generation:
        return shard
    later = attrs.evolve(shard, generation=generation)
    if is_undone(record, shard):
        return attrs.evolve(later, phase=ShardPhase.SEALED)
    if shard.phase is ShardPhase.PREPARING:
        return attrs.evolve(later, generation=next_generation(generation, None))
    if mark.sealed:
        return after_seal(record, later)
    return attrs.evolve(later, phase=ShardPhase.DRAINING) if shard.phase is ShardPhase.SEALED else later


def after_seal(record: StreamRecord, shard: Shard) -> Shard:
    """The shard once its present life is known to be over: retired, or made again if it is wanted."""
    retired = attrs.evolve(shard, phase=ShardPhase.SEALED)
    if record.drop_data:
        return retired
    match shard.phase:
        case ShardPhase.SEALED:
            return shard
        case ShardPhase.DRAINING if shard.index not in restoring(record):
            return retired
        case ShardPhase.PREPARING if is_undone(record, shard):
            return retired
    return born_again(shard)


def born_again(shard: Shard) -> Shard:
    """The shard's next life, to be made."""
    return Shard(shard.index, next_generation(shard.generation, None), ShardPhase.PREPARING)


def past_return(record: StreamRecord, retired: Set[ShardIndex]) -> StreamRecord:
    """The first seal of a removed shard, however it is heard of, ends the time in which that can be taken back."""
    resharding = record.resharding
    if resharding is None or resharding.any_sealed or resharding.state is not ReshardingState.DRAINING:
        return record
    if not any(index in scope(resharding) for index in retired):
        return record
    return attrs.evolve(record, resharding=attrs.evolve(resharding, any_sealed=True))
