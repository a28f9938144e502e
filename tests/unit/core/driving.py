"""Coordinators over one store and one Redis in memory, their members, and ports that stop, fail and are counted."""

import types
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar, cast

import attrs

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.admin import (
    Author,
    CreateGroup,
    CreateStream,
    DeleteGroup,
    DeleteStream,
    GroupSpec,
    Idempotency,
    Rollback,
    Scale,
)
from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.coordinator import Coordinator
from streamshard.core.desk import Desk
from streamshard.core.group import GroupRecord
from streamshard.core.ids import (
    Epoch,
    GroupKey,
    GroupName,
    InstanceId,
    MemberId,
    Millis,
    ReshardingId,
    Seq,
    ShardIndex,
    StreamPrefix,
    Token,
    View,
    stream_key,
)
from streamshard.core.ports import MetadataStore, StreamBackend
from streamshard.core.replies import HeartbeatReply
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.stream import StreamRecord, StreamTombstone
from streamshard.core.timing import Timing
from streamshard.errors import StreamshardError
from streamshard.testing.clock import ManualClock, SeededEntropy

T = TypeVar("T")

ORDERS = StreamPrefix("orders")
BILLING = GroupName("billing")
KEY = GroupKey(ORDERS, BILLING)
AUDIT = GroupKey(ORDERS, GroupName("audit"))
ANN = Author("ann", "because")
S0, S1 = ShardIndex(0), ShardIndex(1)
TIMING = Timing(routing_lease_ms=Millis(5_000))
EXPIRY_MS = 15_150
PAUSE_MS = 50


@types.coroutine
def stand(where: str) -> Generator[str, None, None]:
    """Suspend, and say where."""
    yield where


class Port:
    """Another port, whose calls are counted; each can fail, or stop before and behind it."""

    def __init__(self, port: object) -> None:
        self._port = port
        self.calls: list[str] = []
        self.stops = False
        self.failures: dict[str, deque[Exception]] = defaultdict(deque)
        self.trouble: Callable[[str, tuple[Any, ...]], Exception | None] = lambda name, given: None
        # Set, and not only found by `__getattr__`, which `isinstance` does not ask whether a port has a method.
        for name in dir(port):
            if not name.startswith("_") and callable(getattr(port, name)):
                setattr(self, name, self.__getattr__(name))

    def fail(self, name: str, *errors: Exception) -> None:
        """Let the next calls of this name fail, one after the other."""
        self.failures[name].extend(errors)

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._port, name)  # what the port lacks, this lacks too

        async def call(*given: Any) -> Any:
            self.calls.append(name)
            if self.stops:
                await stand(f"> {name}")
            error = self.failures[name].popleft() if self.failures[name] else self.trouble(name, given)
            if error is not None:
                raise error
            result = await method(*given)
            if self.stops:
                await stand(f"< {name}")
            return result

        return call


class Errand(Generic[T]):
    """A coroutine driven from one call of a port to the next."""

    def __init__(self, call: Coroutine[Any, Any, T], clock: ManualClock) -> None:
        self._call = call
        self._clock = clock
        self._result: list[T] = []
        self.at: str | None = None
        self.error: StreamshardError | None = None
        self.done = False

    @property
    def result(self) -> T:
        if self.error is not None:
            raise self.error
        return self._result[0]

    def step(self) -> None:
        try:
            self.at = self._call.send(None)
        except StopIteration as stop:
            self._result.append(stop.value)
            self.done = True
        except StreamshardError as error:
            self.error, self.done = error, True
        else:
            if self.at is None:
                self._clock.advance(PAUSE_MS)

    def go_to(self, where: str) -> "Errand[T]":
        while self.at != where:
            assert not self.done, f"it never came to {where}"
            self.step()
        return self

    def finish(self) -> T:
        while not self.done:
            self.step()
        return self.result

    def kill(self) -> None:
        self._call.close()


class Member:
    """A consumer that keeps to the protocol, and gives up at once what it is not granted any more."""

    def __init__(self, name: str = "a", instance: str = "1") -> None:
        self.name = MemberId(name)
        self.instance = InstanceId(instance * 32)
        self.seq = Seq(0)
        self.epoch = Epoch(0)
        self.view: View | None = None
        self.holds: dict[ShardIndex, Token] = {}

    def beat(self, **changes: Any) -> Heartbeat:
        """The next attempt."""
        self.seq = Seq(self.seq + 1)
        beat = Heartbeat(
            member=self.name,
            intent=Intent.STAY if self.epoch else Intent.JOIN,
            epoch=self.epoch,
            instance=self.instance,
            seq=self.seq,
            holds=tuple(Hold(shard, token) for shard, token in sorted(self.holds.items())),
            view=self.view,
        )
        return attrs.evolve(beat, **changes)

    def hear(self, reply: HeartbeatReply) -> HeartbeatReply:
        """Take in an answer."""
        if reply.view is not None:
            self.epoch, self.view = reply.epoch, reply.view
            self.holds = {grant.shard: grant.token for grant in reply.grants}
        return reply


class Node:
    """One coordinator, with a clock and a connection of its own."""

    def __init__(self, site: "Site", name: str, timing: Timing) -> None:
        self.site = site
        self.clock = ManualClock()
        self.connection = site.memory.connect()
        self.store = Port(self.connection)
        self.streams = Port(MemoryStreamBackend(site.world))
        self.entropy = SeededEntropy(name)
        self.coordinator = Coordinator(
            cast(MetadataStore, self.store),
            cast(StreamBackend, self.streams),
            self.clock,
            self.entropy,
            CoordinatorSettings(name, timing),
        )

    @property
    def desk(self) -> Desk:
        return self.coordinator._desk

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of a call; the clock is moved on while it sleeps."""
        return Errand(call, self.clock).finish()

    def start(self, call: Coroutine[Any, Any, T]) -> Errand[T]:
        """The same call, to be driven step by step: it stops at every call of a port."""
        self.store.stops = self.streams.stops = True
        return Errand(call, self.clock)

    def let_run(self) -> None:
        """What is driven from now on does not stop any more."""
        self.store.stops = self.streams.stops = False

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.run(self.coordinator.tick())

    def beat(self, member: Member, **changes: Any) -> HeartbeatReply:
        return member.hear(self.run(self.coordinator.heartbeat(KEY, member.beat(**changes))))

    def calls(self) -> list[str]:
        """The calls of both ports since this was last asked."""
        made = [*self.store.calls, *self.streams.calls]
        self.store.calls.clear()
        self.streams.calls.clear()
        return made


class Site:
    """What several coordinators share."""

    def __init__(self, shards: int = 2, *, timing: Timing = TIMING, empty: bool = False) -> None:
        self.memory = MemoryStore()
        self.world = MemoryStreams()
        self.timing = timing
        self.nodes: list[Node] = []
        if not empty:
            maker = self.node("maker")
            maker.run(maker.coordinator.create_stream(create(shards)))

    def node(self, name: str = "n1", timing: Timing | None = None) -> Node:
        self.nodes.append(Node(self, name, timing or self.timing))
        return self.nodes[-1]

    def pass_time(self, ms: int, *ticking: Node) -> None:
        """Let time pass in ticks of a second for all, and let some tick."""
        for passed in range(0, ms, 1_000):
            for node in self.nodes:
                node.clock.advance(min(1_000, ms - passed))
            for node in ticking:
                node.tick()

    @property
    def group(self) -> GroupRecord:
        record = self.memory._shelf.groups[KEY]
        assert isinstance(record, GroupRecord)
        return record

    @property
    def stream(self) -> StreamRecord:
        record = self.memory._shelf.streams[ORDERS]
        assert isinstance(record, StreamRecord)
        return record

    def append(self, shard: int, count: int = 1) -> None:
        for _ in range(count):
            assert self.world.add(stream_key(ORDERS, ShardIndex(shard)), {b"k": b"v"}) is not None


def create(shards: int = 2, *groups: str, author: Author = ANN) -> CreateStream:
    return CreateStream(ORDERS, author, shards, tuple(GroupSpec(GroupName(g)) for g in groups or (BILLING,)))


def scale(target: int, name: str = "r1") -> Scale:
    return Scale(ORDERS, ANN, target, ReshardingId(name))


def rollback(name: str = "r1") -> Rollback:
    return Rollback(ORDERS, ANN, ReshardingId(name))


def keyed(key: str) -> Author:
    return Author("ann", "because", Idempotency(key, "same"))


def add_group(**more: Any) -> CreateGroup:
    return CreateGroup(AUDIT, ANN, GroupSpec(AUDIT.group), **more)


def drop_group() -> DeleteGroup:
    return DeleteGroup(KEY, ANN)


def drop_stream() -> DeleteStream:
    return DeleteStream(ORDERS, ANN)


def shape(site: Site) -> tuple[object, ...]:
    """What a stream has come to, without the numbers that count attempts."""
    stored = site.memory._shelf.streams.get(ORDERS)
    keys = sorted(site.world.streams)
    if stored is None or isinstance(stored, StreamTombstone):
        return None, keys
    phases = "".join(shard.phase.value[0] for shard in stored.shards.values())
    ended = [(r.from_count, r.to_count, r.state.value) for r in stored.history]
    running = stored.resharding is not None
    groups = {name: entry.state.value for name, entry in stored.groups.items()}
    return stored.state.value, stored.routed_count, phases, ended, running, groups, keys


def live_on(site: Site, node: Node, member: Member, seconds: int = 14) -> None:
    """A coordinator ticks and a member beats until everything that can end has ended."""
    for _ in range(seconds):
        site.pass_time(1_000, node)
        if KEY in node.desk.groups or ORDERS in node.desk.layouts:
            node.beat(member)
