"""Reading one shard under one grant: what is pending first, then new records, in id order."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import attrs

from streamshard.adapters.client.batching import GroupedReads
from streamshard.adapters.client.late_acks import LateAcks
from streamshard.adapters.client.message import Batch, Message
from streamshard.adapters.client.noise import Grumble
from streamshard.adapters.client.settling import Grip, Settlement
from streamshard.adapters.client.status import UNREAD_LEASES, ShardStatus
from streamshard.adapters.client.waiter import Waiter
from streamshard.core.consumer import FIRST, just_above, just_below
from streamshard.core.group import ShardProgress
from streamshard.core.ids import Instant, Millis, RecordId, stream_key
from streamshard.core.ports import Clock, Entropy, ShardLog
from streamshard.core.records import Access, AckMode, ReadReply, Record, ShardAccess
from streamshard.errors import LeaseLost, StreamUnavailable

_LOG = logging.getLogger(__name__)

TURN_MS = 100
BREATH_MS = 5
"""How long handlers that never wait may keep the loop to themselves."""

NOTE_MS = 100
MISSING_PAUSE_MS = 1_000
FIRST_BACKOFF_MS = 100
LONGEST_BACKOFF_MS = 2_000
LEASE_PAUSE_S = 0.02
GIVEN_BACK_MS = 100
"""Until a record that was given back comes again; at once, a handler that always fails would spin."""

TIDY_S = 0.5


@attrs.frozen
class Pace:
    """How a shard is read. ``batch`` None: one record per handler call."""

    page: int = 64
    batch: int | None = None
    redeliver_after: Millis = Millis(30_000)
    sweep_every: Millis = Millis(15_000)
    max_deliveries: int | None = None
    """A record delivered so often without an acknowledgement is given up; None: never."""
    ack_del: AckMode = AckMode.ACK_DEL
    """What `Message.ack_del` comes to."""
    acks: bool = False
    """Acknowledge what a handler has succeeded with."""


@attrs.frozen
class Tools:
    """What all runs of a member share."""

    log: ShardLog
    reads: GroupedReads
    waiter: Waiter
    workers: asyncio.Semaphore
    clock: Clock
    entropy: Entropy
    handle: Callable[[Message | Batch], Awaitable[bool]]
    """Hands over to the application, and tells whether it succeeded; its failures don't come back."""
    grumble: Grumble | None = None
    """Shared with others, so that one trouble of many shards is said once."""
    given_up: Callable[[], None] | None = None
    """Told of each record that is kept in the dead-letter stream."""


class ShardRun:
    """One run; ends when it was told to stop and no read is outstanding and no handler runs."""

    def __init__(self, access: ShardAccess, pace: Pace, tools: Tools, grip: Grip) -> None:
        self.access = access
        self.key = stream_key(access.prefix, access.shard)
        self.discarded = 0
        """Records that were trimmed or deleted while pending: acknowledged, never handed over."""
        self._pace, self._tools, self._grip = pace, tools, grip
        self._grumble = tools.grumble or Grumble(_LOG, tools.clock)
        self._settlement = Settlement(access, tools.log, grip, self._grumble, pace.ack_del)
        self._settlement.given_up = tools.given_up
        self._ledger = self._settlement.ledger
        self._acks = LateAcks(self._settlement, pace.page, self._not_acknowledged)
        self._hand: deque[Record] = deque()
        self._claimed = False  # what is in the hand was delivered before
        self._caught_up = False  # when the hand was filled, nothing was left: whatever comes then ends a wait
        self._cursor: RecordId | None = FIRST
        self._swept_at = self._read_at = self._noted_at = tools.clock.boot()
        self._handling_since: Instant | None = None
        self._position: RecordId | None = None
        self._state = "READING"
        self._busy = 0
        self._troubles = 0
        self._stopping = asyncio.Event()
        self._idle: asyncio.Future[bool] | None = None
        self._alone = False  # no other shard was woken with this one
        self._floor: RecordId | None = None
        self._above_floor: RecordId | None = None  # instead: the floor is just below this one

    @property
    def progress(self) -> ShardProgress:
        """How far it has got; from any thread."""
        above = self._above_floor
        return ShardProgress(
            shard=self.access.shard,
            last_delivered=self._position,
            last_acked=self._ledger.last_acked,
            ack_floor=self._floor if above is None else just_below(above),
            pending=self._ledger.pending + len(self._hand),
            in_flight=self._busy,
            read_state=self._state,
        )

    def stop(self) -> None:
        """Take nothing more; handlers under way finish, what they have not begun stays pending."""
        self._stopping.set()
        self._state = "DRAINING"
        self._drop_hand()
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(False)

    def status(self, lease: Millis) -> ShardStatus:
        """How it is at this moment."""
        now, since = self._tools.clock.boot(), self._handling_since
        read_ago = Millis(now - self._read_at)
        return ShardStatus(
            token=self.access.token,
            progress=self.progress,
            read_ago=read_ago,
            handling_for=None if since is None else Millis(now - since),
            skipped=self.discarded,
            unread=since is None and read_ago > UNREAD_LEASES * lease,
        )

    async def run(self) -> None:
        """Read and hand over until stopped; outlives every trouble of Redis."""
        try:
            while not self._stopping.is_set():
                await self._try_turn()
            await self._acks.settled()
        finally:
            self._acks.cancel()
        await self._tidy_up()

    async def _try_turn(self) -> None:
        try:
            await self._turn()
        except StreamUnavailable as error:
            await self._back_off(error)
        except LeaseLost:
            self._begin_again()
            await self._pause(LEASE_PAUSE_S)

    async def _turn(self) -> None:
        if not self._grip.may_use():
            await self._pause(LEASE_PAUSE_S)
            return
        if not self._hand:
            await self._take()
        if self._hand:
            await self._hand_over()
        if not self._hand and self._cursor is None and self._caught_up:
            await self._fall_idle()
        elif self._tools.clock.boot() - self._noted_at >= NOTE_MS:
            self._note_floor()

    async def _take(self) -> None:
        """Fill the hand: a page of what is pending, while there may be something; else new records."""
        now = self._tools.clock.boot()
        self._plan(now)
        if self._cursor is not None:
            claim = await self._settlement.claim(self._cursor, self._pace.page)
            access, position, cursor = claim.access, claim.last_delivered, claim.cursor
            if access is Access.OK:
                self._ledger.missed(claim.records, self._cursor, cursor)
            records, self._claimed = self._ledger.fresh(claim.records, now), True
            self._caught_up = not records
        else:
            read = await self._read()
            access, position, cursor, records = read.access, read.last_delivered, None, read.records
            self._claimed = False
            self._caught_up = len(records) < self._pace.page
        if access is not Access.OK:
            await self._turned_away(access)
            return
        if self._troubles:
            self._grumble.over("redis", f"{self.key}: Redis answers again")
        self._troubles, self._read_at = 0, self._tools.clock.boot()
        self._position, self._cursor = position, cursor
        self._hand.extend(records)
        if self._stopping.is_set():
            self._drop_hand()

    def _plan(self, now: Instant) -> None:
        if self._cursor is not None:
            return
        if now - self._swept_at >= self._pace.sweep_every:
            self._swept_at, self._cursor = now, FIRST
        else:
            self._cursor = self._ledger.due(now)

    async def _read(self) -> ReadReply:
        alone, self._alone = self._alone or self._troubles > 0, False
        if not alone:
            return await self._tools.reads.read(self.access, self._pace.page)
        # Also a shard in trouble reads alone, so that it does not spoil the reads of the others.
        (reply,) = await self._tools.log.read([(self.access, self._pace.page)])
        return reply

    async def _hand_over(self) -> None:
        self._state = self._state if self._stopping.is_set() else "READING"
        boot = self._tools.clock.boot
        async with self._tools.workers:
            now = breath = boot()
            ends_at = now + TURN_MS
            while self._hand and self._grip.lasts(now):
                await self._next(now)
                now = boot()
                if now >= ends_at:
                    return
                if now - breath >= BREATH_MS:
                    await asyncio.sleep(0)
                    now = breath = boot()
        if self._hand and not self._grip.may_use():
            # Whoever holds the shard next claims what is left.
            self._begin_again()

    async def _next(self, now: Instant) -> None:
        hand = self._hand
        if hand[0].fields is None:
            await self._pass_over(hand.popleft())
            return
        if self._claimed:
            await self._next_claimed()
            return
        if self._pace.batch is None:
            await self._handle([hand.popleft()], now)
        else:
            await self._handle(self._take_batch(), now)

    async def _next_claimed(self) -> None:
        """What was delivered before is counted before it is handed over, or is given up."""
        taken = self._take_batch()
        with self._put_back(taken):
            records = await self._settlement.redeliver(taken, self._pace.max_deliveries)
        now = self._tools.clock.boot()
        if not self._grip.lasts(now):
            self._hand.extendleft(reversed(records))
        elif records:
            await self._handle(records, now)

    @contextmanager
    def _put_back(self, records: list[Record]) -> Iterator[None]:
        """What fails here is still to be done."""
        try:
            yield
        except (StreamUnavailable, LeaseLost):
            self._hand.extendleft(reversed(records))
            raise

    def _take_batch(self) -> list[Record]:
        hand, most = self._hand, self._pace.batch or 1
        records = [hand.popleft()]
        while hand and len(records) < most and hand[0].fields is not None:
            records.append(hand.popleft())
        return records

    async def _pass_over(self, gone: Record) -> None:
        with self._put_back([gone]):
            await self._settlement.acknowledge((gone.id,), AckMode.ACK)
        self.discarded += 1
        self._grumble.say("gone", f"{self.key}: {gone.id} was deleted while it was pending, and is skipped")

    async def _handle(self, records: list[Record], now: Instant) -> None:
        if self._ledger.clear:
            self._above_floor = records[0].id
        messages = [self._message(record) for record in records]
        self._busy, self._handling_since = len(messages), now
        settled = False
        try:
            handed = messages[0] if self._pace.batch is None else Batch(self._settlement, messages)
            settled = await self._tools.handle(handed) and self._pace.acks
        finally:
            self._busy, self._handling_since = 0, None
            if settled:
                self._acks.add(messages)
            elif self._ledger.pending:
                self._end(messages)
            if self._settlement.given_back:
                self._end_given_back()
        if self._acks.full:
            await self._acks.settled()

    def _end(self, messages: list[Message]) -> None:
        due = Instant(self._tools.clock.boot() + self._pace.redeliver_after)
        self._ledger.end([message.id for message in messages], due)

    def _end_given_back(self) -> None:
        self._ledger.end(self._settlement.given_back, Instant(self._tools.clock.boot() + GIVEN_BACK_MS))
        self._settlement.given_back.clear()

    def _not_acknowledged(self, messages: list[Message], error: Exception) -> None:
        self._end(messages)
        more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
        self._grumble.say("unacknowledged", f"{messages[0]!r}{more}: handled, but not acknowledged: {error}")

    def _message(self, record: Record) -> Message:
        deliveries = self._ledger.begin(record)
        if deliveries != record.deliveries:
            record = attrs.evolve(record, deliveries=deliveries)
        return Message(self._settlement, self.key, self.access.shard, self.access.token, record)

    async def _fall_idle(self) -> None:
        self._state = self._state if self._stopping.is_set() else "IDLE"
        self._note_floor()
        if self._position is None or self._stopping.is_set():
            await self._pause(LEASE_PAUSE_S)
            return
        self._idle = self._tools.waiter.idle(self.key, self._position)
        self._alone = await self._idle
        self._idle = None

    async def _turned_away(self, access: Access) -> None:
        self._grip.refused(access)
        if access is not Access.MISSING:
            await self._pause(LEASE_PAUSE_S)
            return
        self._state = "MISSING"
        self._note_floor()
        self._grumble.say("missing", f"{self.key}: the key or the group {self.access.group} is gone; it is reported")
        self._cursor = FIRST
        await self._pause(self._jittered(MISSING_PAUSE_MS))

    def _begin_again(self) -> None:
        if not self._hand:
            self._ledger.lose_sight(FIRST if self._position is None else just_above(self._position))
        self._drop_hand()
        self._cursor = FIRST

    def _drop_hand(self) -> None:
        if self._hand:
            self._ledger.lose_sight(self._hand[0].id)
        self._hand.clear()

    async def _back_off(self, error: StreamUnavailable) -> None:
        """Records may have been delivered in an answer that was lost: begin again with what is pending."""
        self._begin_again()
        self._troubles += 1
        self._grumble.say("redis", f"{self.key}: {error}; trying again")
        await self._pause(self._jittered(min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS << min(self._troubles - 1, 8))))

    async def _tidy_up(self) -> None:
        """Take the consumer's name off the shard if nothing is pending under it; names would pile up."""
        if self._troubles or self._ledger.pending or not self._grip.may_use():
            return
        try:
            async with asyncio.timeout(TIDY_S):
                await self._tools.log.drop_consumer(self.access)
        except (StreamUnavailable, TimeoutError):
            _LOG.debug("%s: the consumer's name %s stays", self.key, self.access.consumer)

    def _jittered(self, ms: int) -> float:
        return ms * (0.5 + self._tools.entropy.fraction()) / 1000

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _note_floor(self) -> None:
        """As one value at a time: the membership's thread reads it at any moment, and it must never be too high."""
        self._noted_at = self._tools.clock.boot()
        self._floor = self._ledger.floor(self._position, self._hand[0].id if self._hand else None)
        self._above_floor = None
