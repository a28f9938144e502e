"""A consumer's and a producer's process as the library runs them, one step at a time and without I/O of its own.

The decisions are all the shipped ones: `core.session`, `core.lease`, `core.consumer`. What is in here stands
for the threads around them, which a test may stop between any two of their steps.
"""

from collections import deque

import attrs

from streamshard.core import lease, session
from streamshard.core.actions import Action, BeatAfter, BeatNow, Drain, Drop, Rejoin, Start
from streamshard.core.commands import Heartbeat
from streamshard.core.consumer import FIRST, Ledger, just_above
from streamshard.core.group import ShardProgress
from streamshard.core.ids import (
    GroupKey,
    InstanceId,
    Instant,
    MemberId,
    Millis,
    RecordId,
    ShardIndex,
    Token,
    stream_key,
)
from streamshard.core.ports import Entropy, ShardLog
from streamshard.core.records import Access, AckMode, AckReply, ClaimReply, ReadReply, Record, ShardAccess
from streamshard.core.replies import HeartbeatReply, Routing
from streamshard.core.routing import key_bytes, route
from streamshard.core.session import Phase, Session, Step
from streamshard.core.timing import client_lease_ms
from streamshard.errors import RoutingExpired
from streamshard.testing.clock import ManualClock
from streamshard.testing.stepping import at_once

NEVER = Instant(2**62)
PAGE = 2
REDELIVER_MS = 2_000
SWEEP_MS = 3_000
SHORTEST_PAUSE_MS = 10
LEAST_BUDGET_MS = 100


@attrs.define(eq=False)
class Command:
    """An order to Redis that has passed the check of the lease and has not been carried out yet."""

    run: "Run"
    verb: str
    record: RecordId = FIRST

    def carry_out(self, log: ShardLog) -> ReadReply | ClaimReply | AckReply:
        """Let Redis have it."""
        access = self.run.access
        if self.verb == "claim":
            return at_once(log.claim(access, self.record, PAGE))
        if self.verb == "read":
            return at_once(log.read([(access, PAGE)]))[0]
        return at_once(log.acknowledge(access, [self.record], AckMode.ACK))


@attrs.define(eq=False)
class Run:
    """The reading of one shard under one grant."""

    access: ShardAccess
    ledger: Ledger = attrs.field(factory=Ledger)
    hand: deque[Record] = attrs.field(factory=deque)
    handling: Record | None = None
    cursor: RecordId | None = FIRST
    swept_at: Instant = Instant(0)
    position: RecordId | None = None
    command: Command | None = None
    stopping: bool = False
    missing: bool = False
    handed: list[Record] = attrs.field(factory=list)
    """The record that a handler took in the last step."""
    group_life: int = 0
    """How often the group had been destroyed when what is in hand was taken."""
    polled_at: Instant | None = None
    """When Redis last let an order of it through."""

    @property
    def key(self) -> str:
        """The shard's key."""
        return stream_key(self.access.prefix, self.access.shard)

    @property
    def quiet(self) -> bool:
        """No order is outstanding and no handler runs."""
        return self.command is None and self.handling is None

    def progress(self) -> ShardProgress:
        """What a heartbeat says of it."""
        state = "MISSING" if self.missing else "READING"
        floor = self.ledger.floor(self.position, self.hand[0].id if self.hand else None)
        return ShardProgress(self.access.shard, self.position, ack_floor=floor, read_state=state)


class Consumer:
    """One member's process."""

    def __init__(self, name: MemberId, key: GroupKey, clock: ManualClock, entropy: Entropy) -> None:
        self.name = name
        self.key = key
        self.clock = clock
        self.session = Session(name, InstanceId(entropy.nonce()))
        self.runs: dict[ShardIndex, Run] = {}
        self.beat_at = Instant(0)
        self.sent_at = Instant(-SHORTEST_PAUSE_MS)
        self.asleep = False
        """The process is stopped: its clock goes on, it does nothing."""
        self.killed = False
        self.stuck = False
        """Its handlers don't return."""
        self.fails_next = 0
        """So many handlers will return without having acknowledged."""
        self._entropy = entropy

    @property
    def ended(self) -> bool:
        """It is no more, or will never read again."""
        return self.killed or self.session.phase in (Phase.LEFT, Phase.REJECTED)

    @property
    def awake(self) -> bool:
        """It does something."""
        return not (self.asleep or self.ended)

    def may_use(self, shard: ShardIndex) -> Token | None:
        """The token under which it passes its own check of the lease now, whatever it does with it."""
        hold = self.session.held.get(shard)
        if self.ended or hold is None:
            return None
        return hold.token if session.may_use(self.session, shard, hold.token, self.clock.boot()) else None

    def beat(self) -> Heartbeat | None:
        """The next attempt if one is due, after giving up the last one if its time is over."""
        now = self.clock.boot()
        self._take(session.expire(self.session, now))
        outstanding = self.session.outstanding
        if outstanding is not None and now - outstanding.sent_at >= self._budget_ms():
            self._take(session.unanswered(self.session))
        if self.session.outstanding is not None or not self.session.beats or now < self.beat_at:
            return None
        return self.beat_now()

    def beat_now(self) -> Heartbeat:
        """An attempt, due or not; it takes the place of the outstanding one."""
        now = self.clock.boot()
        self.session, attempt = session.beat(self.session, now)
        self.sent_at, self.beat_at = now, NEVER
        progress = tuple(run.progress() for _, run in sorted(self.runs.items()))
        return attrs.evolve(attempt, member_name=self.name, progress=progress)

    def hear(self, reply: HeartbeatReply) -> None:
        """An answer arrives, whichever attempt it is to."""
        self._take(session.hear(self.session, reply, self.clock.boot()))

    def unanswered(self) -> None:
        """The connection broke."""
        if self.session.outstanding is not None:
            self._take(session.unanswered(self.session))

    def stop(self) -> None:
        """Leave for good."""
        self._take(session.stop(self.session))

    def think(self, run: Run) -> bool:
        """One step of a run's own thread, up to the next order to Redis; False if there was nothing to do."""
        if run.command is not None:
            return False
        if run.handling is not None:
            return not self.stuck and self._end_handler(run)
        if run.stopping:
            self._finish(run)
            return False
        if self.may_use(run.access.shard) != run.access.token:
            self._begin_again(run)
            return False
        if run.hand:
            self._handle(run)
            return True
        self._plan(run)
        return True

    def _end_handler(self, run: Run) -> bool:
        record = run.handling
        assert record is not None, "a handler runs"
        run.handling = None
        run.ledger.end([record.id], Instant(self.clock.boot() + REDELIVER_MS))
        if self.fails_next:
            self.fails_next -= 1
        elif self.may_use(run.access.shard) == run.access.token:
            run.command = Command(run, "acknowledge", record.id)
        return True

    def _handle(self, run: Run) -> None:
        run.handling = run.hand.popleft()
        run.ledger.begin(run.handling)
        run.handed = [run.handling]

    def _plan(self, run: Run) -> None:
        now = self.clock.boot()
        if run.cursor is None:
            run.cursor = run.ledger.due(now)
        if run.cursor is None and now - run.swept_at >= SWEEP_MS:
            run.cursor, run.swept_at = FIRST, now
        run.command = Command(run, "claim", run.cursor) if run.cursor is not None else Command(run, "read")

    def heard(self, command: Command, reply: ReadReply | ClaimReply | AckReply) -> None:
        """Redis has answered an order of one of its runs."""
        run, now = command.run, self.clock.boot()
        run.command = None
        run.missing = reply.access is Access.MISSING
        if reply.access is not Access.OK:
            self._take(session.refused(self.session, run.access.shard, run.access.token, reply.access))
            return
        run.polled_at = now
        if isinstance(reply, AckReply):
            run.ledger.settle([command.record])
            return
        records = reply.records
        if isinstance(reply, ClaimReply):
            run.ledger.missed(reply.records, command.record, reply.cursor)
            run.cursor, records = reply.cursor, run.ledger.fresh(records, now)
        run.position = reply.last_delivered
        if not run.stopping:
            run.hand.extend(records)
        elif records:
            run.ledger.lose_sight(records[0].id)

    def unreachable(self, command: Command) -> None:
        """Redis did not answer: records may have been delivered, so begin again with what is pending."""
        command.run.command = None
        self._begin_again(command.run)

    def _begin_again(self, run: Run) -> None:
        beyond = FIRST if run.position is None else just_above(run.position)
        run.ledger.lose_sight(run.hand[0].id if run.hand else beyond)
        run.hand.clear()
        run.cursor = FIRST

    def _finish(self, run: Run) -> None:
        run.hand.clear()
        del self.runs[run.access.shard]
        self._take(session.finished(self.session, run.access.shard, run.access.token, self.clock.boot()))

    def _budget_ms(self) -> int:
        return max(LEAST_BUDGET_MS, client_lease_ms(self.session.lease_ms) // 3)

    def _take(self, step: Step) -> None:
        self.session, actions = step
        for action in actions:
            self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case Start():
                key = self.key
                access = ShardAccess(key.prefix, action.shard, key.group, self.name, action.generation, action.token)
                assert action.shard not in self.runs, "one run of a shard at a time"
                self.runs[action.shard] = Run(access, swept_at=self.clock.boot())
            case Drain() | Drop():
                run = self.runs.get(action.shard)
                if run is not None and run.access.token == action.token:
                    run.stopping = True
                    if run.hand:
                        run.ledger.lose_sight(run.hand[0].id)
                    run.hand.clear()
            case BeatNow():
                self._beat_by(max(self.clock.boot(), self.sent_at + SHORTEST_PAUSE_MS))
            case BeatAfter():
                self._beat_by(self.clock.boot() + action.ms)
            case Rejoin():
                self._take(session.rejoin(self.session, InstanceId(self._entropy.nonce())))

    def _beat_by(self, at: int) -> None:
        self.beat_at = Instant(min(self.beat_at, at))


class ProducerProcess:
    """A producer that may be stopped between looking a shard up and writing to it."""

    def __init__(self, key: GroupKey, clock: ManualClock, refresh_ms: Millis) -> None:
        self.clock = clock
        self.lease = lease.RoutingLease(key, refresh_ms)
        self.routed: list[str] = []
        """Keys that it is about to append a record to."""

    @property
    def refresh_due(self) -> bool:
        """The coordinator should be asked again."""
        return lease.refresh_due(self.lease, self.clock.boot())

    def adopt(self, routing: Routing, sent_at: Instant) -> None:
        """The coordinator's answer to a question of that time."""
        self.lease, _ = lease.adopt(self.lease, routing, sent_at, self.clock.boot(), 0.5)

    def route(self, name: str) -> None:
        """Look the shard of ``name`` up, to write to it sooner or later."""
        try:
            routing = lease.usable(self.lease, self.clock.boot())
        except RoutingExpired:
            return
        if routing.shard_count:
            shard = route(routing.protocol, key_bytes(name), routing.shard_count)
            self.routed.append(stream_key(routing.key.prefix, shard))

    def append(self, log: ShardLog) -> tuple[str, RecordId] | None:
        """Write the record that has waited longest; None if there was none or its shard is retired."""
        if not self.routed:
            return None
        key = self.routed.pop(0)
        record = at_once(log.append(key, {"from": "producer"}, None))
        if record is None:
            self.lease = lease.invalidate(self.lease)
            return None
        return key, record
