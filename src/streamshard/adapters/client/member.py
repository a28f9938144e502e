"""One logical member: drives its session, sends its heartbeats, tells the reading side what to do."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, TypeAlias

import attrs

from streamshard.adapters.client.noise import Grumble
from streamshard.adapters.client.reports import Unbegun, rounded_lateness
from streamshard.core.actions import Action, BeatAfter, BeatNow, Drain, Drop, NameHeld, Reject, Rejoin, Start
from streamshard.core.commands import Heartbeat
from streamshard.core.group import ShardProgress
from streamshard.core.ids import GroupKey, InstanceId, Instant, MemberId, Millis, ShardIndex, Token
from streamshard.core.ports import Clock, Entropy
from streamshard.core.records import Access
from streamshard.core.replies import HeartbeatReply, RetryReason, Status
from streamshard.core.session import (
    Phase,
    Session,
    Step,
    beat,
    expire,
    finished,
    hear,
    may_use,
    refused,
    rejoin,
    stop,
    unanswered,
)
from streamshard.core.timing import client_lease_ms
from streamshard.errors import InvalidRequest, ListenerRejected, StreamshardError

_LOG = logging.getLogger(__name__)

NEVER = Instant(2**62)
SHORTEST_PAUSE_MS = 10
LEAST_BUDGET_MS = 100
SUFFIX_LENGTH = 6
NEWS_PAUSE_MS = 50
"""Between a heartbeat and the next one that only a hint is the reason for."""

NEWS_JITTER_MS = 10

Order: TypeAlias = Start | Drain | Drop


class Answering(Protocol):
    """Where heartbeats go."""

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        """Answer one attempt; raises `CoordinatorUnreachable` if no answer came in time."""
        ...


@attrs.frozen
class Report:
    """What the reading side says of itself in each heartbeat."""

    progress: tuple[ShardProgress, ...] = ()
    available: int = 0
    tells_reads: bool = False
    """It is told there when each shard was last read; a framework of the application's own may not know."""


class ReadingSide(Protocol):
    """What a member commands; every method is called on the membership's thread and must not block."""

    def order(self, order: Order) -> None:
        """Start, drain or drop a shard."""
        ...

    def report(self) -> Report:
        """Say how far the shards have got."""
        ...

    def ended(self, member: "Member") -> None:
        """The member has left, or was rejected."""
        ...


@attrs.frozen
class Identity:
    """The name a member asks for. A derived one gives way to another live instance, an explicit one waits."""

    member: MemberId
    name: str
    derived: bool = True
    max_concurrency: int = 1
    advertised_url: str | None = None
    client_version: str | None = None


class Member:
    """Runs on the membership's loop; `session` may be read, and `finished`, `refused`, `stop` called, anywhere."""

    def __init__(self, key: GroupKey, identity: Identity, clock: Clock, entropy: Entropy, side: ReadingSide) -> None:
        self.key = key
        self.identity = identity
        self.session = Session(identity.member, InstanceId(entropy.nonce()))
        self.rejection: str | None = None
        self.heartbeat_late = Millis(0)
        """By how much the last heartbeat left after its time."""
        self.clock = clock
        self.entropy = entropy
        self._side = side
        self.grumble = Grumble(_LOG, clock)
        """May be replaced by one that is shared, before the member runs."""
        self._unbegun = Unbegun()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._attempt: asyncio.Task[None] | None = None
        self._beat_at = Instant(0)
        self._sent_at = Instant(-NEWS_PAUSE_MS)
        self._news = 0

    @property
    def ended(self) -> bool:
        """Has left or was rejected: nothing will be read any more."""
        return self.session.phase in (Phase.LEFT, Phase.REJECTED)

    def may_use(self, shard: ShardIndex, token: Token) -> bool:
        """Whether the lease of ``shard`` lasts at this moment; from any thread."""
        return may_use(self.session, shard, token, self.clock.boot())

    def finished(self, shard: ShardIndex, token: Token) -> None:
        """The run has ended; from any thread."""
        self._post(lambda: finished(self.session, shard, token, self.clock.boot()))

    def refused(self, shard: ShardIndex, token: Token, access: Access) -> None:
        """The shard's fence refused an order; from any thread."""
        self._post(lambda: refused(self.session, shard, token, access))

    def stop(self) -> None:
        """Leave for good once what is read has drained; from any thread."""
        self._post(lambda: stop(self.session))

    def forget(self) -> None:
        """Own nothing any more, without a word: for the child of a fork."""
        self.session = attrs.evolve(self.session, phase=Phase.REJECTED, held={}, running={}, outstanding=None)

    def hint(self, version: int) -> None:
        """The group is at this metadata version: beat soon, unless an answer has said so by then. On the loop."""
        self._news = max(self._news, version)
        self._wake.set()

    def come_along(self) -> None:
        """Beat now if that is due soon anyway: another heartbeat of this process is about to leave. On the loop."""
        session, ahead = self.session, self._beat_at - self.clock.boot()
        calm = session.phase is Phase.MEMBER and self._attempt is None and not session.misses
        if calm and ahead < session.heartbeat_ms // 4:
            self._beat_by(self.clock.boot())
            self._wake.set()

    async def run(self, api: Answering) -> None:
        """Beat until the member has left or was rejected."""
        self._loop = asyncio.get_running_loop()
        self._introduce()
        try:
            while not self.ended:
                now = self.clock.boot()
                self._pause_expired(now)
                if self._attempt is not None and self._attempt.done():
                    self._attempt.result()
                    self._attempt = None
                self._heed(now)
                if self._attempt is None and self.session.beats and now >= self._beat_at:
                    self._attempt = self._loop.create_task(self._beat(api, now))
                await self._rest()
        finally:
            if self._attempt is not None:
                self._attempt.cancel()
            self._side.ended(self)

    def _introduce(self) -> None:
        _LOG.info("member %s of %s, instance %s", self.session.member, self.key, self.session.instance)

    def _pause_expired(self, now: Instant) -> None:
        step = expire(self.session, now)
        if step[1]:
            paused = f"the lease ran out, {len(step[1])} shards of {self.key} pause"
            self.grumble.say("lease", f"{self.session.member}: {paused}")
            self._take(step)

    async def _rest(self) -> None:
        beat_at = NEVER if self._attempt is not None or not self.session.beats else self._beat_at
        until = min(beat_at, self.session.next_deadline or NEVER)
        try:
            async with asyncio.timeout(None if until == NEVER else max(0, until - self.clock.boot()) / 1000):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    def _heed(self, now: Instant) -> None:
        """A hint is good for one heartbeat, and never makes them frequent."""
        if self._attempt is not None or self.session.phase is not Phase.MEMBER:
            return
        if self._news > self.session.metadata_version:
            pause = NEWS_PAUSE_MS + int(NEWS_JITTER_MS * self.entropy.fraction())
            self._beat_by(Instant(max(now, self._sent_at + pause)))
        self._news = 0

    async def _beat(self, api: Answering, now: Instant) -> None:
        self._note_lateness(now)
        self.session, attempt = beat(self.session, now)
        self._sent_at, self._beat_at = now, NEVER
        try:
            async with asyncio.timeout(self._budget_ms() / 1000):
                reply = await api.heartbeat(self.key, self._dress(attempt))
        except (InvalidRequest, ListenerRejected) as error:
            self.session = attrs.evolve(self.session, outstanding=None)
            self._reject(error.message)
        except (StreamshardError, TimeoutError) as error:
            self._unanswered(error)
        else:
            self._note_answer(reply)
            self._take(hear(self.session, reply, self.clock.boot()))
        finally:
            self._wake.set()

    def _budget_ms(self) -> int:
        return max(LEAST_BUDGET_MS, client_lease_ms(self.session.lease_ms) // 3)

    def _dress(self, attempt: Heartbeat) -> Heartbeat:
        report = self._side.report()
        progress = report.progress
        if report.tells_reads:
            progress = self._unbegun.beside(progress, self.session.held, self.clock.boot())
        return attrs.evolve(
            attempt,
            member_name=self.identity.name,
            request_id=f"{attempt.instance}-{attempt.seq}",
            max_concurrency=self.identity.max_concurrency,
            available=report.available,
            progress=progress,
            advertised_url=self.identity.advertised_url,
            client_version=self.identity.client_version,
            late=rounded_lateness(self.heartbeat_late),
        )

    def _post(self, transition: Callable[[], Step]) -> None:
        if self._loop is None:
            self._take(transition())
            return
        try:
            self._loop.call_soon_threadsafe(lambda: self._take(transition()))
        except RuntimeError:
            _LOG.debug("%s: the membership has ended", self.session.member)

    def _take(self, step: Step) -> None:
        self.session, actions = step
        for action in actions:
            self._perform(action)
        self._wake.set()

    def _perform(self, action: Action) -> None:
        match action:
            case Start() | Drain() | Drop():
                self._side.order(action)
            case BeatNow():
                self._beat_by(Instant(max(self.clock.boot(), self._sent_at + SHORTEST_PAUSE_MS)))
            case BeatAfter():
                jittered = int(action.ms * (0.8 + 0.4 * self.entropy.fraction()))
                self._beat_by(Instant(self.clock.boot() + max(jittered, SHORTEST_PAUSE_MS)))
            case NameHeld():
                self._make_way(action)
            case Rejoin():
                self.grumble.say("rejoin", f"{self.session.member}: joining {self.key} as a new instance")
                self._take(rejoin(self.session, InstanceId(self.entropy.nonce())))
                self._introduce()
            case Reject():
                self._reject(action.message)

    def _beat_by(self, at: Instant) -> None:
        self._beat_at = min(self._beat_at, at)

    def _reject(self, message: str) -> None:
        for shard, token in self.session.running.items():
            self._side.order(Drop(shard, token))
        self.session = attrs.evolve(self.session, phase=Phase.REJECTED, held={})
        self.rejection = message
        _LOG.error("%s: the coordinator refuses this client for good: %s", self.session.member, message)
        self._wake.set()

    def _make_way(self, held: NameHeld) -> None:
        member = self.session.member
        if not (held.proven and self.identity.derived):
            self.grumble.say("name", f"{member} waits to join {self.key}: {held.message}", logging.ERROR)
            return
        suffixed = MemberId(f"{self.identity.member}-{self.entropy.nonce()[:SUFFIX_LENGTH]}")
        _LOG.warning("%s: another instance lives under this name, going on as %s", member, suffixed)
        self.session = Session(suffixed, InstanceId(self.entropy.nonce()))
        self._introduce()

    def _unanswered(self, error: Exception) -> None:
        self._take(unanswered(self.session))
        why = str(error) or "no answer in time"
        self.grumble.say("coordinator", f"{self.session.member}: no heartbeat of {self.key} was answered: {why}")

    def _note_answer(self, reply: HeartbeatReply) -> None:
        member, key = self.session.member, self.key
        if reply.status is not Status.RETRY:
            self.grumble.over("coordinator", f"{member}: heartbeats of {key} are answered again")
        elif reply.retry_reason is RetryReason.UNAVAILABLE:
            self.grumble.say("coordinator", f"{member}: a heartbeat of {key} could not be taken: {reply.message}")

    def _note_lateness(self, now: Instant) -> None:
        late = self.heartbeat_late = Millis(now - self._beat_at) if self._beat_at > 0 else Millis(0)
        if late > self.session.heartbeat_ms:
            self.grumble.say("late", f"{self.session.member}: a heartbeat went out {late} ms late")
