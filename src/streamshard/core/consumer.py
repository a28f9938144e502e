"""What a reader knows of the records it took from one shard: which are unsettled, and what is due again."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import attrs

from streamshard.core.ids import Instant, RecordId
from streamshard.core.records import Record

FIRST = RecordId("0-0")
LAST_SEQUENCE = 2**64 - 1


def id_order(record: RecordId) -> tuple[int, int]:
    """What to sort record ids by: as text, ``10-0`` would come before ``9-0``."""
    ms, _, sequence = record.partition("-")
    return int(ms), int(sequence or 0)


def just_below(record: RecordId) -> RecordId:
    """The greatest id below ``record``: a group set to it delivers ``record`` next."""
    ms, sequence = id_order(record)
    if sequence > 0:
        return RecordId(f"{ms}-{sequence - 1}")
    return RecordId(f"{ms - 1}-{LAST_SEQUENCE}") if ms > 0 else FIRST


@attrs.frozen
class Unsettled:
    """A record that was handed over and not acknowledged. ``due``: when to hand it over again, None while handled."""

    deliveries: int
    due: Instant | None


@attrs.define
class Ledger:
    """The unsettled records of one run over one shard."""

    _unsettled: dict[RecordId, Unsettled] = attrs.field(factory=dict, init=False)
    last_acked: RecordId | None = attrs.field(default=None, init=False)

    @property
    def unsettled(self) -> Mapping[RecordId, Unsettled]:
        """A copy, by record id."""
        return MappingProxyType(dict(self._unsettled))

    @property
    def pending(self) -> int:
        """How many records are unsettled."""
        return len(self._unsettled)

    def fresh(self, records: Iterable[Record], now: Instant) -> tuple[Record, ...]:
        """Those of claimed ``records`` to hand over now: unknown ones, and known ones that are due again."""
        return tuple(record for record in records if self._wanted(record.id, now))

    def begin(self, record: Record) -> int:
        """A handler takes ``record``; returns which delivery of it this is, from 1."""
        known = self._unsettled.get(record.id)
        deliveries = record.deliveries if known is None else known.deliveries + 1
        self._unsettled[record.id] = Unsettled(deliveries, None)
        return deliveries

    def end(self, record: RecordId, due: Instant) -> None:
        """Its handler has returned or failed; unless it is settled, hand it over again at ``due``."""
        known = self._unsettled.get(record)
        if known is not None:
            self._unsettled[record] = Unsettled(known.deliveries, due)

    def settle(self, records: Iterable[RecordId]) -> None:
        """These are acknowledged."""
        for record in records:
            self._unsettled.pop(record, None)
            if self.last_acked is None or id_order(record) > id_order(self.last_acked):
                self.last_acked = record

    def forget(self, records: Iterable[RecordId]) -> None:
        """These are pending no more: somebody else settled them."""
        for record in records:
            self._unsettled.pop(record, None)

    def missed(self, claimed: Iterable[Record], start: RecordId, end: RecordId | None) -> None:
        """Forget what a claimed page from ``start`` to before ``end`` should have held: it was settled unseen.

        The answer to an acknowledgement may have been lost, or somebody else acknowledged.
        """
        page = {record.id for record in claimed}
        low, high = id_order(start), None if end is None else id_order(end)
        for record in tuple(self._unsettled):
            within = low <= id_order(record) and (high is None or id_order(record) < high)
            if within and record not in page:
                del self._unsettled[record]

    def due(self, now: Instant) -> RecordId | None:
        """The lowest id that is to be handed over again."""
        ready = [r for r, entry in self._unsettled.items() if entry.due is not None and now >= entry.due]
        return min(ready, key=id_order, default=None)

    def floor(self, last_delivered: RecordId | None) -> RecordId | None:
        """The id up to which everything delivered is acknowledged."""
        if not self._unsettled:
            return last_delivered
        return just_below(min(self._unsettled, key=id_order))

    def _wanted(self, record: RecordId, now: Instant) -> bool:
        known = self._unsettled.get(record)
        return known is None or (known.due is not None and now >= known.due)
