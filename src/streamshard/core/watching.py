"""Watches: what a caller holds, and whether there is news for it. A hint only: nothing is decided on it."""

from collections.abc import Callable, Collection

import attrs

from streamshard.core import views
from streamshard.core.desk import Desk
from streamshard.core.group import GroupRecord
from streamshard.core.ids import GroupKey, MemberId, Version
from streamshard.core.notices import GroupWatch, LayoutWatch, Listener, Watch, Watched
from streamshard.core.ports import Glancing
from streamshard.core.replies import News
from streamshard.core.stream import StreamRecord
from streamshard.errors import InvalidRequest, MetadataCorrupt, NotFound, SourceChanged


def concerned(record: GroupRecord) -> frozenset[MemberId]:
    """Members for which a heartbeat would do something now: give a shard up, take a free one, learn of their end."""
    found = {
        holding.member
        for shard, holding in record.holdings.items()
        if record.targets.get(shard) != holding.member and not holding.draining and not holding.lapsed
    }
    if record.quarantine is None:
        found.update(member for shard, member in record.targets.items() if shard not in record.holdings)
    found.update(name for name, member in record.members.items() if not member.live)
    return frozenset(found)


def is_newer(version: Version, seen: Version | None) -> bool:
    """Whether ``version`` is one that whoever has ``seen`` can't know; an older copy of its lineage is not."""
    if seen is None or version.lineage != seen.lineage:
        return True
    return version.revision > seen.revision or (version.revision == seen.revision and version.nonce != seen.nonce)


def layout_news(stream: StreamRecord, watch: LayoutWatch) -> News:
    """Whether producers route by another layout now than the caller does."""
    other = watch.lineage is not None and watch.lineage != stream.lineage
    changed = other or watch.version != stream.layout_version
    return News(changed, stream.lineage, stream.layout_version, stream.version.revision)


@attrs.define
class _Judged:
    """The record that was looked at last, and whom it concerns: asked once for each waiter of a group."""

    record: GroupRecord
    concerned: frozenset[MemberId]


class Watches:
    """The watchers' door to the coordinator."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._judged: dict[GroupKey, _Judged] = {}
        self._unreadable: dict[Watched, Version | None] = {}
        """Versions that are not to be trusted; the tick tells of them, and one more look would change nothing."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each key whose record changed; returns what ends that."""
        return self._desk.notices.subscribe(listener)

    async def look(self, watch: Watch) -> News:
        """Judge by what the store has now; raises `StreamNotFound`, `GroupNotFound`, `InvalidRequest` for a view."""
        fresh = await self.refresh([watch.watched])
        stream = await self._stream(watch, fresh=fresh)
        if isinstance(watch, LayoutWatch):
            return layout_news(stream, watch)
        if not fresh or watch.key not in self._desk.groups:
            await self._desk.load_group(watch.key)
        return self._group_news(stream, watch)

    def glance(self, watch: Watch) -> News | None:
        """Judge by what this coordinator has in hand; None if it has nothing any more."""
        stream = self._desk.layouts.get(watch.prefix)
        if stream is None:
            return None
        if isinstance(watch, LayoutWatch):
            return layout_news(stream, watch)
        return self._group_news(stream, watch) if watch.key in self._desk.groups else None

    async def refresh(self, keys: Collection[Watched]) -> bool:
        """Read again what the store has in another version than this coordinator; False if the store can't say."""
        store = self._desk.store
        if not isinstance(store, Glancing):
            return False
        try:
            versions = await store.versions(tuple(keys))
            for key in keys:
                await self._catch_up(key, versions.get(key))
        except SourceChanged:
            self._desk.forget_source()
        return True

    async def _catch_up(self, key: Watched, version: Version | None) -> None:
        known = self._known(key)
        if known is None or known == version or self._unreadable.get(key) == version:
            return
        self._unreadable.pop(key, None)
        try:
            if isinstance(key, GroupKey):
                await self._desk.load_group(key)
            else:
                await self._desk.load_stream(key)
        except NotFound:
            return  # told as a notice, too: who watches it looks again, and hears that it is gone
        except MetadataCorrupt:
            self._unreadable[key] = version

    def _known(self, key: Watched) -> Version | None:
        if isinstance(key, GroupKey):
            group = self._desk.groups.get(key)
            return None if group is None else group.record.version
        stream = self._desk.layouts.get(key)
        return None if stream is None else stream.version

    async def _stream(self, watch: Watch, *, fresh: bool) -> StreamRecord:
        known = self._desk.layouts.get(watch.prefix)
        if known is not None and (fresh or isinstance(watch, GroupWatch)):
            return known
        return await self._desk.load_stream(watch.prefix)

    def _group_news(self, stream: StreamRecord, watch: GroupWatch) -> News:
        record = self._desk.groups[watch.key].record
        seen = _seen(stream, watch)
        newer = is_newer(record.version, seen)
        members = self._among(record, watch, seen) if newer else None if watch.members is None else ()
        return News(
            changed=newer and (seen is None or members is None or bool(members)),
            lineage=stream.lineage,
            layout_version=record.layout_version,
            metadata_version=record.metadata_version,
            view=views.mint(stream.mac_key, watch.key, record.version),
            members=members,
        )

    def _among(self, record: GroupRecord, watch: GroupWatch, seen: Version | None) -> tuple[MemberId, ...] | None:
        """Those of the watch's members whom the present record concerns; another lineage concerns them all."""
        if watch.members is None or seen is None or seen.lineage != record.lineage:
            return watch.members
        whom = self._concerned(record)
        return tuple(m for m in watch.members if m in whom or m not in record.members)

    def _concerned(self, record: GroupRecord) -> frozenset[MemberId]:
        """Worked out once per record, however many wait."""
        judged = self._judged.get(record.key)
        if judged is None or judged.record is not record:
            self._judged = {key: known for key, known in self._judged.items() if key in self._desk.groups}
            judged = self._judged[record.key] = _Judged(record, concerned(record))
        return judged.concerned


def _seen(stream: StreamRecord, watch: GroupWatch) -> Version | None:
    if watch.view is None:
        return None
    version = views.read(stream.mac_key, watch.key, watch.view)
    if version is None:
        raise InvalidRequest("view: is none of this group: send the one of the last answer, or none")
    return version
