"""The tick: look at everything once, and do what is wanted. One stream's trouble stays its own."""

import contextlib
from collections.abc import Coroutine

from streamshard.core import group_ticks, mending
from streamshard.core.chronicle import Event
from streamshard.core.desk import Desk, KnownGroup
from streamshard.core.ids import GroupKey, GroupName, Instant, StreamPrefix
from streamshard.core.stream import EntryState, StreamRecord, StreamState
from streamshard.core.stream_events import GroupsSeen
from streamshard.core.stream_work import StreamWork
from streamshard.core.survey import Vacancies
from streamshard.core.trimming import Trimmer
from streamshard.core.unread import UnreadWatch
from streamshard.errors import (
    Conflict,
    MetadataCorrupt,
    NotFound,
    SourceChanged,
    StoreSignal,
    StreamUnavailable,
    Unavailable,
)


class Ticking:
    """Time's door to the coordinator."""

    def __init__(self, desk: Desk, work: StreamWork) -> None:
        self._desk = desk
        self._work = work
        self.trimmer = Trimmer(desk, work)
        self.began: Instant | None = None
        self.ended: Instant | None = None
        self.frozen: dict[str, str] = {}
        """Records that the last tick found not to be trusted, and why: nothing is done to them."""
        self.vacancies = Vacancies()
        self.unread = UnreadWatch()
        self._wrong: dict[str, tuple[str, ...]] = {}
        self._found: tuple[dict[str, str], dict[str, tuple[str, ...]]] = {}, {}

    def violations(self) -> tuple[str, ...]:
        """What the last tick found that must not be: records that can't be trusted, and breaches of invariants."""
        frozen = [f"{name}: frozen: {why}" for name, why in self.frozen.items()]
        return (*frozen, *(f"{name}: {what}" for name, found in self._wrong.items() for what in found))

    async def tick(self) -> None:
        """Raise `StoreUnavailable` if not even the list of streams can be read."""
        self._mind_the_time()
        self._found = {}, {}
        try:
            prefixes = await self._desk.store.prefixes()
        except Unavailable:
            self._desk.restart_timers(self._desk.clock.boot())
            raise
        for prefix in prefixes:
            await self._stream(prefix)
        self._desk.forget_streams(set(prefixes))
        self._work.forget_streams(set(prefixes))
        self.trimmer.forget_streams(set(prefixes))
        self.vacancies.keep(self._desk.groups)
        self.unread.keep(self._desk.groups)
        self.frozen, self._wrong = self._found
        self.ended = self._desk.clock.boot()

    def _mind_the_time(self) -> None:
        """A late tick means that this process slept: whatever its timers show was not healthy time."""
        now, timing = self._desk.clock.boot(), self._desk.settings.timing
        if self.began is not None and now - self.began > timing.tick_ms + timing.heartbeat_ms // 2:
            self._desk.restart_timers(now)
        self.began = now

    async def _stream(self, prefix: StreamPrefix) -> None:
        try:
            await self._look(prefix)
        except SourceChanged:
            self._desk.forget_source()
        except (StoreSignal, Conflict, NotFound):
            return  # somebody else is at it: the next tick sees what came of it
        except MetadataCorrupt as broken:
            self._freeze(prefix, broken)
        except Unavailable:
            self._desk.restart_timers(self._desk.clock.boot())

    async def _look(self, prefix: StreamPrefix) -> None:
        record = await self._reshard(prefix)
        keys = [GroupKey(prefix, name) for name in _active(record)] if record is not None else []
        self._desk.forget_groups([key for key in self._desk.groups if key.prefix == prefix and key not in keys])
        if record is None:
            return
        groups = [await self._group(key, record) for key in keys]
        known = [group for group in groups if group is not None]
        seen = GroupsSeen(tuple(group_ticks.summary(group.record) for group in known))
        await self._ask_redis(mending.mend(self._desk, record, known))
        await self._ask_redis(self.trimmer.round(record, known))
        if record.resharding is not None:
            await self._work.command(prefix, seen)

    async def _reshard(self, prefix: StreamPrefix) -> StreamRecord | None:
        """The stream, once one round of its work is done; None unless it is in use."""
        await self._ask_redis(self._work.round(prefix))
        record = (await self._desk.store.load_stream(prefix)).record
        if not isinstance(record, StreamRecord) or record.state is not StreamState.ACTIVE:
            return None
        self._desk.see_layout(record)
        return record

    async def _ask_redis(self, asking: Coroutine[object, object, object]) -> None:
        """Redis being away stops nothing that only needs the store."""
        with contextlib.suppress(StreamUnavailable):
            await asking

    async def _group(self, key: GroupKey, stream: StreamRecord) -> KnownGroup | None:
        try:
            known = await group_ticks.look(self._desk, key, stream)
        except MetadataCorrupt as broken:
            self._freeze(str(key), broken)
            return None
        except (StoreSignal, NotFound) as signal:
            if isinstance(signal, SourceChanged):
                raise
            return None
        self.vacancies.look(known.record, self._desk.clock.boot())
        self._desk.note(self.unread.look(known.record, known.rows, self._desk.settings.timing.heartbeat_ms))
        if known.wrong:
            self._tell(str(key), known)
        return known

    def _tell(self, name: str, known: KnownGroup) -> None:
        if self._wrong.get(name) != known.wrong:
            key = known.record.key
            self._desk.note([Event("violation", key.prefix, what, key.group) for what in known.wrong])
        self._found[1][name] = known.wrong

    def _freeze(self, name: str, broken: MetadataCorrupt) -> None:
        if name not in self.frozen:
            prefix = StreamPrefix(name.split("/", 1)[0])
            self._desk.note([Event("frozen", prefix, f"{name}: {broken.message}")])
        self._found[0][name] = broken.message


def _active(record: StreamRecord) -> list[GroupName]:
    return [name for name, entry in record.groups.items() if entry.state is EntryState.ACTIVE]
