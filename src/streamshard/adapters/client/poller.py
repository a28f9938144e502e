"""The reading side of one member: a run per shard, workers shared fairly among them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs

from streamshard.adapters.client.batching import GroupedReads
from streamshard.adapters.client.member import Member, Order, Report
from streamshard.adapters.client.message import Batch, Message
from streamshard.adapters.client.noise import Grumble
from streamshard.adapters.client.pulse import Pulse
from streamshard.adapters.client.reports import told
from streamshard.adapters.client.run import Pace, ShardRun, Tools
from streamshard.adapters.client.settling import Grip
from streamshard.adapters.client.status import MemberStatus
from streamshard.adapters.client.waiter import Waiter
from streamshard.adapters.lives import inhabit
from streamshard.core.actions import Drain, Drop, Start
from streamshard.core.ids import GroupKey, Instant, MemberId, Millis, ShardIndex, Token
from streamshard.core.ports import Clock, Entropy, ShardLog
from streamshard.core.records import Access, ShardAccess
from streamshard.core.session import usable_until

_LOG = logging.getLogger(__name__)

Handle = Callable[[Message | Batch], Awaitable[bool]]
"""Whether what was handed over is to be acknowledged, where the run does that."""


class Hooks(Protocol):
    """What an application may want to know; called on its own event loop, and must not raise."""

    def on_assigned(self, member: MemberId, shard: ShardIndex, token: Token) -> None:
        """The member begins to read the shard."""
        ...

    def on_revoked(self, member: MemberId, shard: ShardIndex, token: Token) -> None:
        """The member has finished with the shard: no handler of it runs."""
        ...

    def on_lost(self, member: MemberId, shard: ShardIndex, token: Token) -> None:
        """The right to the shard is gone at once; handlers may still run, but can't acknowledge."""
        ...

    def on_fenced(self, member: MemberId, shard: ShardIndex, token: Token) -> None:
        """Just before `on_lost`: it is gone because the coordinator or the shard's fence said so."""
        ...


@attrs.frozen
class Reading:
    """What a listener reads, and how."""

    key: GroupKey
    handle: Handle
    hooks: Hooks
    pace: Pace = attrs.field(factory=Pace)
    max_workers: int = 16
    grumble: Grumble | None = None
    """Shared with whoever suffers from the same troubles."""
    given_up: Callable[[], None] | None = None
    """Told of each record that is kept in the dead-letter stream."""


class Poller:
    """`ReadingSide` on the application's loop; make it there."""

    def __init__(self, reading: Reading, log: ShardLog, waiter: Waiter, clock: Clock, entropy: Entropy) -> None:
        self._reading = reading
        self._loop = asyncio.get_running_loop()
        inhabit(self._loop)
        self._workers = asyncio.Semaphore(reading.max_workers)
        shared = (log, GroupedReads(log), waiter, self._workers, clock, entropy)
        self._tools = Tools(*shared, reading.handle, reading.grumble, reading.given_up)
        self._pulse = Pulse(self._loop, clock, reading.grumble or Grumble(_LOG, clock))
        self._runs: dict[ShardIndex, ShardRun] = {}
        self._tasks: dict[asyncio.Task[None], tuple[ShardIndex, Token]] = {}
        self._member: Member | None = None
        self._halted = False
        self._abandoned = False
        self.over = asyncio.Event()
        """The member has left, or was rejected."""
        self.failure: asyncio.Future[None] = self._loop.create_future()
        """Fails if a run ends by a fault of the program."""

    def serve(self, member: Member) -> None:
        """Read for ``member``, whose orders come to this poller."""
        self._member = member

    @property
    def member(self) -> Member:
        """Whom it reads for."""
        assert self._member is not None
        return self._member

    def order(self, order: Order) -> None:
        """Start, drain or drop a shard; from the membership's thread."""
        self._hop(lambda: self._obey(order))

    def report(self) -> Report:
        """How far the shards have got; from the membership's thread."""
        runs = sorted(self._runs.copy().items())
        lease = self.member.session.lease_ms
        self._pulse.feel(Millis(lease // 3))
        progress = tuple(told(run.status(lease)) for _, run in runs)
        busy = sum(1 for row in progress if row.in_flight)
        return Report(progress, max(0, self._reading.max_workers - busy), tells_reads=True)

    def status(self) -> MemberStatus:
        """How the member and its shards are at this moment; on the event loop."""
        member = self.member
        shards = tuple(run.status(member.session.lease_ms) for _, run in sorted(self._runs.items()))
        return MemberStatus(self._reading.key, member.session.member, member.heartbeat_late, shards)

    def ended(self, member: Member) -> None:
        """The member is no more; from the membership's thread."""
        self._hop(self.over.set)

    def halt(self) -> None:
        """Stop reading every shard now, and begin none any more."""
        self._halted = True
        for run in self._runs.values():
            run.stop()

    def cancel(self) -> None:
        """Break off every handler that still runs."""
        for task in self._tasks:
            task.cancel()

    def abandon(self) -> None:
        """The same for handlers that go on all the same; their shards are not reported as finished."""
        self._abandoned = True
        self.cancel()

    async def quiet(self) -> None:
        """Return when no run is left."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def _hop(self, step: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(step)
        except RuntimeError:
            _LOG.debug("the application's loop is closed: nothing reads any more")

    def _obey(self, order: Order) -> None:
        name = self.member.session.member
        match order:
            case Start() if self._halted:
                self.member.finished(order.shard, order.token)
            case Start():
                self._begin(order)
                self._reading.hooks.on_assigned(name, order.shard, order.token)
            case Drain():
                self._halt(order.shard, order.token)
            case Drop():
                if self._halt(order.shard, order.token):
                    self._lose(name, order)

    def _lose(self, name: MemberId, drop: Drop) -> None:
        if drop.fenced:
            self._reading.hooks.on_fenced(name, drop.shard, drop.token)
        self._reading.hooks.on_lost(name, drop.shard, drop.token)

    def _begin(self, start: Start) -> None:
        member, shard, token = self.member, start.shard, start.token
        key = self._reading.key
        access = ShardAccess(key.prefix, shard, key.group, member.session.member, start.generation, token)

        def refused(access: Access) -> None:
            member.refused(shard, token, access)

        def until() -> Instant:
            return usable_until(member.session, shard, token)

        run = ShardRun(access, self._reading.pace, self._tools, Grip(self._tools.clock, until, refused))
        self._runs[shard] = run
        task = self._loop.create_task(run.run(), name=f"{key} {shard}")
        self._tasks[task] = (shard, token)
        task.add_done_callback(self._finish)

    def _halt(self, shard: ShardIndex, token: Token) -> bool:
        run = self._runs.get(shard)
        if run is None or run.access.token != token:
            return False
        run.stop()
        return True

    def _finish(self, task: "asyncio.Task[None]") -> None:
        shard, token = self._tasks.pop(task)
        run = self._runs.pop(shard)
        self._reading.hooks.on_revoked(MemberId(run.access.consumer), shard, token)
        if not (self._abandoned and task.cancelled()):
            self.member.finished(shard, token)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failure.done():
            _LOG.error("%s: reading shard %d ended by a fault", self._reading.key, shard, exc_info=error)
            self.failure.set_exception(error)
            self.failure.exception()  # seen: it is logged, whether somebody waits for it or not
