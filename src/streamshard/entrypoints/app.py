"""`StreamApp`: listeners and producers of one process, from a coordinator's URL and a Redis."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import attrs

from streamshard.adapters.client.credentials import Auth
from streamshard.adapters.client.member import Identity, Member
from streamshard.adapters.client.membership import Membership
from streamshard.adapters.client.noise import Grumble
from streamshard.adapters.client.poller import Poller, Reading
from streamshard.adapters.client.producer import Producer, Publishing
from streamshard.adapters.client.status import MemberStatus
from streamshard.adapters.client.waiter import Waiter
from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.core.ids import MemberId
from streamshard.core.ports import Clock, Entropy, Redelivering, ShardLog
from streamshard.entrypoints.connecting import Where, coordinator_at
from streamshard.entrypoints.identity import member_ids
from streamshard.entrypoints.listening import Guard, Listener, ListenerOptions, check_limits, group_key
from streamshard.entrypoints.publishing import ProducerOptions, publishing
from streamshard.entrypoints.running import run_to_the_end
from streamshard.entrypoints.sharing import Listeners, check_options
from streamshard.errors import (
    ConfigurationError,
    CoordinatorUnreachable,
    Forbidden,
    ListenerRejected,
    StreamUnavailable,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from streamshard.entrypoints.measuring import Measuring
    from streamshard.entrypoints.testkit import TestKit

_LOG = logging.getLogger(__name__)

DEFAULT_REDIS = "redis://127.0.0.1:6379"
LEAVE_GRACE_S = 2.0
START_PAUSE_S = 0.25

_Answer = TypeVar("_Answer")
_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


@attrs.frozen
class _Served:
    """One logical member at work."""

    member: Member
    poller: Poller
    joined: "Future[None]"


class StreamApp:
    """The listeners and producers of one process; an app runs once.

    ``url``: one or several base URLs of coordinators, or a `CoordinatorApi` in this process; without it
    ``STREAMSHARD_URL``. ``redis``: a URL, or a `ShardLog`. ``token``, or ``auth``, which is a name and a password, is
    for coordinators with accounts; without either the environment is asked. Durations are seconds. Ports that were
    handed in ready-made are not closed.
    """

    def __init__(  # noqa: PLR0913  # each has a default, and all but two go by name
        self,
        url: Where = None,
        redis: str | ShardLog = DEFAULT_REDIS,
        *,
        token: str | None = None,
        auth: Auth | None = None,
        drain_timeout: float = 30.0,
        start_timeout: float = 10.0,
    ) -> None:
        check_limits(drain_timeout=drain_timeout, start_timeout=start_timeout)
        self._drain_timeout, self._start_timeout = drain_timeout, start_timeout
        self._clock: Clock = SystemClock()
        self._entropy: Entropy = SystemEntropy()
        self._grumble = Grumble(_LOG, self._clock)
        self._closing = contextlib.AsyncExitStack()
        self._connect, self._api = coordinator_at(url, token, auth, self._closing)
        self._log = self._shard_log(redis)
        self._listeners: list[Listener] = []
        self._producers: list[Producer] = []
        self._guards: list[Guard] = []
        self._served: list[_Served] = []
        self._measuring: Measuring | None = None
        self._started = False
        self._hurry = asyncio.Event()
        self._exit: SystemExit | None = None
        self._exiting = asyncio.Event()

    def listener(
        self, prefix: str, *, group: str, **options: Unpack[ListenerOptions]
    ) -> Callable[[_Decorated], _Decorated]:
        """Hand records of ``prefix`` to the decorated function, as members of ``group``.

        Options, with their defaults: ``concurrency=1`` logical members; ``max_workers=16`` handlers at a
        time per member; ``batch=None`` (or the most records of one shard per call: the handler gets a
        `Batch`); ``ack="explicit"`` (or ``"on_success"``); ``redeliver_after=30.0`` seconds until a record
        that was not acknowledged comes again; ``max_deliveries=None`` (or after how many a record is kept in
        ``PREFIX:dlq`` instead); ``failure="leave_pending"`` (or ``"xnack"``); ``ack_mode="auto"`` (or
        ``"xack"``, ``"xackdel"``); ``page=64`` records per read; ``sweep_every=15.0``;
        ``member_id=None``; ``on_assigned``, ``on_revoked``, ``on_lost``, ``on_fenced``: called
        with member, shard, token.
        Raises `ConfigurationError`.
        """
        if self._started:
            raise ConfigurationError("app: was started before: register every listener first")
        check_options(options)
        key = group_key(prefix, group)
        if any(listener.key == key for listener in self._listeners):
            raise ConfigurationError(f"group: {key} has a listener in this app already: raise its concurrency instead")

        def register(handler: _Decorated) -> _Decorated:
            self._listeners.append(Listener(key, handler, **options))
            return handler

        return register

    def listeners(self, **defaults: Unpack[ListenerOptions]) -> Listeners:
        """Listeners that share these options, each of which may have its own instead; raises `ConfigurationError`."""
        return Listeners(self, defaults)

    def register(self, handlers: object) -> None:
        """Let the methods of ``handlers`` listen that are marked with `listens`."""
        self.listeners().register(handlers)

    def producer(self, prefix: str, group: str, **options: Unpack[ProducerOptions]) -> Producer:
        """A producer for ``prefix``, routed by the metadata of ``group``; use it on the app's event loop.

        Options, with their defaults: ``max_len=None`` (or to how many records a shard is trimmed);
        ``trim="approximate"`` (or ``"exact"``); ``max_attempts=2`` to send one record;
        ``refresh_interval=30.0`` seconds; ``retry_uncertain=False`` (True: send again, which may duplicate, what
        may be written already). Raises `ConfigurationError`.
        """
        producer = self._producer(publishing(prefix, group, options))
        self._closing.push_async_callback(producer.close)
        self._producers.append(producer)
        return producer

    def measure(self, registry: "CollectorRegistry") -> None:
        """Tell ``registry`` of the listeners, and of the producers that are made from now on, until the app stops.

        Raises `ConfigurationError` if there are producers already, or another app is measured there. Needs the
        extra ``prometheus``.
        """
        # Imported here: who has no registry needs no library for it.
        from streamshard.entrypoints.measuring import Measuring

        if self._started or self._producers or self._measuring is not None:
            raise ConfigurationError("measure: comes before the start and before the first producer, and once")
        measuring = Measuring(lambda: self.members)
        measuring.register(registry)
        self._closing.callback(measuring.close)
        self._measuring = measuring

    def test(self, *, shards: int = 4) -> "TestKit":
        """The listeners and producers over everything in memory, with a clock in the test's hand; for a ``with``.

        Every stream that they name is there, empty, with so many ``shards``. Needs no server.
        """
        # Imported here: an application in production has no use for it.
        from streamshard.entrypoints.testkit import TestKit

        return TestKit(tuple(self._listeners), tuple(self._producers), shards)

    @contextlib.asynccontextmanager
    async def lifespan(self, asgi: object = None) -> AsyncIterator[None]:
        """Serve as long as a web application does: ``Starlette(lifespan=app.lifespan)``, and so for FastAPI."""
        async with self:
            yield

    @property
    def members(self) -> tuple[Member, ...]:
        """The logical members at work, with their sessions; empty before the start."""
        return tuple(served.member for served in self._served)

    def status(self) -> tuple[MemberStatus, ...]:
        """How each member is at this moment, with the shards it reads; on the app's event loop."""
        return tuple(served.poller.status() for served in self._served)

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then stop gracefully; a second signal breaks handlers off.

        Raises what start-up found wrong, and `ListenerRejected` if the coordinator refuses this client.
        """
        run_to_the_end(self._serve())
        if self._exit is not None:
            raise SystemExit(self._exit.code)

    async def __aenter__(self) -> "StreamApp":
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Check that everything listened to exists, then join; raises `StreamNotFound`, `GroupNotFound` and more."""
        if self._started:
            raise ConfigurationError("app: was started before, and runs only once: make a new StreamApp")
        self._started = True
        try:
            for listener in self._listeners:
                await self._check(listener)
            await self._check_server()
            if self._listeners:
                self._join()
        except BaseException:
            await self._closing.aclose()
            raise

    async def wait(self) -> None:
        """Return when every member has left, or a handler called `sys.exit`.

        Raises `ListenerRejected`, or the fault that ended a member.
        """
        exiting = asyncio.ensure_future(self._exiting.wait())
        try:
            await self._wait_for_members(exiting)
        finally:
            exiting.cancel()

    async def _wait_for_members(self, exiting: "asyncio.Future[Any]") -> None:
        ends = [asyncio.wrap_future(served.joined) for served in self._served]
        watched: list[asyncio.Future[Any]] = [exiting, *ends, *(served.poller.failure for served in self._served)]
        while not exiting.done() and not all(end.done() for end in ends):
            done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                future.result()
            self._raise_rejection()
            watched = [future for future in watched if future not in done]

    async def stop(self) -> None:
        """Stop reading, let handlers finish within ``drain_timeout``, acknowledge, release, leave, close."""
        for served in self._served:
            served.poller.halt()
            served.member.stop()
        await self._drained()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_GRACE_S):
                await asyncio.gather(*(served.poller.over.wait() for served in self._served))
        await self._closing.aclose()

    def hurry(self) -> None:
        """Break off the handlers that `stop` waits for."""
        self._hurry.set()

    def _leave(self, asked: SystemExit) -> None:
        self._exit = self._exit or asked
        self._exiting.set()

    async def _serve(self) -> None:
        loop, asked = asyncio.get_running_loop(), asyncio.Event()

        def signalled() -> None:
            if asked.is_set():
                self.hurry()
            asked.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, signalled)
        async with self:
            waits: list[asyncio.Task[Any]] = [loop.create_task(asked.wait()), loop.create_task(self.wait())]
            try:
                if self._served:
                    done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
                else:
                    await asked.wait()
            finally:
                for task in waits:
                    task.cancel()
                await asyncio.gather(*waits, return_exceptions=True)

    async def _drained(self) -> None:
        quiet: asyncio.Future[Any] = asyncio.gather(*(served.poller.quiet() for served in self._served))
        hurry: asyncio.Future[Any] = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait({quiet, hurry}, timeout=self._drain_timeout, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not quiet.done():
            _LOG.warning("handlers still run after the time to drain: breaking them off")
            for served in self._served:
                served.poller.cancel()
            await asyncio.wait({quiet}, timeout=LEAVE_GRACE_S)
        if not quiet.done():
            await self._abandon(quiet)
        quiet.cancel()
        await asyncio.gather(quiet, return_exceptions=True)

    async def _abandon(self, quiet: "asyncio.Future[Any]") -> None:
        _LOG.warning("handlers still run that can't be broken off: going without them")
        for guard in self._guards:
            guard.abandon()
        for served in self._served:
            served.poller.abandon()
        await asyncio.wait({quiet}, timeout=LEAVE_GRACE_S)

    async def _check(self, listener: Listener) -> None:
        try:
            routing = await self._patiently(lambda: self._api.routing(listener.key))
        except Forbidden:  # who may be a member need not be allowed to look at the layout
            return
        if routing.shard_count == 0 and not routing.resharding_active:
            raise ConfigurationError(f"{listener.key}: the stream has no shards: scale it out before listening")

    async def _check_server(self) -> None:
        demanding = [listener for listener in self._listeners if listener.demanding]
        if not demanding:
            return
        if not isinstance(self._log, Redelivering):
            raise ConfigurationError(
                f"redis: {type(self._log).__name__} lacks what max_deliveries, 'xnack' and 'xackdel' need of a ShardLog"
            )
        server = await self._patiently(self._log.abilities)
        for listener in demanding:
            problem = listener.problem(server)
            if problem is not None:
                raise ConfigurationError(f"{listener.key}: {problem}")

    async def _patiently(self, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        ends_at = self._clock.boot() + self._start_timeout * 1000
        while True:
            try:
                return await ask()
            except (CoordinatorUnreachable, StreamUnavailable):
                if self._clock.boot() >= ends_at:
                    raise
                await asyncio.sleep(START_PAUSE_S)

    def _join(self) -> None:
        membership = self._membership()
        membership.start()
        self._closing.push_async_callback(asyncio.to_thread, membership.close)
        waiter = Waiter(self._log)
        self._closing.push_async_callback(waiter.close)
        for listener in self._listeners:
            guard = Guard(listener, self._clock, self._leave)
            self._guards.append(guard)
            self._closing.push_async_callback(guard.close)
            reading = self._reading(listener, guard)
            for member in member_ids(listener.member_id, listener.concurrency):
                poller = Poller(reading, self._log, waiter, self._clock, self._entropy)
                self._served.append(self._admit(membership, listener, member, poller))

    def _reading(self, listener: Listener, guard: Guard) -> Reading:
        reading = Reading(listener.key, guard.handle, guard, listener.pace(), listener.max_workers, self._grumble)
        if self._measuring is None:
            return reading
        work = self._measuring.work(listener.key)
        return attrs.evolve(reading, handle=work.around(guard.handle), given_up=work.give_up)

    def _producer(self, options: Publishing) -> Producer:
        ports = (self._api, self._log, self._clock, self._entropy)
        return Producer(options, *ports) if self._measuring is None else self._measuring.producer(options, *ports)

    def _membership(self) -> Membership:
        home = asyncio.get_running_loop()
        return Membership(lambda: self._connect(home))

    def _admit(self, membership: Membership, listener: Listener, name: MemberId, poller: Poller) -> _Served:
        identity = Identity(name, name, listener.member_id is None, listener.max_workers)
        member = Member(listener.key, identity, self._clock, self._entropy, poller)
        member.grumble = self._grumble
        poller.serve(member)
        return _Served(member, poller, membership.add(member))

    def _raise_rejection(self) -> None:
        for served in self._served:
            if served.member.rejection is not None:
                raise ListenerRejected(f"{served.member.key}: {served.member.rejection}")

    def _shard_log(self, redis: str | ShardLog) -> ShardLog:
        if not isinstance(redis, str):
            return redis
        from streamshard.adapters.streams.opening import shard_log

        log = shard_log(redis)
        self._closing.push_async_callback(log.close)
        return log
