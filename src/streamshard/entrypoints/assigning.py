"""`Membership`: which shards are ours, for those who read with a framework of their own."""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from concurrent.futures import Future
from typing import Any, TypeAlias, TypedDict, Unpack

import attrs

from streamshard.adapters.client import membership as client
from streamshard.adapters.client.credentials import Auth
from streamshard.adapters.client.member import Identity, Member, Order, Report
from streamshard.adapters.client.noise import Grumble
from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.core.actions import Drain, Drop, Start
from streamshard.core.group import ShardProgress
from streamshard.core.ids import GroupKey, MemberId, ShardIndex, Token, stream_key
from streamshard.core.records import ShardAccess
from streamshard.entrypoints.connecting import Where, coordinator_at
from streamshard.entrypoints.identity import member_ids
from streamshard.entrypoints.listening import check_limits, group_key
from streamshard.errors import ListenerRejected

_LOG = logging.getLogger(__name__)

ASK_AGAIN_S = 0.2
LEAVE_GRACE_S = 2.0

Shards: TypeAlias = tuple[ShardIndex, ...]
OnAssigned: TypeAlias = Callable[[Shards, "Assignment"], Awaitable[None] | None]
OnRevoked: TypeAlias = Callable[
    [Shards, "Assignment"], Awaitable[Collection[ShardIndex] | None] | Collection[ShardIndex] | None
]


@attrs.define
class _Held:
    """A shard that was ordered to be read. ``called``: the application may know of it; ``told``: it does."""

    start: Start
    called: bool = False
    told: bool = False
    ending: bool = False
    lost: bool = False


class MembershipOptions(TypedDict, total=False):
    """What `Membership` takes by name besides its callbacks."""

    member_id: str | None
    token: str | None
    auth: Auth | None
    max_workers: int
    drain_timeout: float


class Assignment:
    """What a callback may ask about the shards it is told of."""

    def __init__(self, key: GroupKey, member: Member, held: dict[ShardIndex, _Held]) -> None:
        self.key = key
        self.member: MemberId = member.session.member
        self._member, self._held = member, held

    def stream_key(self, shard: ShardIndex) -> str:
        """The Redis key, such as ``orders:3``."""
        return stream_key(self.key.prefix, shard)

    def token(self, shard: ShardIndex) -> Token:
        """The fencing token; `KeyError` for a shard that is not ours."""
        return self._held[shard].start.token

    def access(self, shard: ShardIndex) -> ShardAccess:
        """What the fenced orders of a `ShardLog` take; `KeyError` for a shard that is not ours."""
        start = self._held[shard].start
        return ShardAccess(
            self.key.prefix, shard, self.key.group, self._member.session.member, start.generation, start.token
        )

    def may_use(self, shard: ShardIndex) -> bool:
        """Whether the lease lasts at this moment; look before every read, handler and acknowledgement."""
        held = self._held.get(shard)
        return held is not None and self._member.may_use(shard, held.start.token)

    def lost(self, shard: ShardIndex) -> bool:
        """The right is gone already: stop at once, and acknowledge nothing."""
        held = self._held.get(shard)
        return held is None or held.lost


class Membership:
    """One member of a group: heartbeats on a thread of its own, assignments to two callbacks on the event loop.

    ``on_assigned(shards, assignment)`` is told of shards to begin with, and again if it raised.
    ``on_revoked(shards, assignment)`` is told of shards to end with, again and again, about five times a second,
    until it has returned all of them as finished: nothing of them is read or handled any more. Both may be async
    and must be idempotent. ``url``, ``token`` and ``auth`` as for `StreamApp`; ``max_workers=16``,
    ``drain_timeout=30.0`` and ``member_id=None`` as for a listener. Raises `ConfigurationError`.
    """

    def __init__(
        self,
        prefix: str,
        group: str,
        url: Where = None,
        *,
        on_assigned: OnAssigned,
        on_revoked: OnRevoked,
        **options: Unpack[MembershipOptions],
    ) -> None:
        workers, self._drain_timeout = options.get("max_workers", 16), options.get("drain_timeout", 30.0)
        check_limits(drain_timeout=self._drain_timeout, max_workers=workers)
        self._key, member_id = group_key(prefix, group), options.get("member_id")
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._closing = contextlib.AsyncExitStack()
        self._connect, self._api = coordinator_at(url, options.get("token"), options.get("auth"), self._closing)
        (name,) = member_ids(member_id, 1)
        identity, clock = Identity(name, name, member_id is None, workers), SystemClock()
        self._grumble = Grumble(_LOG, clock)
        self._member = Member(self._key, identity, clock, SystemEntropy(), self)
        self._held: dict[ShardIndex, _Held] = {}
        self._progress: dict[ShardIndex, ShardProgress] = {}
        self._news, self._over, self._quiet = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._quiet.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._joined: Future[None] | None = None
        self._telling: asyncio.Task[None] | None = None

    @property
    def assignment(self) -> Assignment:
        """What is ours at this moment."""
        return Assignment(self._key, self._member, self._held)

    async def __aenter__(self) -> "Membership":
        """Check that the group exists, and join; raises `StreamNotFound`, `GroupNotFound`, `CoordinatorUnreachable`."""
        home = self._loop = asyncio.get_running_loop()
        try:
            await self._api.routing(self._key)
            thread = client.Membership(lambda: self._connect(home))
            thread.start()
            self._closing.push_async_callback(asyncio.to_thread, thread.close)
            self._joined = thread.add(self._member)
        except BaseException:
            await self._closing.aclose()
            raise
        self._telling = home.create_task(self._tell_all(), name=f"assignments of {self._key}")
        return self

    async def __aexit__(self, *error: object) -> None:
        """End with every shard, within ``drain_timeout``, leave and close."""
        self._member.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drain_timeout + LEAVE_GRACE_S):
                await self._over.wait()
                await self._quiet.wait()
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        await self._closing.aclose()

    async def wait(self) -> None:
        """Return when the member has left; raises `ListenerRejected` if the coordinator refuses this client."""
        await self._over.wait()
        if self._member.rejection is not None:
            raise ListenerRejected(f"{self._key}: {self._member.rejection}")

    def note(self, progress: ShardProgress) -> None:
        """Say how far a shard has got, for monitoring."""
        self._progress = {**self._progress, progress.shard: progress}

    def order(self, order: Order) -> None:
        """From the membership's thread."""
        self._hop(lambda: self._obey(order))

    def report(self) -> Report:
        """From the membership's thread."""
        progress = self._progress
        return Report(tuple(progress[shard] for shard in sorted(progress)), self._member.identity.max_concurrency)

    def ended(self, member: Member) -> None:
        """From the membership's thread."""
        self._hop(self._over.set)

    def _hop(self, step: Callable[[], object]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(step)
        except RuntimeError:
            _LOG.debug("the application's loop is closed: nobody is told any more")

    def _obey(self, order: Order) -> None:
        held = self._held.get(order.shard)
        match order:
            case Start():
                self._held[order.shard] = _Held(order)
                self._quiet.clear()
            case Drain() | Drop() if held is not None and held.start.token == order.token:
                held.ending, held.lost = True, held.lost or isinstance(order, Drop)
        self._news.set()

    async def _tell_all(self) -> None:
        while True:
            self._forget_untold()
            beginning = self._those(lambda held: not held.told and not held.ending)
            if beginning:
                await self._begin(beginning)
            ending = self._those(lambda held: held.ending)
            if ending:
                self._finish(ending, await self._call(self._on_revoked, ending))
            await self._rest()

    async def _rest(self) -> None:
        busy = self._those(lambda held: held.ending or not held.told)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ASK_AGAIN_S if busy else None):
                await self._news.wait()
        self._news.clear()

    def _those(self, wanted: Callable[[_Held], bool]) -> Shards:
        return tuple(shard for shard, held in sorted(self._held.items()) if wanted(held))

    async def _begin(self, shards: Shards) -> None:
        for shard in shards:
            self._held[shard].called = True
        done = await self._call(self._on_assigned, shards) is not _FAILED
        for shard in shards:
            self._held[shard].told = done

    def _forget_untold(self) -> None:
        """What was revoked before anybody was called about it is finished."""
        self._finish_all(self._those(lambda held: held.ending and not held.called))

    def _finish(self, asked: Shards, answer: Any) -> None:
        if isinstance(answer, Iterable):
            finished = list(answer)
            self._finish_all([shard for shard in asked if shard in finished])

    def _finish_all(self, shards: Iterable[ShardIndex]) -> None:
        for shard in shards:
            held = self._held.pop(shard)
            self._progress = {index: row for index, row in self._progress.items() if index != shard}
            self._member.finished(shard, held.start.token)
        if not self._held:
            self._quiet.set()

    async def _call(self, told: Callable[[Shards, Assignment], Any], shards: Shards) -> Any:
        try:
            answer = told(shards, self.assignment)
            return await answer if inspect.isawaitable(answer) else answer
        except (Exception, asyncio.CancelledError) as error:  # the outermost frame around the application's callback
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise  # nobody cancelled what the callback waited for: it is the end
            name = getattr(told, "__name__", "a callback")
            failed = f"{self._key}: {name} failed for shards {list(shards)}, and is called again: {error!r}"
            self._grumble.say(name, failed, logging.ERROR)
            return _FAILED


_FAILED = object()
