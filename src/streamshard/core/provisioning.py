"""Creating streams and groups: the record first, then the keys, then everybody may see it.

A stream that is being created stays invisible until every shard was made in one round. A create that
meets somebody else's keys, or is given up, seals what it made before its record goes.
"""

import re
from collections.abc import Iterable, Mapping

import attrs

from streamshard.core.admin import CreateGroup, CreateStream, GroupSpec
from streamshard.core.effects import Provision, ProvisionResult
from streamshard.core.ids import Generation, GroupName, LayoutVersion, ShardIndex, Version
from streamshard.core.names import check_group, check_prefix
from streamshard.core.resharding import under_way
from streamshard.core.routing import unroutable
from streamshard.core.stream import (
    EntryState,
    GroupEntry,
    Shard,
    ShardPhase,
    StreamRecord,
    StreamState,
    StreamTombstone,
)
from streamshard.core.stream_events import Provisioned, StreamContext, StreamOutcome, refused
from streamshard.core.stream_fences import by_shard, highest_layout, next_generation
from streamshard.core.stream_shape import goal_count, in_phase, key_names, readable, with_shards
from streamshard.errors import (
    GroupExists,
    InvalidRequest,
    ShardCountMismatch,
    StateConflict,
    StreamExists,
    StreamshardError,
)

Results = Mapping[ShardIndex, tuple[Provision, ProvisionResult]]
"""The present answers, by shard."""

Found = StreamRecord | StreamTombstone | None

START = re.compile(r"\$|[0-9]{1,20}(-[0-9]{1,20})?")


def create_stream(record: Found, command: CreateStream, context: StreamContext) -> StreamOutcome:
    """Begin a stream, or go on with an unfinished create of the same one."""
    problem = _problem(command, context)
    if problem is not None:
        return refused(record, problem)
    if isinstance(record, StreamRecord):
        return _create_again(record, command, context)
    taken = _taken(command, context)
    if taken and not command.adopt:
        names = ", ".join(f"{command.prefix}:{shard}" for shard in taken)
        text = _foreign(names) if _unmarked(taken, context) else _left_behind(names)
        return refused(record, StreamExists(text, {"keys": names}))
    return StreamOutcome(_founded(record, command, context))


def _taken(command: CreateStream, context: StreamContext) -> list[ShardIndex]:
    """Where something stands that a create must not touch; an empty key of an earlier stream is nothing."""
    asked = {spec.name for spec in command.groups}
    looked_at = {probe.shard: probe for probe in context.probes}
    unmarked = [mark.shard for mark in context.marks if mark.key_exists and mark.generation is None]
    used = [p.shard for p in looked_at.values() if p.length or any(group.name not in asked for group in p.groups)]
    return sorted({*used, *(shard for shard in unmarked if shard not in looked_at)})


def _foreign(names: str) -> str:
    return (
        f"{names}: not made by this stream: rename or delete the key, choose another prefix, "
        "or take it over with adopt (--adopt)"
    )


def _left_behind(names: str) -> str:
    return (
        f"{names}: left behind with what is in it by a stream of this name that was deleted: "
        "go on with it by adopt (--adopt), or delete the key"
    )


def _unmarked(taken: list[ShardIndex], context: StreamContext) -> bool:
    """One of them does not carry the mark that a stream of that name sets beside its shards."""
    marked = {mark.shard for mark in context.marks if mark.generation is not None}
    return not marked.issuperset(taken)


def _problem(command: CreateStream, context: StreamContext) -> InvalidRequest | None:
    names = [spec.name for spec in command.groups]
    if not 1 <= command.shard_count <= context.max_shard_count:
        text = f"initialShardCount: must be between 1 and {context.max_shard_count}, not {command.shard_count}"
        return InvalidRequest(text)
    if len(set(names)) < len(names):
        return InvalidRequest("consumerGroups: name a group twice: name each once")
    try:
        check_prefix(command.prefix)
    except InvalidRequest as problem:
        return problem
    unrouted = unroutable(command.routing_protocol, command.shard_count)
    return next(filter(None, (unrouted, *map(_group_problem, command.groups))), None)


def _group_problem(spec: GroupSpec) -> InvalidRequest | None:
    try:
        check_group(spec.name)
    except InvalidRequest as problem:
        return problem
    if START.fullmatch(spec.start_from) is None:
        return InvalidRequest("startFrom: must be earliest, latest or a record id such as 1712000000000-0")
    return None


def _founded(grave: StreamTombstone | None, command: CreateStream, context: StreamContext) -> StreamRecord:
    buried = grave.generations if grave is not None else {}
    floor = max(grave.layout_version if grave is not None else 0, highest_layout(context.marks))
    revision = grave.version.revision + 1 if grave is not None else 1
    return StreamRecord(
        prefix=command.prefix,
        version=Version(context.lineage, revision, context.nonce),
        ring=(context.nonce,),
        store=context.store,
        mac_key=context.mac_key,
        state=StreamState.CREATING,
        routed_count=command.shard_count,
        layout_version=LayoutVersion(floor + 1),
        shards=_first_shards(buried, command.shard_count, context),
        groups={spec.name: _entry(spec) for spec in command.groups},
        routing_protocol=command.routing_protocol,
        created_at=context.wall,
        adopt=command.adopt,
        retention=command.retention,
        idempotency=grave.idempotency if grave is not None else (),
    )


def _first_shards(
    buried: Mapping[ShardIndex, Generation], count: int, context: StreamContext
) -> dict[ShardIndex, Shard]:
    """New lives for the first shards; a life that no key has had for each further one of a grave."""
    marks = by_shard(context.marks)
    found: dict[ShardIndex, Shard] = {}
    for index in sorted({*buried, *map(ShardIndex, range(count))}):
        phase = ShardPhase.PREPARING if index < count else ShardPhase.SEALED
        found[index] = Shard(index, next_generation(buried.get(index), marks.get(index)), phase)
    return found


def _entry(spec: GroupSpec) -> GroupEntry:
    return GroupEntry(spec.name, EntryState.CREATING, spec.start_from, spec.allow_legacy)


def _create_again(record: StreamRecord, command: CreateStream, context: StreamContext) -> StreamOutcome:
    if record.state is StreamState.ACTIVE:
        text = f"stream '{record.prefix}' exists with {record.routed_count} shards: scale it, or choose another prefix"
        return refused(record, StreamExists(text))
    if record.drop_data or not _same_stream(record, command):
        doing = "created" if record.state is StreamState.CREATING else "removed"
        text = f"stream '{record.prefix}' is being {doing} by another request: retry when that is done"
        return refused(record, StateConflict(text))
    if record.state is StreamState.CREATING:
        return StreamOutcome(record)
    marks = by_shard(context.marks)
    again = [
        Shard(shard.index, next_generation(shard.generation, marks.get(shard.index)), ShardPhase.PREPARING)
        for shard in in_phase(record, ShardPhase.SEALED)
        if shard.index < record.routed_count
    ]
    return StreamOutcome(attrs.evolve(with_shards(record, again), state=StreamState.CREATING))


def _same_stream(record: StreamRecord, command: CreateStream) -> bool:
    asked = {spec.name: _entry(spec) for spec in command.groups}
    return (
        record.routed_count == command.shard_count
        and record.routing_protocol == command.routing_protocol
        and record.retention is command.retention
        and dict(record.groups) == asked
    )


def create_group(record: Found, command: CreateGroup, context: StreamContext) -> StreamOutcome:
    """Begin a group on a stream that exists, or a stream with this one group."""
    if not isinstance(record, StreamRecord) or record.state is not StreamState.ACTIVE:
        return create_stream(record, _with_one_group(record, command, context), context)
    refusal = _group_problem(command.spec) or _group_conflict(record, command)
    if refusal is not None:
        return refused(record, refusal)
    if command.spec.name in record.groups:
        return StreamOutcome(record)
    begun = attrs.evolve(record, groups={**record.groups, command.spec.name: _entry(command.spec)})
    return _with_groups(begun, {}, readable(begun))


def _with_one_group(record: Found, command: CreateGroup, context: StreamContext) -> CreateStream:
    unfinished = record.routed_count if isinstance(record, StreamRecord) else context.default_shard_count
    return CreateStream(
        prefix=command.key.prefix,
        author=command.author,
        shard_count=unfinished if command.shard_count is None else command.shard_count,
        groups=(command.spec,),
        routing_protocol=command.routing_protocol,
        adopt=command.adopt,
    )


def _group_conflict(record: StreamRecord, command: CreateGroup) -> StreamshardError | None:
    entry = record.groups.get(command.spec.name)
    if entry is not None and entry.state is EntryState.ACTIVE:
        return GroupExists(f"group '{entry.name}' of stream '{record.prefix}' exists: delete it, or use it")
    if command.shard_count not in (None, record.routed_count):
        text = f"stream '{record.prefix}' has {record.routed_count} shards: leave initialShardCount out, or scale it"
        return ShardCountMismatch(text)
    if record.resharding is not None:
        return under_way(record.resharding)
    if entry is not None and entry.state is EntryState.REMOVING:
        return StateConflict(f"group '{entry.name}' is being deleted: retry when that is done")
    return None


def provisioned(record: StreamRecord, command: Provisioned) -> StreamOutcome:
    """Open what was made. Answers to orders of another layout say nothing: those are asked again."""
    results = _present(record, command)
    foreign = [index for index, (_, result) in results.items() if result is ProvisionResult.FOREIGN]
    refusal = StreamExists(_foreign(key_names(record, foreign))) if foreign else None
    match record.state:
        case StreamState.CREATING:
            if refusal is not None:
                return StreamOutcome(_given_up(record, foreign), refusal=refusal)
            return _opened(record, results)
        case StreamState.ACTIVE:
            before = readable(record)
            return attrs.evolve(_with_groups(_made(record, results), results, before), refusal=refusal)
        case StreamState.REMOVING:
            return StreamOutcome(record)


def _present(record: StreamRecord, command: Provisioned) -> Results:
    return {
        order.shard: (order, result)
        for order, result in command.answers
        if order.layout == record.layout_version
        and order.shard in record.shards
        and order.generation == record.shards[order.shard].generation
    }


def _is_done(results: Results, shard: Shard) -> bool:
    return shard.index in results and results[shard.index][1] is ProvisionResult.DONE


def _opened(record: StreamRecord, results: Results) -> StreamOutcome:
    made = _made(record, results)
    if in_phase(made, ShardPhase.PREPARING):
        return StreamOutcome(record)
    groups = {name: attrs.evolve(entry, state=EntryState.ACTIVE) for name, entry in record.groups.items()}
    active = attrs.evolve(made, state=StreamState.ACTIVE, groups=groups)
    return StreamOutcome(active, created_groups=tuple(active.groups))


def _made(record: StreamRecord, results: Results) -> StreamRecord:
    """Wanted shards open all at once; a shard that only has to be drained is read as soon as it can be."""
    preparing = in_phase(record, ShardPhase.PREPARING)
    wanted = [shard for shard in preparing if shard.index < goal_count(record)]
    spare = [shard for shard in preparing if shard.index >= goal_count(record) and _is_done(results, shard)]
    opening = wanted if all(_is_done(results, shard) for shard in wanted) else []
    return with_shards(record, [*_in(ShardPhase.OPEN, opening), *_in(ShardPhase.DRAINING, spare)])


def _in(phase: ShardPhase, shards: Iterable[Shard]) -> list[Shard]:
    return [attrs.evolve(shard, phase=phase) for shard in shards]


def _with_groups(record: StreamRecord, results: Results, shards: Iterable[Shard]) -> StreamOutcome:
    """Show each group that is by now on every one of these shards."""
    needed = tuple(shards)
    shown = {
        name: attrs.evolve(entry, state=EntryState.ACTIVE)
        for name, entry in record.groups.items()
        if entry.state is EntryState.CREATING and all(_has_group(results, shard, name) for shard in needed)
    }
    after = attrs.evolve(record, groups={**record.groups, **shown}) if shown else record
    return StreamOutcome(after, created_groups=tuple(shown))


def _has_group(results: Results, shard: Shard, name: GroupName) -> bool:
    return _is_done(results, shard) and any(group.name == name for group in results[shard.index][0].groups)


def undo(record: StreamRecord) -> StreamOutcome:
    """Give an unfinished create up; a stream that is in use is left alone."""
    if record.state is not StreamState.CREATING:
        return StreamOutcome(record)
    return StreamOutcome(_given_up(record, ()))


def _given_up(record: StreamRecord, foreign: Iterable[ShardIndex]) -> StreamRecord:
    """Nothing was made where a foreign key stands, so nothing there is ours to seal."""
    shards = [record.shards[index] for index in foreign]
    return attrs.evolve(with_shards(record, _in(ShardPhase.SEALED, shards)), state=StreamState.REMOVING)
