"""The producer's side of the protocol: a routing answer in, "may I still route by it?" out."""

import attrs

from streamshard.core.ids import GroupKey, Instant, Millis
from streamshard.core.replies import Routing
from streamshard.core.routing import PROTOCOLS, unroutable
from streamshard.core.settings import MAX_SHARDS
from streamshard.core.timing import client_lease_ms
from streamshard.errors import RoutingExpired

REFRESH_MS = Millis(30_000)


@attrs.frozen
class RoutingLease:
    """The routing a producer goes by. ``refresh_at``: when to ask again; ``ends_at``: when it must not be used."""

    key: GroupKey
    refresh_ms: Millis = REFRESH_MS
    routing: Routing | None = None
    refresh_at: Instant | None = None
    ends_at: Instant | None = None


def adopt(
    lease: RoutingLease, routing: Routing, sent_at: Instant, now: Instant, jitter: float
) -> tuple[RoutingLease, str | None]:
    """Take an answer to a question that was sent at ``sent_at``, or say why it can't be taken.

    ``jitter`` in [0, 1) spreads the next refresh by a fifth to either side.
    """
    usable_ms = client_lease_ms(routing.lease_ms)
    problem = _problem(lease, routing)
    if problem is None and now >= sent_at + usable_ms:
        problem = f"the routing of {lease.key} came after its own lease of {routing.lease_ms} ms was over"
    if problem is not None:
        return lease, problem

    pause = int(min(lease.refresh_ms, usable_ms // 2) * (0.8 + 0.4 * jitter))
    return attrs.evolve(
        lease, routing=routing, refresh_at=Instant(sent_at + pause), ends_at=Instant(sent_at + usable_ms)
    ), None


def invalidate(lease: RoutingLease) -> RoutingLease:
    """A shard turned out to be retired: ask again before the next use."""
    return attrs.evolve(lease, refresh_at=None)


def refresh_due(lease: RoutingLease, now: Instant) -> bool:
    """Whether the coordinator should be asked again."""
    return lease.refresh_at is None or now >= lease.refresh_at


def usable(lease: RoutingLease, now: Instant) -> Routing:
    """The routing, while it may be used; raises `RoutingExpired` from the end of its lease on."""
    if lease.routing is None or lease.ends_at is None:
        raise RoutingExpired(f"no routing of {lease.key} yet: no coordinator has answered")
    if now >= lease.ends_at:
        late = now - lease.ends_at
        raise RoutingExpired(f"the routing of {lease.key} expired {late} ms ago and no coordinator has renewed it")
    return lease.routing


def _problem(lease: RoutingLease, routing: Routing) -> str | None:
    if routing.key != lease.key:
        return f"asked for the routing of {lease.key}, got that of {routing.key}"
    if not 0 <= routing.shard_count <= MAX_SHARDS:
        return f"the routing of {lease.key} has {routing.shard_count} shards: must be between 0 and {MAX_SHARDS}"
    if routing.protocol not in PROTOCOLS:
        return f"the routing of {lease.key} goes by {routing.protocol!r}, which is unknown here: upgrade streamshard"
    if routing.shard_count and (unrouted := unroutable(routing.protocol, routing.shard_count)) is not None:
        return f"the routing of {lease.key} can't be used here: {unrouted}"
    return _backwards(lease.routing, routing)


def _backwards(known: Routing | None, routing: Routing) -> str | None:
    """Within a lineage, layout versions only grow and each stands for one layout."""
    if known is None or known.lineage != routing.lineage:
        return None
    if routing.layout_version < known.layout_version:
        return f"the layout of {routing.key} ran backwards: {known.layout_version} to {routing.layout_version}"
    same = (routing.shard_count, routing.protocol) == (known.shard_count, known.protocol)
    if routing.layout_version == known.layout_version and not same:
        return f"two layouts of {routing.key} under one version, {routing.layout_version}"
    return None
