"""load -> decide -> commit -> perform -> answer: the coordinator, as everything outside the core sees it."""

from collections.abc import Coroutine, Mapping
from typing import Any

from streamshard.core.admin import (
    Amend,
    AmendStream,
    CreateGroup,
    CreateStream,
    DeleteGroup,
    DeleteStream,
    Rollback,
    Scale,
)
from streamshard.core.administration import Administration
from streamshard.core.chronicle import Event
from streamshard.core.commands import Heartbeat
from streamshard.core.desk import Desk, KnownGroup
from streamshard.core.facts import GroupFacts, StreamFacts
from streamshard.core.heartbeats import Heartbeats
from streamshard.core.ids import GroupKey, GroupName, ReshardingId, ShardIndex, StreamPrefix
from streamshard.core.inspection import StreamInspector
from streamshard.core.monitoring import Monitoring
from streamshard.core.ports import Clock, Entropy, MetadataStore, Spread, StreamBackend
from streamshard.core.queries import GroupView, Health, MigrationView
from streamshard.core.reading import Reading
from streamshard.core.replies import HeartbeatReply, Routing
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.stream import StreamRecord
from streamshard.core.stream_work import StreamWork
from streamshard.core.survey import GroupSurvey, Survey
from streamshard.core.tally import Tally
from streamshard.core.ticking import Ticking
from streamshard.core.turns import Turns
from streamshard.core.watching import Watches
from streamshard.errors import ConfigurationError, StreamPermissionMissing, StreamUnavailable, Unavailable

STALLED_TICKS = 5
"""A loop that has not ended a tick for so many, and a heartbeat more, is stalled."""


class Coordinator:
    """A coordinator; several may share one store, without a lock or a leader."""

    def __init__(
        self,
        store: MetadataStore,
        streams: StreamBackend,
        clock: Clock,
        entropy: Entropy,
        settings: CoordinatorSettings,
    ) -> None:
        problems = settings.timing.problems()
        if problems:
            raise ConfigurationError("; ".join(problems))
        self.settings = settings
        self._desk = Desk(store, streams, clock, entropy, settings)
        self._work = StreamWork(self._desk)
        self._reading = Reading(self._desk, self._work)
        self._administration = Administration(self._desk, self._work, self._reading)
        self._heartbeats = Heartbeats(self._desk)
        self._ticking = Ticking(self._desk, self._work)
        self.watches = Watches(self._desk)
        """What whoever holds watches open asks; see `streamshard.adapters.watchtower`."""

    def take_turns(self, turns: Turns) -> None:
        """Have the heartbeats of each group enter by ``turns`` from now on, instead of racing each other."""
        self._heartbeats.turns = turns

    def heartbeat(self, key: GroupKey, beat: Heartbeat) -> Coroutine[Any, Any, HeartbeatReply]:
        """Answer one attempt of one instance, once awaited; never raises for what a member may send."""
        return self._heartbeats.answer(key, beat)

    async def routing(self, key: GroupKey) -> Routing:
        """Raise `StreamNotFound` or `GroupNotFound`; nothing is provisioned or changed."""
        return await self._reading.routing(key)

    async def create_stream(self, command: CreateStream) -> StreamRecord:
        """Create a stream and provision its shards; raises what the refusal says."""
        return await self._administration.create_stream(command)

    async def create_group(self, command: CreateGroup) -> GroupView:
        """Create a group, and its stream if there is none."""
        return await self._administration.create_group(command)

    async def scale(self, command: Scale) -> MigrationView:
        """Start a resharding; it goes on by itself from then on."""
        return await self._administration.scale(command)

    async def rollback(self, command: Rollback) -> MigrationView:
        """Take a resharding back; raises `RollbackNotAllowed` after the first seal."""
        return await self._administration.rollback(command)

    async def amend(self, command: Amend) -> MigrationView:
        """Change which foreign groups a running resharding ignores."""
        return await self._administration.amend(command)

    async def amend_stream(self, command: AmendStream) -> StreamRecord:
        """Change what can be chosen anew of a stream that is in use."""
        return await self._administration.amend_stream(command)

    async def delete_group(self, command: DeleteGroup) -> GroupFacts:
        """Delete a group; returns it as it was."""
        return await self._administration.delete_group(command)

    async def delete_stream(self, command: DeleteStream) -> StreamFacts:
        """Delete a stream with its groups; returns it as it was."""
        return await self._administration.delete_stream(command)

    async def stream(self, prefix: StreamPrefix) -> StreamRecord:
        """Raise `StreamNotFound`."""
        return await self._reading.stream(prefix)

    async def group(self, key: GroupKey) -> GroupView:
        """Raise `StreamNotFound` or `GroupNotFound`."""
        return await self._reading.group(key)

    async def groups(self) -> tuple[GroupView, ...]:
        """Every readable group, sorted by key."""
        return await self._reading.groups()

    async def migration(self, prefix: StreamPrefix, resharding: ReshardingId) -> MigrationView:
        """Raise `StreamNotFound` or `MigrationNotFound`."""
        return await self._reading.migration(prefix, resharding)

    async def migrations(self, prefix: StreamPrefix) -> tuple[MigrationView, ...]:
        """The active resharding and the remembered ones, oldest first."""
        return await self._reading.migrations(prefix)

    def monitoring(self, inspector: StreamInspector | None = None) -> Monitoring:
        """What people and dashboards ask; without an inspector it can't look into shards."""
        return Monitoring(self._desk, self._reading, inspector)

    async def tick(self) -> None:
        """Look at everything once and do what is wanted; the entrypoint calls this every ``tick_ms``."""
        await self._ticking.tick()

    def trimmed_unread(self) -> Mapping[GroupKey, int]:
        """How many records this coordinator found removed before a group had read them, since it began.

        A loss is found once, by one of the coordinators: theirs add up. A group that none could look at is absent.
        """
        return dict(self._ticking.trimmer.found)

    def held_back_by(self, prefix: StreamPrefix) -> Mapping[ShardIndex, GroupName]:
        """The group that needs the oldest record of each open shard, as this coordinator saw it last."""
        return self._ticking.trimmer.holders(prefix)

    def drain_events(self) -> tuple[Event, ...]:
        """What this coordinator changed since it was last asked, oldest first."""
        events = tuple(self._desk.events)
        self._desk.events.clear()
        return events

    @property
    def tally(self) -> Tally:
        """What this coordinator has counted since it began."""
        return self._desk.tally

    def survey(self) -> Survey:
        """What is in memory, as the last tick and the heartbeats since have left it; nothing is asked of anybody."""
        desk = self._desk
        return Survey(
            now=desk.clock.boot(),
            wall=desk.clock.wall(),
            up=self._loop_health() == "UP" and not desk.takes_no_writes,
            streams=tuple(stream for _, stream in sorted(desk.layouts.items())),
            groups=tuple(self._group_survey(known) for _, known in sorted(desk.groups.items())),
        )

    def _group_survey(self, known: KnownGroup) -> GroupSurvey:
        heard = {instance: sighting.since for instance, sighting in known.sight.rows.items()}
        vacant = self._ticking.vacancies.of(known.record.key)
        return GroupSurvey(known.record, heard, len(known.sight.to_drain), vacant, dict(known.rows))

    async def health(self) -> Health:
        """Measure; never raises."""
        return Health(
            coordinator_id=self.settings.coordinator_id,
            store=await self._store_health(),
            redis=await self._redis_health(),
            loop=self._loop_health(),
            invariant_violations=self._ticking.violations(),
            cooperative_groups=self._cooperative_groups(),
            unread_shards=self._ticking.unread.lines(),
        )

    async def _store_health(self) -> str:
        try:
            await self._desk.store.prefixes()
        except Unavailable:
            return "DOWN"
        return "READ_ONLY" if self._desk.takes_no_writes else "UP"

    async def _redis_health(self) -> str:
        streams = self._desk.streams
        known = min(self._desk.layouts, default=None)
        try:
            if isinstance(streams, Spread):
                return "PARTLY_DOWN" if await streams.away() else "UP"
            await streams.read_fences(known or StreamPrefix("streamshard-health"), [ShardIndex(0)])
        except StreamPermissionMissing:
            # An account for certain streams may not look at one that is made up: to be told so is an answer.
            return "UP" if known is None else "DOWN"
        except StreamUnavailable:
            return "DOWN"
        return "UP"

    def _cooperative_groups(self) -> tuple[str, ...]:
        """Of the streams as last seen: the tick looks at all of them."""
        streams = self._desk.layouts.values()
        return tuple(sorted(f"{s.prefix}/{g.name}" for s in streams for g in s.groups.values() if g.allow_legacy))

    def _loop_health(self) -> str:
        ended, timing = self._ticking.ended, self.settings.timing
        patience = STALLED_TICKS * timing.tick_ms + timing.heartbeat_ms
        return "UP" if ended is not None and self._desk.clock.boot() - ended <= patience else "STALLED"
