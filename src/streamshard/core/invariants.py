"""What must hold of records, of histories and of what members do, as far as it can be judged by looking.

Each function names every breach it finds, or returns nothing. Tests, the simulator, monitoring and health
ask the same ones, so that a claim about safety means the same everywhere.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from streamshard.core.group import TERMINAL, GroupRecord, Holding, Member
from streamshard.core.ids import LINEAGES_KEPT, RING_SIZE, InstanceId, ShardIndex, Token
from streamshard.core.stream import StreamRecord

MOST_TOKEN = 2**53
"""JSON and Lua keep integers whole below this."""


def group_violations(record: GroupRecord) -> tuple[str, ...]:
    """What is wrong with one committed state of a group."""
    return (*_naming(record), *_membership(record), *_targets(record), *_holdings(record))


def _naming(record: GroupRecord) -> Iterator[str]:
    if not record.ring or record.ring[-1] != record.version.nonce or len(record.ring) > RING_SIZE:
        yield "the ring of nonces does not end in the present one, or is too long"
    if record.lineage in record.past_lineages or len(set(record.past_lineages)) < len(record.past_lineages):
        yield "a lineage is used twice"
    if len(record.ring) == 1 and record.past_lineages and record.longest_leases and record.quarantine is None:
        yield f"lineage {record.lineage} began without a quarantine"
    if record.assignment_epoch > record.group_epoch:
        yield f"assignment epoch {record.assignment_epoch} is ahead of group epoch {record.group_epoch}"


def _membership(record: GroupRecord) -> Iterator[str]:
    present = Counter(m.instance for m in record.members.values() if m.state not in TERMINAL)
    for instance, times in sorted(present.items()):
        if times > 1:
            yield f"instance {instance} goes by {times} names"
        if instance not in record.longest_leases:
            yield f"instance {instance} has no lease on record"
    for member in record.members.values():
        if member.epoch > record.group_epoch:
            yield f"member {member.id} is in epoch {member.epoch}, ahead of group epoch {record.group_epoch}"
        if (member.ended_at is not None) != (member.state in TERMINAL):
            yield f"member {member.id} is {member.state.value}, and the time of its end says otherwise"


def _targets(record: GroupRecord) -> Iterator[str]:
    live = [m.id for m in record.members.values() if m.live]
    load = Counter(record.targets.values())
    for member in sorted(set(load).difference(live)):
        yield f"{load[member]} shards are meant for {member}, which is not live"
    if live and set(record.targets) != set(record.layout):
        yield "the shards that have a target are not the layout's"
    loads = [load[member] for member in live]
    if live and max(loads) - min(loads) > 1:
        yield f"the shares are {min(loads)} to {max(loads)} shards a member: more than one apart"


def _holdings(record: GroupRecord) -> Iterator[str]:
    for shard, h in record.holdings.items():
        if not h.floor <= h.token <= record.last_tokens.get(shard, Token(0)) or not 0 < h.token < MOST_TOKEN:
            yield f"shard {shard} is held under token {h.token}, which the last token on record does not cover"
        if h.instance not in record.longest_leases:
            yield f"shard {shard} is held by instance {h.instance}, which has no lease on record"
        if shard in record.layout and h.generation > record.layout[shard]:
            yield f"shard {shard} is held in generation {h.generation}, which is not there yet"


def group_step_violations(before: GroupRecord, after: GroupRecord) -> tuple[str, ...]:
    """What is wrong between two committed states of a group, the later one second.

    Commits in between are allowed for; of direct successors more can be said, and is. Only meant for states
    of which the store lost none: an earlier state that came back is told by `correction.regressed`.
    """
    found = [*_same_lineage(before, after)] if after.lineage == before.lineage else [*_new_lineage(before, after)]
    if _succeeds(before, after):
        found += _handed_over(before, after)
    return tuple(found)


def _succeeds(before: GroupRecord, after: GroupRecord) -> bool:
    if after.lineage == before.lineage:
        return after.ring[-2:-1] == (before.version.nonce,)
    return after.version.revision == before.version.revision + 1


def _same_lineage(before: GroupRecord, after: GroupRecord) -> Iterator[str]:
    for name, was, now in (
        ("revision", before.version.revision, after.version.revision),
        ("metadata version", before.metadata_version, after.metadata_version),
        ("group epoch", before.group_epoch, after.group_epoch),
        ("assignment epoch", before.assignment_epoch, after.assignment_epoch),
        ("layout version", before.layout_version, after.layout_version),
    ):
        if now < was:
            yield f"{name} ran backwards, from {was} to {now}"
    if after.version.revision == before.version.revision and after != before:
        yield f"revision {after.version.revision} was given to two states"
    if after.metadata_version == before.metadata_version and _told(after) != _told(before):
        yield f"members, targets or holdings changed within metadata version {after.metadata_version}"
    yield from _tokens_back(before, after)
    yield from _members_changed(before, after)


def _told(record: GroupRecord) -> tuple[object, ...]:
    return record.members, record.targets, record.holdings


def _tokens_back(before: GroupRecord, after: GroupRecord) -> Iterator[str]:
    for shard, token in before.last_tokens.items():
        if after.last_tokens.get(shard, Token(0)) < token:
            yield f"the last token of shard {shard} ran backwards, from {token}"


def _members_changed(before: GroupRecord, after: GroupRecord) -> Iterator[str]:
    for now in after.members.values():
        was = before.members.get(now.id)
        if was is not None and not _same_or_later(was, now):
            yield f"member {now.id} went from epoch {was.epoch} to {now.epoch} against its instance"
    for instance, lease in before.longest_leases.items():
        if after.longest_leases.get(instance, lease) < lease:
            yield f"the longest lease of instance {instance} shrank, from {lease} ms"


def _same_or_later(was: Member, now: Member) -> bool:
    return now.epoch == was.epoch if now.instance == was.instance else now.epoch > was.epoch


def _new_lineage(before: GroupRecord, after: GroupRecord) -> Iterator[str]:
    forgotten = {*before.past_lineages, before.lineage}.difference(after.past_lineages)
    if forgotten and len(after.past_lineages) < LINEAGES_KEPT:  # a full memory drops its oldest
        yield f"lineage {after.lineage} does not remember {before.lineage} and those before it"


def _handed_over(before: GroupRecord, after: GroupRecord) -> Iterator[str]:
    """What one commit may do to holdings: end them, further them, or grant what was free.

    A heartbeat releases and grants of its own instance only, and a tick grants nothing. So no commit takes
    a shard from one instance and gives it to another.
    """
    if after.lineage != before.lineage:
        yield from _tokens_back(before, after)
    for shard, now in after.holdings.items():
        was = before.holdings.get(shard)
        if was is not None and was.token == now.token and was.instance == now.instance:
            if not _went_on(was, now):
                yield f"the holding of shard {shard} under token {now.token} was rewritten"
        elif was is not None and was.instance != now.instance:
            yield f"shard {shard} passed from instance {was.instance} to {now.instance} in one commit"
        elif not _newly_held(before, shard, now):
            yield f"shard {shard} was given to instance {now.instance} under token {now.token}, which is not new"


def _went_on(was: Holding, now: Holding) -> bool:
    """Only ever further on its way out: draining, lapsed and listed are never taken back."""
    fixed = (was.member, was.generation, was.floor, was.seq) == (now.member, now.generation, now.floor, now.seq)
    return fixed and now.draining >= was.draining and now.lapsed >= was.lapsed and now.listed >= was.listed


def _newly_held(before: GroupRecord, shard: ShardIndex, now: Holding) -> bool:
    """A grant, or the adoption of a lost one, is above all earlier tokens; in quarantine there is only adoption."""
    adopted = now.draining and now.lapsed and now.listed
    if before.quarantine is not None:
        return adopted
    return now.token > before.last_tokens.get(shard, Token(0))


def stream_step_violations(before: StreamRecord, after: StreamRecord) -> tuple[str, ...]:
    """What ran backwards between two committed states of a stream, the later one second."""
    if after.lineage != before.lineage:
        return ()
    found = []
    if after.version.revision < before.version.revision:
        found.append(f"revision ran backwards, from {before.version.revision} to {after.version.revision}")
    if after.layout_version < before.layout_version:
        found.append(f"layout version ran backwards, from {before.layout_version} to {after.layout_version}")
    for index, shard in before.shards.items():
        now = after.shards.get(index)
        if now is not None and now.generation < shard.generation:
            found.append(f"the generation of shard {index} ran backwards, from {shard.generation}")
    return tuple(found)


def reader_violations(readers: Iterable[tuple[ShardIndex, InstanceId, Token]]) -> tuple[str, ...]:
    """Shards that more than one instance would read, handle or acknowledge at one instant."""
    instances: dict[ShardIndex, set[InstanceId]] = {}
    for shard, instance, _ in readers:
        instances.setdefault(shard, set()).add(instance)
    crowded = {shard: sorted(found) for shard, found in sorted(instances.items()) if len(found) > 1}
    return tuple(f"shard {shard} is read by {' and '.join(found)}" for shard, found in crowded.items())


def log_violations(accepted: Iterable[tuple[ShardIndex, Token]]) -> tuple[str, ...]:
    """Operations that a shard accepted under a lower token than one before, in the order of acceptance."""
    highest: dict[ShardIndex, Token] = {}
    found = []
    for shard, token in accepted:
        if token < highest.get(shard, token):
            found.append(f"shard {shard} accepted token {token} after {highest[shard]}")
        highest[shard] = max(token, highest.get(shard, token))
    return tuple(found)
