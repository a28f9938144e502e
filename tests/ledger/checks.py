"""What must hold whatever was done to a run: pure functions over its ledger, which ask nobody."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from streamshard.entrypoints.demo.verdict import Check as Check
from tests.ledger.lines import Id, Ledger, Publish, Start, Tenure

MILLI = 1_000_000
CAUGHT_MS = 50
"""How long after a pause a handler may begin whose lease was looked at before the pause."""


Checking: TypeAlias = Callable[[Ledger], Check]


def nothing_lost(ledger: Ledger) -> Check:
    """Every acknowledged publish was handled, unless Redis itself forgot it in a fault that is known to do that."""
    missing = unhandled(ledger)
    kept = _kept(ledger)
    excused = {p for p in missing if (p.shard, p.id) not in kept and _may_be_lost(ledger, p)}
    wrong = [
        f"{_record(p.shard, p.id)} ({p.producer} {p.number}) was acknowledged to the producer, never handled"
        for p in missing
        if p not in excused
    ]
    found = len(ledger.published) - len(missing)
    told = f"{found:,} of {len(ledger.published):,} acknowledged publishes handled, {len(excused):,} lost by Redis"
    return Check("nothing-lost", told, tuple(wrong))


def nothing_invented(ledger: Ledger) -> Check:
    """What is handled was sent by its producer, once, and is not what a producer was told is not written."""
    places: dict[tuple[str, int], tuple[int, Id]] = {(p.producer, p.number): (p.shard, p.id) for p in ledger.published}
    sent = {name: {number for numbers in ranges for number in numbers} for name, ranges in ledger.sent.items()}
    wrong = []
    for start in ledger.starts:
        name = start.producer, start.number
        place = start.shard, start.id
        if start.number not in sent.get(start.producer, set()):
            wrong.append(f"{_record(*place)} carries {name}, which nobody sent")
        if name in ledger.never:
            wrong.append(f"{_record(*place)} carries {name}, which its producer was told is not written")
        if places.setdefault(name, place) != place:
            wrong.append(f"{_record(*place)} carries {name}, which is also {_record(*places[name])}")
    told = f"nothing handled that was not sent: {len(ledger.maybe):,} publishes in doubt"
    return Check("nothing-invented", told, tuple(wrong))


def duplicates(batch: int) -> Checking:
    """Only what is redelivered is handled twice, never in calm, and no more than was in hand when faults came."""

    def check(ledger: Ledger) -> Check:
        calm = ledger.phase("calm")
        pairs = _handled_again(ledger)
        others = [pair for pair in pairs if not _forgotten(ledger, *pair)]
        wrong = [f"{_record(a.shard, a.id)} was delivered as new twice" for _, a in others if a.deliveries == 1]
        wrong += [
            f"{_record(after.shard, after.id)} was handled twice though nothing had happened"
            for before, after in pairs
            if calm[0] <= before.at and after.at < calm[1]
        ]
        allowed = batch * len(ledger.faults)
        for shard, count in sorted(Counter(after.shard for _, after in others).items()):
            if count > allowed:
                wrong.append(f"shard {shard}: {count:,} duplicates, more than {batch} for {len(ledger.faults)} faults")
        told = f"{len(others):,} redelivered, {len(pairs) - len(others):,} more after Redis may have forgotten that"
        return Check("duplicates", told, tuple(wrong))

    return check


def in_order(ledger: Ledger) -> Check:
    """First deliveries of a shard are in id order, across owners."""
    wrong, total = [], 0
    for shard, firsts in _firsts(ledger).items():
        total += len(firsts)
        for before, after in pairwise(firsts):
            if after.id <= before.id:
                wrong.append(
                    f"{_record(shard, after.id)} was first handled by {after.process} under {after.token},"
                    f" after {_record(shard, before.id)} by {before.process} under {before.token}"
                )
    return Check("in-order", f"first deliveries in order: {total:,} on {len(_firsts(ledger))} shards", tuple(wrong))


def one_token(ledger: Ledger) -> Check:
    """No handler starts under a token once one has started under a higher one, by time and by id."""
    caught = _Caught(ledger)
    wrong = [line for line in _starts_under_old(ledger) if not caught.excuses(line)]
    by_id = [
        f"{_record(shard, after.id)} was first handled under {after.token}, though an earlier one was under {first}"
        for shard, firsts in _firsts(ledger).items()
        for first, after in _sinking(sorted(firsts, key=lambda start: start.id))
    ]
    told = f"no start under an old token: {len(ledger.starts):,} starts, {len(caught.used)} caught by a pause"
    shown = [f"{_record(s.shard, s.id)} was handled by {s.process} under {s.token}, an old one" for s in wrong]
    return Check("one-token", told, (*shown, *by_id))


def no_old_ack(ledger: Ledger) -> Check:
    """What Redis took as acknowledged under a token is never handled under a later one."""
    latest: dict[tuple[int, Id], int] = {}
    for start in ledger.starts:
        record = start.shard, start.id
        latest[record] = max(start.token, latest.get(record, 0))
    acks = [end for end in ledger.ends if end.acked]
    wrong = [
        f"{_record(ack.shard, ack.id)} was acknowledged under {ack.token}, but given to a later owner"
        for ack in acks
        if latest.get((ack.shard, ack.id), 0) > ack.token and not _lost_after(ledger, ack.shard, ack.at)
    ]
    return Check("no-old-ack", f"no acknowledgement under an old token: {len(acks):,}", tuple(wrong))


def one_reader(ledger: Ledger) -> Check:
    """At no instant two processes have the right to read a shard, and tokens only grow."""
    wrong = []
    for shard, tenures in _by_shard(ledger).items():
        longest = tenures[0]
        for tenure in tenures[1:]:
            if tenure.start < longest.read_until:
                ms = (min(longest.read_until, tenure.read_until) - tenure.start) // MILLI
                wrong.append(f"shard {shard}: {longest.process} and {tenure.process} could both read for {ms:,} ms")
            if tenure.token < longest.token or (tenure.token == longest.token and tenure.process != longest.process):
                wrong.append(f"shard {shard}: {tenure.token} was granted after {longest.token}")
            longest = max(longest, tenure, key=lambda each: each.read_until)
    return Check("one-reader", f"never two readers of a shard: {len(ledger.tenures):,} ownerships", tuple(wrong))


def nobody_stranded(shards: int) -> Checking:
    """At the end nothing waits on the shards that stay, and no key of a removed one is left."""

    def check(ledger: Ledger) -> Check:
        kept = [each for each in ledger.remains if each.shard < shards]
        removed = [each for each in ledger.remains if each.shard >= shards]
        wrong = [
            f"shard {each.shard}: pending {each.pending}, not yet read {each.lag}"
            for each in kept
            if (each.pending, each.lag) != (0, 0)
        ]
        wrong += [f"the key of removed shard {each.shard} is still there" for each in removed if each.exists]
        wrong += [f"shard {n} was not looked at" for n in sorted({*range(shards)} - {each.shard for each in kept})]
        return Check("nobody-stranded", f"{len(removed)} removed shards gone, {len(kept)} empty", tuple(wrong))

    return check


def stopped_well(ledger: Ledger) -> Check:
    """Whoever is told to stop ends with 0."""
    ended = ledger.told("ended")
    wrong = [f"{row['who']} ended with code {row['code']}" for row in ended if row["code"] != 0]
    return Check("stopped-well", f"{len(ended)} processes told to stop did so", tuple(wrong))


def unhandled(ledger: Ledger) -> list[Publish]:
    """Acknowledged publishes whose record no handler got."""
    handled = {(s.shard, s.id, s.producer, s.number) for s in ledger.starts}
    return [p for p in ledger.published if (p.shard, p.id, p.producer, p.number) not in handled]


def forgotten(ledger: Ledger) -> list[Publish]:
    """Acknowledged publishes that Redis itself lost, handled before or not, on the shards that are left."""
    kept, left = _kept(ledger), {each.shard for each in ledger.remains if each.exists}
    return [p for p in ledger.published if p.shard in left and (p.shard, p.id) not in kept and _may_be_lost(ledger, p)]


class _Caught:
    """A handler whose lease was looked at, and which a pause then fell upon: one for each pause, and at once after."""

    def __init__(self, ledger: Ledger) -> None:
        self._pauses = [fault for fault in ledger.faults if fault.name == "consumer-stop"]
        self.used: set[tuple[int, str]] = set()

    def excuses(self, start: Start) -> bool:
        for pause in self._pauses:
            caught = pause.began <= start.at <= pause.ended + CAUGHT_MS * MILLI and start.process in pause.who
            if caught and start.at > start.until:
                key = pause.began, start.process
                first = key not in self.used
                self.used.add(key)
                return first
        return False


def _starts_under_old(ledger: Ledger) -> Iterable[Start]:
    """One for each call of a handler."""
    highest: dict[int, int] = {}
    calls: set[tuple[int, str, int]] = set()
    for start in ledger.starts:
        if start.token < highest.get(start.shard, 0) and (call := (start.at, start.process, start.shard)) not in calls:
            calls.add(call)
            yield start
        highest[start.shard] = max(start.token, highest.get(start.shard, 0))


def _sinking(starts: Sequence[Start]) -> Iterable[tuple[int, Start]]:
    for before, after in pairwise(starts):
        if after.token < before.token:
            yield before.token, after


def _firsts(ledger: Ledger) -> Mapping[int, list[Start]]:
    found: dict[int, dict[Id, Start]] = defaultdict(dict)
    for start in ledger.starts:
        found[start.shard].setdefault(start.id, start)
    return {shard: list(firsts.values()) for shard, firsts in sorted(found.items())}


def _by_shard(ledger: Ledger) -> Mapping[int, list[Tenure]]:
    """Those that were worth something when they were noted: a paused process may hear late of what it had."""
    found: dict[int, list[Tenure]] = defaultdict(list)
    for tenure in ledger.tenures:
        if tenure.start < tenure.read_until:
            found[tenure.shard].append(tenure)
    return dict(sorted(found.items()))


def _handled_again(ledger: Ledger) -> list[tuple[Start, Start]]:
    """Each handling after the first of a record, with that first one."""
    seen: dict[tuple[int, Id], Start] = {}
    pairs = ((seen.setdefault((start.shard, start.id), start), start) for start in ledger.starts)
    return [(before, after) for before, after in pairs if before is not after]


def _kept(ledger: Ledger) -> frozenset[tuple[int, Id]]:
    return frozenset((each.shard, record) for each in ledger.remains for record in each.ids)


def _may_be_lost(ledger: Ledger, publish: Publish) -> bool:
    return any(fault.may_have_lost(publish.shard, publish.id) for fault in ledger.faults)


def _forgotten(ledger: Ledger, before: Start, after: Start) -> bool:
    """Whether Redis may have forgotten between the two that it delivered the record."""
    return any(
        before.shard in fault.shards and fault.lost_to and before.at <= fault.ended and after.at >= fault.began
        for fault in ledger.faults
    )


def _lost_after(ledger: Ledger, shard: int, at: int) -> bool:
    return any(shard in fault.shards and fault.lost_to and at <= fault.ended for fault in ledger.faults)


def _record(shard: int, record: Id) -> str:
    return f"orders:{shard} {record[0]}-{record[1]}"
