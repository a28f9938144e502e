"""What people and dashboards ask: it reads the store and Redis, and changes neither."""

import contextlib
from collections.abc import Mapping, Sequence

from streamshard.core.desk import Desk
from streamshard.core.ids import GroupKey, InstanceId, ShardIndex
from streamshard.core.inspection import Page, StreamInspector, Wanted
from streamshard.core.invariants import group_violations
from streamshard.core.offsets import Offsets, offsets
from streamshard.core.presence import Presence, presences
from streamshard.core.queries import FrozenGroup, GroupView
from streamshard.core.reading import Reading
from streamshard.core.stream import StreamRecord
from streamshard.core.stream_shape import readable
from streamshard.errors import MetadataCorrupt, NotFound, StreamUnavailable


class Monitoring:
    """The watchers' door to the coordinator."""

    def __init__(self, desk: Desk, reading: Reading, inspector: StreamInspector | None) -> None:
        self._desk = desk
        self._reading = reading
        self._inspector = inspector

    async def streams(self) -> tuple[StreamRecord, ...]:
        """Every stream in use, sorted by prefix; those that can't be read are left out and stand in health."""
        found: list[StreamRecord] = []
        for prefix in await self._desk.store.prefixes():
            with contextlib.suppress(NotFound, MetadataCorrupt):
                found.append(await self._reading.stream(prefix))
        return tuple(found)

    async def groups(self) -> tuple[tuple[GroupView, ...], tuple[FrozenGroup, ...]]:
        """Every group, sorted by key: those that can be read, and those that nothing is done to."""
        views, unreadable = await self._reading.groups_and_frozen()
        broken = [FrozenGroup(k, "; ".join(known.broken)) for k, known in self._desk.groups.items() if known.broken]
        return views, tuple(sorted((*unreadable, *broken), key=lambda group: group.key))

    def presences(self, view: GroupView) -> Mapping[InstanceId, Presence]:
        """When this coordinator last heard of each instance; empty for a group it has not watched yet."""
        known = self._desk.groups.get(view.record.key)
        if known is None:
            return {}
        desk = self._desk
        now, wall = desk.clock.boot(), desk.clock.wall()
        return presences(view, known.sight, desk.settings.timing, now, wall)

    def violations(self, view: GroupView) -> tuple[str, ...]:
        """What must not be and is, by the rules that tests and simulations judge by too."""
        known = self._desk.groups.get(view.record.key)
        seen = () if known is None else known.broken
        return tuple(dict.fromkeys((*group_violations(view.record), *seen)))

    async def offsets(self, key: GroupKey) -> Offsets:
        """How far the group is behind; raises `StreamNotFound`, `GroupNotFound` or `StreamUnavailable`."""
        view = await self._reading.group(key)
        shards = [shard.index for shard in readable(view.stream)]
        looks = await self._inspecting().look(key.prefix, shards, key.group) if shards else ()
        return offsets(view, looks)

    async def messages(self, key: GroupKey, shards: Sequence[ShardIndex], wanted: Wanted) -> tuple[Page, ...]:
        """A page of each shard; raises `NotFound` if the stream has no such shard."""
        view = await self._reading.group(key)
        missing = [shard for shard in shards if shard not in view.stream.shards]
        if missing:
            raise NotFound(f"stream '{key.prefix}' has no shard {missing[0]}: it has {view.stream.routed_count}")
        return await self._inspecting().pages(key.prefix, shards, wanted)

    def _inspecting(self) -> StreamInspector:
        if self._inspector is None:
            raise StreamUnavailable("this coordinator was built without a stream inspector, and can't look into shards")
        return self._inspector
