"""When members were last heard of, in wall-clock time: for people to read, and for no decision.

A coordinator knows only since when it has itself seen a renewal row unchanged, on its own boot clock. Put
on its wall clock that is a good guess, no more: another coordinator, or this one after a restart, may name
a somewhat later time.
"""

from collections.abc import Mapping

import attrs

from streamshard.core.group import GroupRecord
from streamshard.core.ids import InstanceId, Instant, Millis, WallMillis
from streamshard.core.queries import GroupView
from streamshard.core.sight import GroupSight
from streamshard.core.timing import Timing, expiry_wait_ms


@attrs.frozen
class Presence:
    """One instance's signs of life."""

    heard_at: WallMillis
    expires_at: WallMillis
    """When this coordinator will let it go if it hears nothing more."""
    drain_by: WallMillis | None = None
    """When the first holding that it has to give up lapses."""


def presences(
    view: GroupView, sight: GroupSight, timing: Timing, now: Instant, wall: WallMillis
) -> Mapping[InstanceId, Presence]:
    """Of every instance that is watched; the view may be newer than what the sight has seen."""
    record, rows = view.record, view.rows
    deadlines = _deadlines(record, sight, timing.rebalance_timeout_ms)
    offset = wall - now
    found: dict[InstanceId, Presence] = {}
    for instance, seen in sight.rows.items():
        row = rows.get(instance)
        since = now if row is not None and row.mark != seen.mark else seen.since
        wait = expiry_wait_ms(record.longest_leases.get(instance, timing.lease_ms))
        deadline = deadlines.get(instance)
        found[instance] = Presence(
            heard_at=WallMillis(since + offset),
            expires_at=WallMillis(since + wait + offset),
            drain_by=None if deadline is None else WallMillis(deadline + offset),
        )
    return found


def _deadlines(record: GroupRecord, sight: GroupSight, timeout: Millis) -> Mapping[InstanceId, int]:
    found: dict[InstanceId, int] = {}
    for (shard, token), since in sight.to_drain.items():
        holding = record.holdings.get(shard)
        if holding is not None and holding.token == token and not holding.lapsed:
            found[holding.instance] = min(since + timeout, found.get(holding.instance, since + timeout))
    return found
