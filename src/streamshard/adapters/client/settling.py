"""What becomes of the records of one run: acknowledged, given back, counted, or given up."""

import logging
from collections.abc import Callable, Sequence

import attrs

from streamshard.adapters.client.noise import Grumble
from streamshard.core.consumer import Ledger
from streamshard.core.dead_letters import DeadLetter, dead_letter_key, written
from streamshard.core.ids import Instant, RecordId, stream_key
from streamshard.core.ports import Clock, Redelivering, ShardLog
from streamshard.core.records import Access, AckMode, ClaimReply, Record, ShardAccess
from streamshard.errors import ConfigurationError, LeaseLost, StreamUnavailable

_LOG = logging.getLogger(__name__)

NAMED = 5
"""How many records an error names."""


@attrs.frozen
class Grip:
    """The lease of the shard, and where to report what the fence refused."""

    clock: Clock
    until: Callable[[], Instant]
    refused: Callable[[Access], None]

    def may_use(self) -> bool:
        """Whether it lasts at this moment."""
        return self.clock.boot() < self.until()

    def lasts(self, now: Instant) -> bool:
        """The same for who has just looked at the clock."""
        return now < self.until()


class Settlement:
    """Every order raises `LeaseLost` if the shard may be somebody else's by now.

    And `StreamUnavailable` if Redis does not answer, or has lost the key or the group.
    """

    def __init__(self, access: ShardAccess, log: ShardLog, grip: Grip, grumble: Grumble, ack_del: AckMode) -> None:
        self.given_up: Callable[[], None] | None = None
        """Told of each record that is kept in the dead-letter stream."""
        self.ledger = Ledger()
        self.given_back: set[RecordId] = set()
        """What handlers gave back, for the run to hand over again soon."""
        self._access = access
        self._key = stream_key(access.prefix, access.shard)
        self._log, self._grip, self._grumble, self._ack_del = log, grip, grumble, ack_del
        self._redelivering = log if isinstance(log, Redelivering) else None

    async def acknowledge(self, ids: Sequence[RecordId], mode: AckMode) -> None:
        """Acknowledge records."""
        self._check_lease(ids)
        meant = mode if mode is AckMode.ACK else self._ack_del
        reply = await self._log.acknowledge(self._access, ids, meant)
        if reply.access is not Access.OK:
            self._check_fence(reply.access, ids)
        self.ledger.settle(ids)

    async def give_back(self, ids: Sequence[RecordId]) -> None:
        """Leave records pending under nobody's name; `ConfigurationError` where the server has no XNACK."""
        log = self._able("nack")
        abilities = await log.abilities()
        if not abilities.gives_back:
            raise ConfigurationError(f"nack: {abilities.server} has no XNACK, which Redis has from 8.8 on")
        self._check_lease(ids)
        reply = await log.give_back(self._access, ids)
        self._check_fence(reply.access, ids)
        self.given_back.update(ids)

    async def dead_letter(self, record: Record, reason: str) -> None:
        """Write the record to the dead-letter stream, and only then acknowledge it.

        If the acknowledgement fails, the record comes again, and may be there twice.
        """
        log, ids = self._able("dead_letter"), (record.id,)
        self._check_lease(ids)
        place = (self._access.group, self._access.shard, record.id)
        letter = DeadLetter(reason, record.deliveries, *place, record.fields or {})
        buried = await log.bury(dead_letter_key(self._access.prefix), written(letter))
        if self.given_up is not None:
            self.given_up()
        await self.acknowledge(ids, AckMode.ACK)
        where = f"{dead_letter_key(self._access.prefix)} as {buried}"
        self._grumble.say("dead", f"{self._key}: {record.id} is given up, and kept in {where}: {reason}")

    async def claim(self, start: RecordId, count: int) -> ClaimReply:
        """A page of what is pending; nothing counts as delivered, where the log can do so."""
        if self._redelivering is None:
            return await self._log.claim(self._access, start, count)
        return await self._redelivering.survey(self._access, start, count)

    async def redeliver(self, records: Sequence[Record], most: int | None) -> list[Record]:
        """Count a delivery of claimed records; those that were delivered ``most`` times are given up instead."""
        if self._redelivering is None:
            return list(records)
        spent = [record for record in records if most is not None and record.deliveries >= most]
        for record in spent:
            reason = f"delivered {record.deliveries} times and not acknowledged (max_deliveries={most})"
            await self.dead_letter(record, reason)
        return await self._count([record for record in records if record not in spent], self._redelivering)

    async def _count(self, records: Sequence[Record], log: Redelivering) -> list[Record]:
        ids = [record.id for record in records]
        if not ids:
            return []
        reply = await log.deliver(self._access, ids)
        self._check_fence(reply.access, ids)
        counts = reply.deliveries
        self.ledger.forget(record for record in ids if record not in counts)
        return [attrs.evolve(record, deliveries=counts[record.id]) for record in records if record.id in counts]

    def _able(self, order: str) -> Redelivering:
        if self._redelivering is None:
            raise ConfigurationError(f"{order}: {type(self._log).__name__} keeps no count of deliveries")
        return self._redelivering

    def _check_lease(self, ids: Sequence[RecordId]) -> None:
        if not self._grip.may_use():
            raise LeaseLost(f"{self._key}: the lease is over, so {_named(ids)} can't be settled")

    def _check_fence(self, access: Access, ids: Sequence[RecordId]) -> None:
        if access is Access.OK:
            return
        self._grip.refused(access)
        if access is Access.MISSING:
            raise StreamUnavailable(f"{self._key}: the key or the group {self._access.group} is gone")
        raise LeaseLost(f"{self._key}: {access.value}, so {_named(ids)} can't be settled")


def _named(ids: Sequence[RecordId]) -> str:
    """A batch may be long, and this is read by people."""
    more = len(ids) - NAMED
    return ", ".join(ids[:NAMED]) + (f" and {more} more" if more > 0 else "")
