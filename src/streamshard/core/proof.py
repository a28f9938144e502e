"""When a shard is proven empty, and what to tell the operator while it is not."""

from collections.abc import Collection, Iterator

import attrs

from streamshard.core.effects import GroupProbe, ShardProbe
from streamshard.core.ids import GroupName, StreamPrefix, stream_key
from streamshard.core.stream import DrainLook


@attrs.frozen
class Verdict:
    """What one exact look proves."""

    look: DrainLook | None
    """What stands in the way of the seal; None: nothing is left for any group that counts."""
    off: tuple[GroupName, ...] = ()
    """Registered groups that have nothing left and whose counter says otherwise, or nothing."""


def judge(
    prefix: StreamPrefix, probe: ShardProbe, registered: Collection[GroupName], ignored: Collection[GroupName]
) -> Verdict:
    """Judge a look. Registered groups come first, then those that nobody registered, by name."""
    if not probe.exists:
        return Verdict(None)
    counting = [group for group in probe.groups if group.name in registered or group.name not in ignored]
    counting.sort(key=lambda group: (group.name not in registered, group.name))
    off = tuple(group.name for group in counting if group.name in registered and _is_off(probe, group))
    return Verdict(next(_blockers(prefix, probe, counting, registered), None), off)


def _is_off(probe: ShardProbe, group: GroupProbe) -> bool:
    return _nothing_left(group) and probe.lag_known and group.lag != 0


def _nothing_left(group: GroupProbe) -> bool:
    return group.pending == 0 and group.first_undelivered is None


def _blockers(
    prefix: StreamPrefix, probe: ShardProbe, counting: Collection[GroupProbe], registered: Collection[GroupName]
) -> Iterator[DrainLook]:
    key = stream_key(prefix, probe.shard)
    present = {group.name for group in counting}
    for name in sorted(registered):
        if name not in present:
            yield DrainLook(probe.shard, name, 0, None, None, f"group {name} is missing on {key}")
    for group in counting:
        reason = _reason(probe, group, name_known=group.name in registered)
        if reason is not None:
            first = group.oldest_pending if group.pending else group.first_undelivered
            yield DrainLook(probe.shard, group.name, group.pending, group.lag, first, reason)
    if not counting and probe.length:
        reason = f"{_records(probe.length)} on {key} and no group to read them: create one, or delete them"
        yield DrainLook(probe.shard, None, 0, probe.length, None, reason)


def _reason(probe: ShardProbe, group: GroupProbe, *, name_known: bool) -> str | None:
    if not _nothing_left(group):
        return _unread(group) if name_known else _unread_foreign(group)
    if name_known and _is_off(probe, group):
        return f"lag of {group.name} {'unknown' if group.lag is None else 'off'}: its counter is being set right"
    return None


def _unread(group: GroupProbe) -> str:
    if group.pending:
        return f"{_records(group.pending)} read and not acknowledged by {group.name}, from {group.oldest_pending}"
    return f"{_undelivered(group)} not yet read by {group.name}, from {group.first_undelivered}"


def _unread_foreign(group: GroupProbe) -> str:
    left = f"{group.pending} pending, from {group.oldest_pending}"
    if not group.pending:
        left = f"{_undelivered(group)} not yet read, from {group.first_undelivered}"
    return f"foreign group {group.name} has {left}: name it in ignoreForeignGroups to go on without it"


def _undelivered(group: GroupProbe) -> str:
    return _records(group.lag) if group.lag else "records"


def _records(count: int) -> str:
    return f"{count} record" if count == 1 else f"{count} records"
