"""One state of a small world; every value in it is left alone once it is made."""

from collections.abc import Mapping

import attrs

from streamshard.core.commands import Heartbeat
from streamshard.core.desk import KnownGroup
from streamshard.core.group import GroupRecord, Row
from streamshard.core.ids import GroupKey, GroupName, InstanceId, Instant, Millis, ShardIndex, StreamPrefix, Token
from streamshard.core.replies import HeartbeatReply
from streamshard.core.session import Phase, Session, may_use
from streamshard.core.timing import Timing

KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
WAIT_MS = 2_020
"""What a coordinator waits for a silent member; time goes on in so few steps that it takes one or two of them."""

NEVER_MS = Millis(10**12)


def timing(tick_ms: int = WAIT_MS, *, lapsing: bool = False) -> Timing:
    """A lease that a coordinator waits `WAIT_MS` for; with ``lapsing`` a rebalance timeout of as long."""
    return Timing(
        lease_ms=Millis(2_000),
        heartbeat_ms=Millis(500),
        tick_ms=Millis(tick_ms),
        rebalance_timeout_ms=Millis(2_000) if lapsing else NEVER_MS,
        routing_lease_ms=Millis(2_000),
    )


@attrs.frozen(eq=False)
class Budget:
    """How often each fault may still strike."""

    deaths: int
    twins: int
    leaves: int
    copies: int
    losses: int
    crashes: int
    deaf: int
    moments: int | None


@attrs.frozen(eq=False)
class Process:
    """One consumer's process, and what is in the network from and to it."""

    session: Session
    lives: tuple[InstanceId, ...]
    """Its instances, oldest first."""
    ending: frozenset[tuple[ShardIndex, Token]] = frozenset()
    """Runs that were told to stop, and whose handlers may take as long as they like."""
    request: Heartbeat | None = None
    copy: Heartbeat | None = None
    """A heartbeat that has arrived once, and may arrive again."""
    reply: HeartbeatReply | None = None
    dead: bool = False

    @property
    def ended(self) -> bool:
        """It will never read again."""
        return self.dead or self.session.phase in (Phase.LEFT, Phase.REJECTED)

    def may_use(self, shard: ShardIndex, now: Instant) -> bool:
        """It passes its own check of the lease."""
        hold = self.session.held.get(shard)
        return not self.ended and hold is not None and may_use(self.session, shard, hold.token, now)


@attrs.frozen(eq=False)
class State:
    """Everything: what is stored, what coordinators remember, what processes are, what is under way."""

    record: GroupRecord
    rows: Mapping[InstanceId, Row]
    marks: Mapping[ShardIndex, Token]
    """The group's mark in each shard's fence."""
    memories: tuple[KnownGroup | None, ...]
    """What each coordinator knows of the group; None after a start."""
    processes: tuple[Process, ...]
    budget: Budget
    now: Instant = Instant(0)
    drawn: int = 0
    """Nonces drawn so far."""
    kept: GroupRecord | None = None
    """An earlier commit that the store may go back to."""

    def with_process(self, number: int, process: Process) -> "State":
        """The same with another process in its place."""
        changed = (*self.processes[:number], process, *self.processes[number + 1 :])
        return attrs.evolve(self, processes=changed)
