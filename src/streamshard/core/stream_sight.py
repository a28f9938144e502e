"""What one coordinator has itself seen of a stream's shards, and since when on its own boot clock.

Nothing in here is stored: a coordinator that restarts starts every timer anew, and so seals later,
never earlier.
"""

from collections.abc import Iterable

import attrs

from streamshard.core.effects import GuardResult, ProvisionResult, ShardProbe
from streamshard.core.ids import (
    Generation,
    GroupName,
    Instant,
    LayoutVersion,
    Lineage,
    Millis,
    ReshardingId,
    ShardIndex,
)
from streamshard.core.proof import judge
from streamshard.core.stream import DrainLook, ReshardingState, Shard, ShardPhase, StreamRecord
from streamshard.core.stream_events import (
    FencesSeen,
    LayoutRaised,
    Probed,
    ProbeShard,
    Provisioned,
    Sealed,
    StreamCommand,
    Tidied,
)
from streamshard.core.stream_fences import strangers
from streamshard.core.stream_shape import in_phase, is_drained, is_undone, registered

WINDOW = 64
"""How far beyond the last known shard a first load looks for marks; further as long as it finds some."""

RoutingKey = tuple[Lineage, int, ReshardingId | None, ReshardingState | None]
"""Names one routing. A seal changes the layout version, but nothing that a producer routes by."""


@attrs.frozen
class Look:
    """The last exact look at a shard, and since when an unbroken run of them said the same."""

    generation: Generation
    phase: ShardPhase
    probe: ShardProbe
    seen_at: Instant
    blocker: DrainLook | None
    empty_since: Instant | None
    off_since: dict[GroupName, Instant]


@attrs.frozen
class Retired:
    """A retired shard: since when this coordinator has known of it, and when it last looked."""

    generation: Generation
    since: Instant
    seen_at: Instant | None = None


@attrs.define
class StreamSight:
    """A coordinator's own memory of one stream. Deciding never reads it; `wanted` does."""

    layout: LayoutVersion
    routing: RoutingKey
    routing_since: Instant
    looks: dict[ShardIndex, Look] = attrs.field(factory=dict)
    """Of shards that are drained or being taken back."""
    retired: dict[ShardIndex, Retired] = attrs.field(factory=dict)
    superseded: set[ShardIndex] = attrs.field(factory=set)
    """Shards whose fence refused an order of the present layout: their marks have to be read."""
    foreign: set[ShardIndex] = attrs.field(factory=set)
    """Shards in preparation where somebody else's key stands."""
    made: set[ShardIndex] = attrs.field(factory=set)
    """Shards in preparation that the last round made; for display."""

    @classmethod
    def first(cls, record: StreamRecord, now: Instant) -> "StreamSight":
        """The sight of a first load."""
        sight = cls(record.layout_version, routing_key(record), now)
        sight.observe(record, now)
        return sight

    def observe(self, record: StreamRecord, now: Instant) -> None:
        """Take in a fresh load: timers of whatever changed start now, what is gone is forgotten."""
        if routing_key(record) != self.routing:
            self.routing, self.routing_since = routing_key(record), now
        if record.layout_version != self.layout:
            self.layout = record.layout_version
            self.superseded.clear()
            self.made.clear()
        preparing = {shard.index for shard in in_phase(record, ShardPhase.PREPARING)}
        self.foreign &= preparing
        self.looks = {index: look for index, look in self.looks.items() if _is_of(record, index, look)}
        self._watch_retired(record, now)

    def _watch_retired(self, record: StreamRecord, now: Instant) -> None:
        watched: dict[ShardIndex, Retired] = {}
        for shard in in_phase(record, ShardPhase.SEALED):
            known = self.retired.get(shard.index)
            same = known is not None and known.generation == shard.generation
            watched[shard.index] = known if known and same else Retired(shard.generation, now)
        self.retired = watched

    def look_beyond(self, first: ShardIndex) -> None:
        """Read the marks from ``first`` on, too: a scale-out that the store forgot has left its marks there."""
        self.superseded |= {ShardIndex(index) for index in range(first, first + WINDOW)}

    def look_again(self) -> None:
        """Look at every retired shard at once: Redis may have failed over."""
        self.retired = {index: attrs.evolve(known, seen_at=None) for index, known in self.retired.items()}

    def hear(self, record: StreamRecord, command: StreamCommand, now: Instant) -> None:
        """Take in an answer of Redis to orders about ``record``."""
        match command:
            case Provisioned():
                self._hear_provisioned(record, command)
            case Sealed() | LayoutRaised() | Tidied():
                refusals = [order for order, result in command.answers if result is GuardResult.SUPERSEDED]
                self.superseded |= {o.shard for o in refusals if o.layout == record.layout_version}
                if isinstance(command, Sealed):
                    self._start_again(o.shard for o, result in command.answers if result is GuardResult.NOT_EMPTY)
            case Probed():
                for order, probe in command.answers:
                    self._hear_probe(record, order, probe, now)
            case FencesSeen():
                self.superseded -= {mark.shard for mark in command.marks}
                if found := strangers(record, command.marks):
                    self.look_beyond(ShardIndex(max(mark.shard for mark in found) + 1))

    def _hear_provisioned(self, record: StreamRecord, command: Provisioned) -> None:
        for order, result in command.answers:
            if order.layout != record.layout_version:
                continue
            self.superseded |= {order.shard} if result is ProvisionResult.SUPERSEDED else set()
            self.foreign -= {order.shard}
            self.foreign |= {order.shard} if result is ProvisionResult.FOREIGN else set()
            self.made |= {order.shard} if result is ProvisionResult.DONE else set()

    def _start_again(self, shards: Iterable[ShardIndex]) -> None:
        """A refused seal disproves the looks before it."""
        for shard in shards:
            if shard in self.looks:
                self.looks[shard] = attrs.evolve(self.looks[shard], empty_since=None)

    def _hear_probe(self, record: StreamRecord, order: ProbeShard, probe: ShardProbe, now: Instant) -> None:
        shard = record.shards.get(order.shard)
        if shard is None or shard.generation != order.generation or shard.phase is not order.phase:
            return
        if (probe.generation or 0) > shard.generation:
            self.superseded.add(shard.index)
        elif shard.phase is ShardPhase.SEALED and shard.index in self.retired:
            self.retired[shard.index] = attrs.evolve(self.retired[shard.index], seen_at=now)
        elif _is_looked_at(record, shard):
            self.looks[shard.index] = _look(record, shard, probe, self.looks.get(shard.index), now)

    def look_at(self, shard: Shard) -> Look | None:
        """The last look at this life and phase of a shard."""
        look = self.looks.get(shard.index)
        same = look is not None and (look.generation, look.phase) == (shard.generation, shard.phase)
        return look if same else None

    def silent_routing_ms(self, now: Instant) -> Millis:
        """How long this coordinator has seen the routing unchanged."""
        return Millis(now - self.routing_since)


def routing_key(record: StreamRecord) -> RoutingKey:
    """The name of the present routing; one that comes back later has another name."""
    resharding = record.resharding
    about = (resharding.id, resharding.state) if resharding is not None else (None, None)
    return record.lineage, record.routed_count, *about


def _is_looked_at(record: StreamRecord, shard: Shard) -> bool:
    return is_drained(record, shard) or is_undone(record, shard)


def _is_of(record: StreamRecord, index: ShardIndex, look: Look) -> bool:
    shard = record.shards.get(index)
    if shard is None or (shard.generation, shard.phase) != (look.generation, look.phase):
        return False
    return _is_looked_at(record, shard)


def ignored_groups(record: StreamRecord) -> tuple[GroupName, ...]:
    """The foreign groups that a running resharding goes on without."""
    return record.resharding.ignore_foreign_groups if record.resharding is not None else ()


def _look(record: StreamRecord, shard: Shard, probe: ShardProbe, before: Look | None, now: Instant) -> Look:
    verdict = judge(record.prefix, probe, registered(record), ignored_groups(record))
    empty_since = before.empty_since if before is not None else None
    off = before.off_since if before is not None else {}
    return Look(
        generation=shard.generation,
        phase=shard.phase,
        probe=probe,
        seen_at=now,
        blocker=verdict.look,
        empty_since=None if verdict.look is not None else now if empty_since is None else empty_since,
        off_since={name: off.get(name, now) for name in verdict.off},
    )
