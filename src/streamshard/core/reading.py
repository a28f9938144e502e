"""Reads: they never change, provision or repair anything."""

import contextlib

from streamshard.core.desk import Desk
from streamshard.core.group import GroupRecord
from streamshard.core.ids import GroupKey, ReshardingId, StreamPrefix
from streamshard.core.queries import FrozenGroup, GroupView, MigrationView
from streamshard.core.replies import Routing
from streamshard.core.stream import (
    ENDED,
    DrainLook,
    EntryState,
    GroupEntry,
    Resharding,
    ReshardingState,
    ShardPhase,
    StreamRecord,
)
from streamshard.core.stream_commit import find_resharding
from streamshard.core.stream_shape import in_phase, scope
from streamshard.core.stream_wants import drain_looks, held_looks
from streamshard.core.stream_work import StreamWork
from streamshard.errors import GroupNotFound, MetadataCorrupt, MigrationNotFound, NotFound

_RETURNABLE = frozenset({ReshardingState.PREPARING, ReshardingState.ACTIVE, ReshardingState.DRAINING})


class Reading:
    """Everybody's window on streams and groups."""

    def __init__(self, desk: Desk, work: StreamWork) -> None:
        self._desk = desk
        self._work = work

    async def stream(self, prefix: StreamPrefix) -> StreamRecord:
        """Raise `StreamNotFound`."""
        return await self._desk.load_stream(prefix)

    async def routing(self, key: GroupKey) -> Routing:
        """From the stream's record alone."""
        stream = await self._desk.load_stream(key.prefix)
        _entry(stream, key)
        return Routing(
            key=key,
            shard_count=stream.routed_count,
            layout_version=stream.layout_version,
            lineage=stream.lineage,
            metadata_version=stream.version.revision,
            protocol=stream.routing_protocol,
            lease_ms=self._desk.settings.timing.routing_lease_ms,
            resharding_active=stream.resharding is not None,
        )

    async def group(self, key: GroupKey) -> GroupView:
        """Raise `StreamNotFound` or `GroupNotFound`."""
        stream = await self._desk.load_stream(key.prefix)
        _entry(stream, key)
        return await self._view(stream, key)

    async def _view(self, stream: StreamRecord, key: GroupKey) -> GroupView:
        snapshot = await self._desk.store.load_group(key)
        if not isinstance(snapshot.record, GroupRecord):
            raise GroupNotFound(f"no group '{key.group}' on stream '{key.prefix}': create it first")
        return GroupView(stream, snapshot.record, snapshot.rows)

    async def groups(self) -> tuple[GroupView, ...]:
        """Every readable group, sorted by key."""
        return (await self.groups_and_frozen())[0]

    async def groups_and_frozen(self) -> tuple[tuple[GroupView, ...], tuple[FrozenGroup, ...]]:
        """Every group, sorted by key: those that can be read, and those whose record can't be trusted."""
        views: list[GroupView] = []
        frozen: list[FrozenGroup] = []
        for prefix in await self._desk.store.prefixes():
            with contextlib.suppress(NotFound, MetadataCorrupt):
                await self._sort(await self._desk.load_stream(prefix), views, frozen)
        return tuple(views), tuple(frozen)

    async def _sort(self, stream: StreamRecord, views: list[GroupView], frozen: list[FrozenGroup]) -> None:
        for entry in _active(stream):
            key = GroupKey(stream.prefix, entry.name)
            with contextlib.suppress(NotFound):
                try:
                    views.append(await self._view(stream, key))
                except MetadataCorrupt as broken:
                    frozen.append(FrozenGroup(key, broken.message))

    async def migration(self, prefix: StreamPrefix, resharding: ReshardingId) -> MigrationView:
        """Raise `StreamNotFound` or `MigrationNotFound`."""
        stream = await self._desk.load_stream(prefix)
        found = find_resharding(stream, resharding)
        if found is None:
            raise MigrationNotFound(f"no resharding '{resharding}' of stream '{prefix}' is on record")
        return self.migration_view(stream, found)

    async def migrations(self, prefix: StreamPrefix) -> tuple[MigrationView, ...]:
        """The remembered reshardings and the active one, oldest first."""
        stream = await self._desk.load_stream(prefix)
        active = (stream.resharding,) if stream.resharding is not None else ()
        return tuple(self.migration_view(stream, r) for r in (*stream.history, *active))

    def migration_view(self, stream: StreamRecord, resharding: Resharding) -> MigrationView:
        """A resharding of ``stream``, with what this coordinator has seen of its shards."""
        ended = resharding.state in ENDED
        preparing = {s.index for s in in_phase(stream, ShardPhase.PREPARING)}
        to_make = [index for index in scope(resharding) if resharding.to_count > resharding.from_count]
        made = self._work.sight(stream).made
        return MigrationView(
            resharding=resharding,
            rollback_eligible=resharding.state in _RETURNABLE and not resharding.any_sealed,
            provisioned=len(to_make) if ended else sum(i not in preparing or i in made for i in to_make),
            to_provision=len(to_make),
            draining=() if ended else self._looks(stream, resharding),
        )

    def _looks(self, stream: StreamRecord, resharding: Resharding) -> tuple[DrainLook, ...]:
        looks = drain_looks(stream, self._work.sight(stream))
        if looks or resharding.state is not ReshardingState.DRAINING:
            return looks
        known = [self._desk.groups.get(GroupKey(stream.prefix, entry.name)) for entry in _active(stream)]
        return held_looks(resharding, [group.record for group in known if group is not None])


def _active(stream: StreamRecord) -> list[GroupEntry]:
    return [g for g in stream.groups.values() if g.state is EntryState.ACTIVE]


def _entry(stream: StreamRecord, key: GroupKey) -> None:
    entry = stream.groups.get(key.group)
    if entry is None or entry.state is not EntryState.ACTIVE:
        raise GroupNotFound(f"no group '{key.group}' on stream '{key.prefix}': create it first")
