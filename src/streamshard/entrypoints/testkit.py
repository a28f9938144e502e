"""`TestKit`: an app's handlers and producers without Redis, without a coordinator's process, on a clock in the hand."""

import asyncio
import contextlib
import inspect
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import attrs

from streamshard.adapters.client.membership import Membership
from streamshard.adapters.client.message import Batch, Message
from streamshard.adapters.client.producer import Failure, Fields, Key, Producer, Published, Publishing
from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.adapters.streams.record_ids import id_text
from streamshard.core.admin import Author, CreateStream, GroupSpec
from streamshard.core.commands import Heartbeat
from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import GroupKey, GroupName, RecordId
from streamshard.core.ports import CoordinatorApi
from streamshard.core.records import Record
from streamshard.core.replies import HeartbeatReply, Routing
from streamshard.core.settings import CoordinatorSettings
from streamshard.entrypoints.app import StreamApp
from streamshard.entrypoints.listening import Listener, group_key, is_async
from streamshard.entrypoints.ticker import Ticker
from streamshard.errors import ConfigurationError, CoordinatorUnreachable
from streamshard.testing.clock import SeededEntropy
from streamshard.testing.virtual import LoopClock, VirtualLoop

_Result = TypeVar("_Result")

LONGEST_S = 120.0
STEP_S = 0.1


@attrs.frozen
class Handled:
    """One call of a handler with one record. ``error`` is what the handler raised."""

    group: GroupKey
    key: str
    id: RecordId
    fields: Mapping[bytes, bytes]
    delivery_count: int
    acknowledged: bool
    error: Exception | None = None

    def text(self, field: str) -> str:
        """A field as UTF-8 text."""
        return self.fields[field.encode()].decode()


class _Line:
    """The way to the coordinator, which a test may cut."""

    def __init__(self, api: CoordinatorApi) -> None:
        self._api = api
        self.cut = False

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        self._check()
        return await self._api.heartbeat(key, beat)

    async def routing(self, key: GroupKey) -> Routing:
        self._check()
        return await self._api.routing(key)

    def _check(self) -> None:
        if self.cut:
            raise CoordinatorUnreachable("the test keeps the coordinator away")


class _Membership(Membership):
    """On the loop of the test instead of a thread of its own."""

    def __init__(self, api: CoordinatorApi) -> None:
        super().__init__(lambda: contextlib.nullcontext(api))
        self._line = api

    def start(self) -> None:
        self._ready.set_result((asyncio.get_running_loop(), self._line))

    def close(self) -> None:
        """Nothing was begun that does not end with the members."""


class _TestedApp(StreamApp):
    """A copy of an app over ports that a test decides about."""

    def listen(self, listeners: Iterable[Listener], clock: LoopClock) -> None:
        self._listeners = list(listeners)
        self._clock, self._entropy = clock, SeededEntropy()

    def _membership(self) -> Membership:
        return _Membership(self._api)


class TestKit:
    """Everything of an app in this process and in memory. Nothing happens, and no time passes, but in its methods.

    Each method that does something ends when everything is done that can be done at that moment. Durations are seconds.
    """

    __test__ = False  # it is no test, whatever it is called

    def __init__(self, listeners: Sequence[Listener], producers: Sequence[Producer], shards: int) -> None:
        self.handled: list[Handled] = []
        """Every call of a handler, in the order in which they ended."""
        self._loop = VirtualLoop()
        self._clock = LoopClock(self._loop)
        self._world = MemoryStreams(self._clock.wall)
        backend, settings = MemoryStreamBackend(self._world), CoordinatorSettings("test")
        self._coordinator = Coordinator(MemoryStore(), backend, self._clock, SeededEntropy(), settings)
        self._ticker = Ticker(self._coordinator, self._clock, settings.timing.tick_ms)
        self._line, self._log = _Line(self._coordinator), MemoryShardLog(self._world)
        self._listeners, self._producers, self._shards = listeners, producers, shards
        self._keys = [*(listener.key for listener in listeners), *(producer.key for producer in producers)]
        self._app = _TestedApp(self._line, self._log)
        self._app.listen([self._noted(listener) for listener in listeners], self._clock)
        self._own: dict[GroupKey, Producer] = {}
        self._ending = contextlib.ExitStack()

    def __enter__(self) -> "TestKit":
        self._ending.callback(self._loop.end)
        with contextlib.ExitStack() as undo:
            undo.callback(self._ending.close)
            for producer in self._producers:
                self._ending.enter_context(producer.instead(self._line, self._log, self._clock, SeededEntropy()))
            self.run(self._start())
            while not self._owned():
                self.advance(STEP_S)
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._ending:
            self.restore_coordinator()
            self._world.come_back()
            self._loop.finish(self._app.stop(), LONGEST_S)

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._clock.boot() / 1000

    def advance(self, seconds: float) -> None:
        """Let time pass: heartbeats, leases, redelivery and whatever sleeps in a handler."""
        self._loop.advance(seconds)

    def run(self, work: Coroutine[Any, Any, _Result], within: float = 0.0) -> _Result:
        """Run ``work``, a publish for example, and what follows from it; up to ``within`` seconds may pass.

        Raises what it raises, and `TimeoutError` if it waits for more.
        """
        return self._loop.finish(work, within)

    def publish(self, prefix: str, key: Key, fields: Fields) -> Published:
        """Publish a record, as anybody might, and let it be handled."""
        return self.run(self._producer(prefix).publish(key, fields))

    def publish_many(self, prefix: str, records: Iterable[tuple[Key, Fields]]) -> list[Published | Failure]:
        """Publish records and let them be handled."""
        return self.run(self._producer(prefix).publish_many(records))

    def records(self, prefix: str) -> tuple[Record, ...]:
        """Every record of a stream, shard after shard."""
        keys = [f"{prefix}:{shard}" for shard in range(self._shards)]
        return tuple(record for key in keys for record in self._world.entries(key))

    def dead_letters(self, prefix: str) -> tuple[Record, ...]:
        """Every record of a stream's dead-letter stream."""
        return self._world.entries(f"{prefix}:dlq")

    def pending(self, prefix: str, group: str) -> tuple[RecordId, ...]:
        """What is not acknowledged in a group, handed out or not, shard after shard."""
        name = group_key(prefix, group).group
        return tuple(id_text(entry) for shard in range(self._shards) for entry in self._open(f"{prefix}:{shard}", name))

    def cut_coordinator(self) -> None:
        """No heartbeat and no routing is answered from now on."""
        self._line.cut = True

    def restore_coordinator(self) -> None:
        """Answer again."""
        self._line.cut = False

    def stop_redis(self) -> None:
        """No record is read, acknowledged or published from now on."""
        self._world.go_down()

    def start_redis(self) -> None:
        """Go on, with everything as it was."""
        self._world.come_back()
        self._loop.settle()

    def _open(self, key: str, name: GroupName) -> list[tuple[int, int]]:
        stream = self._world.streams.get(key)
        group = stream.groups.get(name) if stream is not None else None
        return [] if stream is None or group is None else [*sorted(group.pending), *stream.after(group.last_delivered)]

    async def _start(self) -> None:
        groups: dict[Any, set[Any]] = defaultdict(set)
        for key in self._keys:
            groups[key.prefix].add(key.group)
        for prefix, names in sorted(groups.items()):
            specs = tuple(GroupSpec(name) for name in sorted(names))
            await self._coordinator.create_stream(CreateStream(prefix, Author("test"), self._shards, groups=specs))
        self._ticking = asyncio.get_running_loop().create_task(self._ticker.run())
        await self._app.start()

    def _owned(self) -> bool:
        if self.now > LONGEST_S:
            raise TimeoutError(f"the listeners do not own their shards after {LONGEST_S} s")
        held: dict[GroupKey, int] = defaultdict(int)
        for member in self._app.members:
            held[member.key] += len(member.session.held)
        return all(held[listener.key] == self._shards for listener in self._listeners)

    def _producer(self, prefix: str) -> Producer:
        keys = [key for key in self._keys if key.prefix == prefix]
        if not keys:
            raise ConfigurationError(f"prefix: no listener and no producer of the app knows {prefix!r}")
        if keys[0] not in self._own:
            options = Publishing(keys[0])
            self._own[keys[0]] = Producer(options, self._line, self._log, self._clock, SeededEntropy())
        return self._own[keys[0]]

    def _noted(self, listener: Listener) -> Listener:
        call = _awaitable(listener.handler)

        async def handle(given: Message | Batch) -> None:
            error: Exception | None = None
            try:
                await call(given)
            except Exception as raised:  # the outermost frame of this kit around the application's handler
                error = raised
                raise
            finally:
                messages = [given] if isinstance(given, Message) else list(given)
                self.handled.extend(_note(listener.key, message, error) for message in messages)

        return attrs.evolve(listener, handler=handle)


def _note(group: GroupKey, message: Message, error: Exception | None) -> Handled:
    content = (message.fields, message.delivery_count, message.acknowledged)
    return Handled(group, message.key, message.id, *content, error)


def _awaitable(handler: Callable[[Any], Awaitable[None] | None]) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    """A plain function goes to a thread, as in an app; the loop waits for it without letting time pass."""

    async def call(given: Message | Batch) -> None:
        called = handler(given) if is_async(handler) else await asyncio.to_thread(handler, given)
        if inspect.isawaitable(called):
            await called

    return call
