"""The shipped coordinator, put into any state of a small world for one step."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import attrs

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core import group_ticks
from streamshard.core.admin import Author, CreateGroup, GroupSpec
from streamshard.core.commands import Heartbeat
from streamshard.core.coordinator import Coordinator
from streamshard.core.desk import Desk, KnownGroup
from streamshard.core.effects import RaiseFence, RaiseResult
from streamshard.core.group import GroupRecord
from streamshard.core.heartbeats import Heartbeats
from streamshard.core.ids import InstanceId, Instant, MemberId, Millis, Nonce, ShardIndex, Token, WallMillis, stream_key
from streamshard.core.replies import HeartbeatReply
from streamshard.core.session import Session
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.sight import GroupSight
from streamshard.core.stream import StreamRecord
from streamshard.errors import StreamUnavailable
from streamshard.testing.exhaustive.scopes import Scope, unit_ms
from streamshard.testing.exhaustive.state import KEY, Budget, Process, State, timing
from streamshard.testing.stepping import at_once


@attrs.define
class _Time:
    """A `Clock` that is set for each step; its wall clock stands still, so that tokens only count."""

    now: Instant = Instant(0)

    def boot(self) -> Instant:
        return self.now

    def wall(self) -> WallMillis:
        return WallMillis(1_000)

    async def sleep(self, duration: Millis) -> None:
        assert duration <= 0, "nobody else commits during a step, so nothing has to be tried again"


@attrs.define
class _Numbers:
    """An `Entropy` that counts."""

    drawn: int = 0

    def nonce(self) -> Nonce:
        self.drawn += 1
        return Nonce(f"{self.drawn:032x}")

    def fraction(self) -> float:
        return 0.0


class _MaybeDeaf(MemoryStreamBackend):
    """Shards in memory that don't answer a raise while ``deaf``."""

    deaf = False

    async def raise_fences(self, orders: Sequence[RaiseFence]) -> tuple[RaiseResult, ...]:
        """Raise token marks."""
        if self.deaf:
            raise StreamUnavailable("Redis does not answer")
        return await super().raise_fences(orders)


class Bench:
    """Asks the real coordinator what it does to a state."""

    def __init__(self, scope: Scope) -> None:
        self.unit_ms = unit_ms(scope)
        self.timing = timing(self.unit_ms, lapsing=scope.lapsing)
        self._store, self._world = MemoryStore(), MemoryStreams()
        self._streams = _MaybeDeaf(self._world)
        self._time, self._numbers = _Time(), _Numbers()
        self._settings = CoordinatorSettings("c", self.timing)
        record, self._stream = self._found(scope)
        self.mac_key = self._stream.mac_key
        self.first = State(
            record=_untold(record),
            rows={},
            marks={ShardIndex(shard): Token(0) for shard in range(scope.shards)},
            memories=(None,) * scope.coordinators,
            processes=tuple(_process(f"m{n}", f"i{n}") for n in range(scope.members)),
            budget=Budget(**{spent.name: getattr(scope, spent.name) for spent in attrs.fields(Budget)}),
            drawn=self._numbers.drawn,
        )

    def answer(self, state: State, number: int, beat: Heartbeat, *, deaf: bool = False) -> tuple[State, HeartbeatReply]:
        """Have a coordinator answer a heartbeat, from its arrival to its answer."""
        self._streams.deaf = deaf
        with self._in(state, number) as desk:
            reply = at_once(Heartbeats(desk).answer(KEY, beat))
            return self._after(state, number, desk), reply

    def tick(self, state: State, number: int) -> State:
        """Have a coordinator look at the group, as each of its ticks does; raises `MetadataCorrupt`."""
        self._streams.deaf = False
        with self._in(state, number) as desk:
            at_once(group_ticks.look(desk, KEY, self._stream))
            return self._after(state, number, desk)

    def _found(self, scope: Scope) -> tuple[GroupRecord, StreamRecord]:
        coordinator = Coordinator(self._store, self._streams, self._time, self._numbers, self._settings)
        create = CreateGroup(KEY, Author("operator", "because"), GroupSpec(KEY.group), scope.shards)
        view = at_once(coordinator.create_group(create))
        return view.record, at_once(coordinator.stream(KEY.prefix))

    @contextmanager
    def _in(self, state: State, number: int) -> Iterator[Desk]:
        self._store.put_back(state.record, state.rows)
        for shard, mark in state.marks.items():
            self._world.fences[stream_key(KEY.prefix, shard)].tokens[KEY.group] = mark
        self._time.now, self._numbers.drawn = state.now, state.drawn
        desk = Desk(self._store, self._streams, self._time, self._numbers, self._settings)
        desk.layouts[KEY.prefix] = self._stream
        memory = state.memories[number]
        if memory is not None:
            desk.groups[KEY] = copied(memory)
        yield desk

    def _after(self, state: State, number: int, desk: Desk) -> State:
        snapshot = at_once(self._store.load_group(KEY))
        assert isinstance(snapshot.record, GroupRecord), "no group is deleted here"
        memory = copied(desk.groups[KEY])
        memory.record = _untold(memory.record)
        record = memory.record if memory.record.version == snapshot.record.version else _untold(snapshot.record)
        return attrs.evolve(
            state,
            record=record,
            rows=snapshot.rows,
            marks={shard: self._mark(shard) for shard in state.marks},
            memories=(*state.memories[:number], memory, *state.memories[number + 1 :]),
            drawn=self._numbers.drawn,
        )

    def _mark(self, shard: ShardIndex) -> Token:
        return self._world.fences[stream_key(KEY.prefix, shard)].tokens.get(KEY.group, Token(0))


def _process(name: str, instance: str) -> Process:
    return Process(Session(MemberId(name), InstanceId(instance)), (InstanceId(instance),))


def _untold(record: GroupRecord) -> GroupRecord:
    """Without its time line, which is no part of the state and only grows."""
    return attrs.evolve(record, events=(), spans=()) if record.events or record.spans else record


def copied(known: KnownGroup) -> KnownGroup:
    """Apart from the other one from now on."""
    seen = known.sight
    sight = GroupSight(
        source=seen.source,
        version=seen.version,
        lineage_since=seen.lineage_since,
        seen_at=seen.seen_at,
        rows=dict(seen.rows),
        to_drain=dict(seen.to_drain),
        lapsed=dict(seen.lapsed),
        raised=set(seen.raised),
        proven=seen.proven,
    )
    return KnownGroup(known.record, dict(known.rows), sight, known.lost)
