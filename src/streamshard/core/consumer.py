"""What a reader knows of the records it took from one shard: which are unsettled, and what is due again."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import attrs

from streamshard.core.ids import Instant, RecordId
from streamshard.core.records import Record

FIRST = RecordId("0-0")
LAST_SEQUENCE = 2**64 - 1
NEVER = Instant(2**62)


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


def just_above(record: RecordId) -> RecordId:
    """The smallest id above ``record``."""
    ms, sequence = id_order(record)
    return RecordId(f"{ms}-{sequence + 1}")


@attrs.frozen
class Unsettled:
    """A record that was handed over and not acknowledged. ``due``: when to hand it over again, None while handled."""

    deliveries: int
    due: Instant | None


@attrs.define
class Ledger:
    """The unsettled records of one run over one shard.

    ``unseen``: from this id on more may be pending than is known here, until the pages of a claim have told; None
    once they have.
    """

    unseen: RecordId | None = attrs.field(default=FIRST, init=False)
    last_acked: RecordId | None = attrs.field(default=None, init=False)
    _acked: tuple[int, int] = attrs.field(default=(-1, -1), init=False)
    _deliveries: dict[RecordId, int] = attrs.field(factory=dict, init=False)
    _due: dict[RecordId, Instant] = attrs.field(factory=dict, init=False)
    _soonest: Instant = attrs.field(default=NEVER, init=False)  # nothing is due before

    @property
    def unsettled(self) -> Mapping[RecordId, Unsettled]:
        """A copy, by record id."""
        return MappingProxyType({r: Unsettled(count, self._due.get(r)) for r, count in self._deliveries.items()})

    @property
    def pending(self) -> int:
        """How many records are unsettled."""
        return len(self._deliveries)

    @property
    def clear(self) -> bool:
        """Everything that was delivered and is not in hand is settled."""
        return not self._deliveries and self.unseen is None

    def fresh(self, records: Iterable[Record], now: Instant) -> tuple[Record, ...]:
        """Those of claimed ``records`` to hand over now: unknown ones, and known ones that are due again."""
        return tuple(record for record in records if self._wanted(record.id, now))

    def begin(self, record: Record) -> int:
        """A handler takes ``record``; returns which delivery of it this is, from 1."""
        known = self._deliveries.get(record.id)
        deliveries = record.deliveries if known is None else known + 1
        self._deliveries[record.id] = deliveries
        if self._due:
            self._due.pop(record.id, None)
        return deliveries

    def end(self, records: Iterable[RecordId], due: Instant) -> None:
        """Their handler has returned or failed; what is not settled, hand over again at ``due``."""
        for record in records:
            if record in self._deliveries:
                self._due[record] = due
                self._soonest = min(self._soonest, due)

    def settle(self, records: Sequence[RecordId]) -> None:
        """These are acknowledged."""
        self.forget(records)
        last = records[0] if len(records) == 1 else max(records, key=id_order)
        if (order := id_order(last)) > self._acked:
            self._acked, self.last_acked = order, last

    def forget(self, records: Iterable[RecordId]) -> None:
        """These are pending no more: somebody else settled them."""
        for record in records:
            self._deliveries.pop(record, None)
            if self._due:
                self._due.pop(record, None)

    def missed(self, claimed: Iterable[Record], start: RecordId, end: RecordId | None) -> None:
        """Forget what a claimed page from ``start`` to before ``end`` should have held: it was settled unseen.

        The answer to an acknowledgement may have been lost, or somebody else acknowledged.
        """
        page = {record.id for record in claimed}
        low, high = id_order(start), None if end is None else id_order(end)
        if self.unseen is not None and low <= id_order(self.unseen):
            self.unseen = end
        gone = [r for r in self._deliveries if low <= id_order(r) and (high is None or id_order(r) < high)]
        self.forget([record for record in gone if record not in page])

    def lose_sight(self, start: RecordId) -> None:
        """What is pending from ``start`` on is not known any more."""
        if self.unseen is None or id_order(start) < id_order(self.unseen):
            self.unseen = start

    def due(self, now: Instant) -> RecordId | None:
        """The lowest id that is to be handed over again."""
        if now < self._soonest:
            return None
        self._soonest = min(self._due.values(), default=NEVER)
        return min([r for r, due in self._due.items() if now >= due], key=id_order, default=None)

    def floor(self, last_delivered: RecordId | None, in_hand: RecordId | None = None) -> RecordId | None:
        """The id up to which everything delivered is acknowledged; ``in_hand``: the first that is to be handed over."""
        if last_delivered is None:
            return None
        open_ones = [record for record in (in_hand, self.unseen) if record is not None]
        lowest = min((*open_ones, *self._deliveries), key=id_order, default=None)
        if lowest is None or id_order(lowest) > id_order(last_delivered):
            return last_delivered
        return just_below(lowest)

    def _wanted(self, record: RecordId, now: Instant) -> bool:
        due = self._due.get(record)
        return record not in self._deliveries if due is None else now >= due
