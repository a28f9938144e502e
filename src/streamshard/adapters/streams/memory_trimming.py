"""Trimming in memory: what the script of the same name does on a server, but exact to the record."""

from collections.abc import Mapping

from streamshard.adapters.streams.memory_world import ZERO_ID, Fence, Group, Id, Stream, Tally
from streamshard.adapters.streams.record_ids import id_text
from streamshard.core.effects import Missed, Trim, Trimmed, TrimVerdict
from streamshard.core.ids import GroupName


def trim(fence: Fence, stream: Stream | None, order: Trim) -> Trimmed:
    """Carry an order out."""
    if fence.sealed_in(order.generation) or fence.later_than(order.generation, order.layout):
        return Trimmed(TrimVerdict.SUPERSEDED)
    if stream is None or fence.generation != order.generation or not stream.groups.keys() >= set(order.registered):
        return Trimmed(TrimVerdict.MISSING)
    missed = tuple(_count(fence, stream, name) for name in order.registered)
    floor, holder = needed_from(stream.groups)
    removed = [entry for entry in sorted(stream.entries) if floor is not None and entry < floor][: order.limit]
    for entry in removed:
        del stream.entries[entry]
    return Trimmed(TrimVerdict.DONE, len(removed), None if floor is None else id_text(floor), holder, missed)


def needed_from(groups: Mapping[GroupName, Group]) -> tuple[Id | None, GroupName | None]:
    """The smallest id that must stay, and the group that it is of."""
    needs = {name: min((group.last_delivered, *group.pending)) for name, group in groups.items()}
    if not needs:
        return None, None
    holder = min(needs, key=lambda name: (needs[name], name))
    return needs[holder], holder


def _count(fence: Fence, stream: Stream, name: GroupName) -> Missed:
    group, tally = stream.groups[name], fence.tallies.setdefault(name, Tally())
    head, first = stream.added - len(stream.entries), min(stream.entries, default=None)
    behind = first is None or group.last_delivered < first
    gone = head if behind else stream.added if group.last_delivered >= stream.last_id else None
    read = group.entries_read
    start = read if read is not None else tally.base if group.last_delivered == ZERO_ID else None
    found = 0 if gone is None or start is None else max(0, gone - start)
    if found and start is not None:
        group.entries_read = start + found
    moved = tally.base is None or (read is not None and read > tally.base)
    passed = tally.base is not None and head > tally.base and not behind
    tally.exact &= not ((found and moved) or (tally.total and passed))
    standing = start + found if start is not None else head if behind else None
    tally.base = standing if standing is not None else head if tally.base is None else tally.base
    tally.total, tally.looked = tally.total + found, True
    return Missed(name, tally.total, found, tally.exact)
