"""Reading one shard under one grant: what is pending first, then new records, in id order."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

import attrs

from streamshard.adapters.client.batching import GroupedReads
from streamshard.adapters.client.message import Batch, Message
from streamshard.adapters.client.noise import Grumble
from streamshard.adapters.client.settling import Grip, Settlement
from streamshard.adapters.client.status import UNREAD_LEASES, ShardStatus
from streamshard.adapters.client.waiter import Waiter
from streamshard.core.consumer import FIRST
from streamshard.core.group import ShardProgress
from streamshard.core.ids import Instant, Millis, RecordId, stream_key
from streamshard.core.ports import Clock, Entropy, ShardLog
from streamshard.core.records import Access, AckMode, ReadReply, Record, ShardAccess
from streamshard.errors import LeaseLost, StreamUnavailable

_LOG = logging.getLogger(__name__)

TURN_MS = 100
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


@attrs.frozen
class Tools:
    """What all runs of a member share."""

    log: ShardLog
    reads: GroupedReads
    waiter: Waiter
    workers: asyncio.Semaphore
    clock: Clock
    entropy: Entropy
    handle: Callable[[Message | Batch], Awaitable[None]]
    """Hands over to the application; its failures are its own affair and don't come back."""
    grumble: Grumble | None = None
    """Shared with others, so that one trouble of many shards is said once."""


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
        self._ledger = self._settlement.ledger
        self._hand: deque[Record] = deque()
        self._claimed = False  # what is in the hand was delivered before
        self._cursor: RecordId | None = FIRST
        self._swept_at = self._read_at = tools.clock.boot()
        self._handling_since: Instant | None = None
        self._position: RecordId | None = None
        self._state = "READING"
        self._busy = 0
        self._troubles = 0
        self._stopping = asyncio.Event()
        self._idle: asyncio.Future[None] | None = None
        self.progress = ShardProgress(access.shard)

    def stop(self) -> None:
        """Take nothing more; handlers under way finish, what they have not begun stays pending."""
        self._stopping.set()
        self._state = "DRAINING"
        self._hand.clear()
        self._note_progress()
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

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
        while not self._stopping.is_set():
            try:
                await self._turn()
            except StreamUnavailable as error:
                await self._back_off(error)
            except LeaseLost:
                self._begin_again()
                await self._pause(LEASE_PAUSE_S)
        await self._tidy_up()

    async def _turn(self) -> None:
        if not self._grip.may_use():
            await self._pause(LEASE_PAUSE_S)
            return
        if not self._hand:
            await self._take()
        if self._hand:
            await self._hand_over()
        elif self._cursor is None:
            await self._fall_idle()
        self._note_progress()

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
        else:
            read = await self._read()
            access, position, cursor, records = read.access, read.last_delivered, None, read.records
            self._claimed = False
        if access is not Access.OK:
            await self._turned_away(access)
            return
        if self._troubles:
            self._grumble.over("redis", f"{self.key}: Redis answers again")
        self._troubles, self._read_at = 0, self._tools.clock.boot()
        self._position, self._cursor = position, cursor
        if not self._stopping.is_set():
            self._hand.extend(records)

    def _plan(self, now: Instant) -> None:
        if self._cursor is not None:
            return
        if now - self._swept_at >= self._pace.sweep_every:
            self._swept_at, self._cursor = now, FIRST
        else:
            self._cursor = self._ledger.due(now)

    async def _read(self) -> ReadReply:
        if self._troubles == 0:
            return await self._tools.reads.read(self.access, self._pace.page)
        # A shard in trouble reads alone, so that it does not spoil the reads of the others.
        (reply,) = await self._tools.log.read([(self.access, self._pace.page)])
        return reply

    async def _hand_over(self) -> None:
        self._state = self._state if self._stopping.is_set() else "READING"
        async with self._tools.workers:
            ends_at = self._tools.clock.boot() + TURN_MS
            while self._hand and self._grip.may_use():
                await self._next(self._hand)
                if self._tools.clock.boot() >= ends_at:
                    return
        if self._hand and not self._grip.may_use():
            # Whoever holds the shard next claims what is left.
            self._begin_again()

    async def _next(self, hand: deque[Record]) -> None:
        if hand[0].fields is None:
            gone = hand.popleft()
            await self._settlement.acknowledge((gone.id,), AckMode.ACK)
            self.discarded += 1
            self._grumble.say("gone", f"{self.key}: {gone.id} was deleted while it was pending, and is skipped")
            return
        records = [hand.popleft()]
        while hand and len(records) < (self._pace.batch or 1) and hand[0].fields is not None:
            records.append(hand.popleft())
        if self._claimed:
            records = await self._settlement.redeliver(records, self._pace.max_deliveries)
        if records and self._grip.may_use():
            await self._handle(records)

    async def _handle(self, records: list[Record]) -> None:
        messages = [self._message(record) for record in records]
        self._busy, self._handling_since = len(messages), self._tools.clock.boot()
        self._note_progress()
        try:
            await self._tools.handle(messages[0] if self._pace.batch is None else Batch(self._settlement, messages))
        finally:
            self._busy, self._handling_since = 0, None
            self._done_with(records)

    def _done_with(self, records: list[Record]) -> None:
        now = self._tools.clock.boot()
        for record in records:
            given_back = record.id in self._settlement.given_back
            self._ledger.end(record.id, Instant(now + (GIVEN_BACK_MS if given_back else self._pace.redeliver_after)))
        self._settlement.given_back.clear()

    def _message(self, record: Record) -> Message:
        counted = attrs.evolve(record, deliveries=self._ledger.begin(record))
        return Message(self._settlement, self.key, self.access.shard, self.access.token, counted)

    async def _fall_idle(self) -> None:
        self._state = self._state if self._stopping.is_set() else "IDLE"
        self._note_progress()
        if self._position is None or self._stopping.is_set():
            await self._pause(LEASE_PAUSE_S)
            return
        self._idle = self._tools.waiter.idle(self.key, self._position)
        await self._idle
        self._idle = None

    async def _turned_away(self, access: Access) -> None:
        self._grip.refused(access)
        if access is not Access.MISSING:
            await self._pause(LEASE_PAUSE_S)
            return
        self._state = "MISSING"
        self._note_progress()
        self._grumble.say("missing", f"{self.key}: the key or the group {self.access.group} is gone; it is reported")
        self._cursor = FIRST
        await self._pause(self._jittered(MISSING_PAUSE_MS))

    def _begin_again(self) -> None:
        self._hand.clear()
        self._cursor = FIRST

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

    def _note_progress(self) -> None:
        """Replace the progress as one value: the membership's thread reads it at any time."""
        self.progress = ShardProgress(
            shard=self.access.shard,
            last_delivered=self._position,
            last_acked=self._ledger.last_acked,
            ack_floor=self._ledger.floor(self._position),
            pending=self._ledger.pending + len(self._hand),
            in_flight=self._busy,
            read_state=self._state,
        )
