"""What a tick does to a group: prove the load, decide what time has done, commit it."""

from streamshard.core import correction
from streamshard.core.decide import decide_tick
from streamshard.core.desk import Desk, GroupCommit, KnownGroup
from streamshard.core.group import LIVE, GroupRecord
from streamshard.core.ids import GroupKey
from streamshard.core.invariants import group_step_violations, group_violations
from streamshard.core.stream import StreamRecord
from streamshard.core.stream_events import GroupSummary


async def look(desk: Desk, key: GroupKey, stream: StreamRecord) -> KnownGroup:
    """Load a group, and commit whatever time alone has done to it.

    Raises `RevisionConflict` if somebody else changed it meanwhile: the next tick looks again. Raises
    `MetadataCorrupt`, from then on, if it came to be what it is by a step that no coordinator may take.
    """
    known = await desk.load_group(key)
    _judge(known)
    await desk.prove(known, stream)
    context = desk.context(stream, known.sight.source)
    outcome = decide_tick(known.record, known.rows, context, known.sight)
    if outcome.record is not known.record or outcome.drop_rows:
        change = GroupCommit(outcome.record, context.nonce, same_rows=outcome.same_rows, drop_rows=outcome.drop_rows)
        await desk.commit_group(known, change)
        for instance in outcome.drop_rows:
            known.rows.pop(instance, None)
    return known


def _judge(known: KnownGroup) -> None:
    """Look at the record, and compare it with what the tick before saw.

    Writes that the store lost are no breach: a new lineage mends them.
    """
    before, after = known.judged, known.record
    if before is after:
        return
    known.judged, known.wrong = after, group_violations(after)
    if before is None or before.lineage != after.lineage:
        known.broken = ()
    elif not correction.regressed(after, before.version):
        known.broken += group_step_violations(before, after)


def summary(record: GroupRecord) -> GroupSummary:
    """What a resharding has to know of a group before it may end."""
    live = [m for m in record.members.values() if m.state in LIVE]
    instances = {m.instance for m in live}
    held = tuple(s for s, h in record.holdings.items() if h.instance in instances)
    leaving = any(record.targets.get(s) != h.member for s, h in record.holdings.items() if h.instance in instances)
    waiting = any(s not in record.holdings for s in record.targets)
    return GroupSummary(record.key.group, record.layout_version, len(live), leaving or waiting, held)
