"""What must hold, judged from the ledger alone: nothing here asks anybody."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import attrs

from streamshard.entrypoints.demo.evidence import FOREVER, Evidence, Handling, Id, Tenure, gather
from streamshard.entrypoints.demo.plan import LAST_SHARDS, LEAST_RATE, MOST_SHARDS

SHOWN = 3
NANOS = 1_000_000_000


@attrs.frozen
class Check:
    """One thing that must hold: what was found, and examples of what is wrong."""

    name: str
    told: str
    wrong: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.wrong


@attrs.frozen
class Verdict:
    """All checks, and why the run proves too little, if it does."""

    checks: tuple[Check, ...]
    void: tuple[str, ...]
    figures: Mapping[str, float]

    @property
    def ok(self) -> bool:
        """Everything holds, and it was a real test."""
        return not self.void and all(check.ok for check in self.checks)


def judge(files: Mapping[str, str]) -> Verdict:
    """Judge a run by the texts of its files, by name: a pure function."""
    evidence = gather(files)
    return Verdict(tuple(check(evidence) for check in CHECKS), tuple(_void(evidence)), _figures(evidence))


def _nothing_lost(evidence: Evidence) -> Check:
    handled = {(h.shard, h.id, h.seq) for h in evidence.handlings}
    lost = [p for p in evidence.published if (p.shard, p.id, p.seq) not in handled]
    found = len(evidence.published) - len(lost)
    wrong = [f"{_record(p.shard, p.id)} (number {p.seq}) was acknowledged to the producer, never handled" for p in lost]
    told = f"every acknowledged publish was handled: {found:,} of {len(evidence.published):,}"
    return Check("nothing-lost", told, tuple(wrong))


def _nothing_invented(evidence: Evidence) -> Check:
    known = {(p.shard, p.id): p.seq for p in evidence.published}
    wrong = [
        f"{_record(h.shard, h.id)} carries number {h.seq}, which was not published there"
        for h in evidence.handlings
        if known.get((h.shard, h.id)) != h.seq and h.seq not in evidence.uncertain
    ]
    told = f"nothing was handled that was not published: {len(evidence.uncertain):,} publishes had no answer"
    return Check("nothing-invented", told, tuple(wrong))


def _duplicates(evidence: Evidence) -> Check:
    wrong, again, seen = [], 0, set()
    for handling in evidence.handlings:
        record = handling.shard, handling.id
        again += record in seen
        if record in seen and handling.deliveries == 1:
            wrong.append(f"{_record(*record)} was delivered as new twice")
        seen.add(record)
    told = f"a record is handled again only when it is redelivered: {again:,} duplicates of {len(seen):,}"
    return Check("duplicates", told, tuple(wrong))


def _in_order(evidence: Evidence) -> Check:
    wrong: list[str] = []
    total = 0
    for shard, firsts in _first_handlings(evidence).items():
        total += len(firsts)
        for before, after in pairwise(firsts):
            if after.id <= before.id:
                wrong.append(f"{_record(shard, after.id)} was first handled after {_record(shard, before.id)}")
    told = f"first deliveries are in order on each shard, across owners: {total:,} on {_shards(evidence)} shards"
    return Check("in-order", told, tuple(wrong))


def _one_reader(evidence: Evidence) -> Check:
    wrong = []
    for shard, tenures in _tenures_by_shard(evidence).items():
        longest = tenures[0]
        for tenure in tenures[1:]:
            if tenure.start < longest.read_until:
                ms = (min(longest.read_until, tenure.read_until) - tenure.start) // 1_000_000
                wrong.append(f"shard {shard}: {longest.member} and {tenure.member} could both read for {ms:,} ms")
            longest = max(longest, tenure, key=lambda t: t.read_until)
    told = f"a shard never has two readers: {len(evidence.tenures):,} ownerships, none overlap"
    return Check("one-reader", told, tuple(wrong))


def _no_old_token(evidence: Evidence) -> Check:
    found = (_reads_under_old, _acks_under_old, _tokens_not_granted, _marks_too_low)
    wrong = [line for find in found for line in find(evidence)]
    told = f"no read and no ack under an old token: {len(evidence.handlings):,} reads, {len(evidence.acks):,} acks"
    return Check("no-old-token", told, tuple(wrong))


def _removed_are_gone(evidence: Evidence) -> Check:
    removed = [r for r in evidence.remains if r.shard >= LAST_SHARDS]
    left = [f"the key of removed shard {r.shard} is still there" for r in removed if r.exists]
    unsealed = [f"the fence of removed shard {r.shard} is not sealed" for r in removed if not r.sealed]
    unseen = {*range(LAST_SHARDS, MOST_SHARDS)} - {r.shard for r in removed}
    missing = [f"removed shard {shard} was not looked at" for shard in sorted(unseen)]
    told = f"no key of a removed shard is left: {len(removed)} removed, {len(removed) - len(unsealed)} sealed"
    return Check("removed-are-gone", told, (*left, *unsealed, *missing))


def _nothing_waits(evidence: Evidence) -> Check:
    kept = [r for r in evidence.remains if r.shard < LAST_SHARDS]
    wrong = [
        f"shard {r.shard}: pending {r.pending}, not yet read {r.lag}" for r in kept if (r.pending, r.lag) != (0, 0)
    ]
    missing = [f"shard {s} was not looked at" for s in sorted({*range(LAST_SHARDS)} - {r.shard for r in kept})]
    return Check("nothing-waits", f"nothing is left undone on the {len(kept)} shards that stay", (*wrong, *missing))


def _outage_moved_nothing(evidence: Evidence) -> Check:
    """A lease that ran out meanwhile pauses a shard; what goes on under the same token was not moved."""
    outages = zip(evidence.told("coordinator-killed"), evidence.told("coordinator-watched"), strict=False)
    wrong, paused = [], 0
    for begin, end in ((row["at"], back["at"]) for row, back in outages):
        for tenure in evidence.tenures:
            earlier, later = _stints(evidence, tenure)
            ended = begin <= tenure.end <= end
            paused += ended and later
            if begin <= tenure.start <= end and not earlier:
                wrong.append(f"shard {tenure.shard} was taken by {tenure.member}")
            if ended and not later:
                wrong.append(f"shard {tenure.shard} was given up by {tenure.member}")
    told = f"a coordinator that is killed and restarted moves no shard: {paused} paused meanwhile"
    return Check("outage-moved-nothing", told, tuple(wrong))


def _stints(evidence: Evidence, tenure: Tenure) -> tuple[bool, bool]:
    """Whether the same process read the shard under the same token before, and after."""
    mine = (tenure.process, tenure.shard, tenure.token)
    starts = [t.start for t in evidence.tenures if (t.process, t.shard, t.token) == mine]
    return min(starts) < tenure.start, max(starts) > tenure.start


def _stopped_well(evidence: Evidence) -> Check:
    stopped = evidence.told("stopped")
    wrong = [f"{row['who']} ended with code {row['code']}" for row in stopped if row["code"] != 0]
    held = [
        f"{t.process} ended without giving shard {t.shard} back"
        for t in evidence.tenures
        if t.end == FOREVER and any(row["who"] == t.process for row in stopped)
    ]
    return Check("stopped-well", f"all {len(stopped)} processes told to stop did so cleanly", (*wrong, *held))


CHECKS: tuple[Callable[[Evidence], Check], ...] = (
    _nothing_lost,
    _nothing_invented,
    _duplicates,
    _in_order,
    _one_reader,
    _no_old_token,
    _outage_moved_nothing,
    _removed_are_gone,
    _nothing_waits,
    _stopped_well,
)


def _reads_under_old(evidence: Evidence) -> Iterable[str]:
    """By ids, which Redis gave out in the order of delivery; and by time."""
    for shard, firsts in _first_handlings(evidence).items():
        for before, after in pairwise(sorted(firsts, key=lambda handling: handling.id)):
            if after.token < before.token:
                yield f"{_record(shard, after.id)} was delivered under token {after.token} after {before.token}"
    highest: dict[int, int] = {}
    for handling in evidence.handlings:
        if handling.token < highest.get(handling.shard, 0):
            yield f"{_record(handling.shard, handling.id)} was handled under token {handling.token}, an old one"
        highest[handling.shard] = max(handling.token, highest.get(handling.shard, 0))


def _acks_under_old(evidence: Evidence) -> Iterable[str]:
    """What Redis took as acknowledged, no later owner can be given."""
    latest: dict[tuple[int, Id], int] = {}
    for handling in evidence.handlings:
        record = handling.shard, handling.id
        latest[record] = max(handling.token, latest.get(record, 0))
    for ack in evidence.acks:
        if latest.get((ack.shard, ack.id), 0) > ack.token:
            yield f"{_record(ack.shard, ack.id)} was acknowledged under token {ack.token}, but given to a later owner"


def _tokens_not_granted(evidence: Evidence) -> Iterable[str]:
    held: dict[tuple[str, int, int], list[Tenure]] = defaultdict(list)
    for tenure in evidence.tenures:
        held[tenure.process, tenure.shard, tenure.token].append(tenure)
    for handling in evidence.handlings:
        rights = held.get((handling.process, handling.shard, handling.token), [])
        if not any(right.start <= handling.at <= right.end for right in rights):
            yield f"{_record(handling.shard, handling.id)} was handled by {handling.process} without a right to it"
    for shard, tenures in _tenures_by_shard(evidence).items():
        for before, after in pairwise(tenures):
            if after.token < before.token or (after.token == before.token and after.process != before.process):
                yield f"shard {shard}: token {after.token} was granted after token {before.token}"


def _marks_too_low(evidence: Evidence) -> Iterable[str]:
    marks = {remains.shard: remains.mark for remains in evidence.remains}
    used = {h.shard: h.token for h in sorted(evidence.handlings, key=lambda handling: handling.token)}
    for shard, token in sorted(used.items()):
        if marks.get(shard, 0) < token:
            yield f"shard {shard}: the fence stands at {marks.get(shard, 0)}, though token {token} was used"


def _void(evidence: Evidence) -> Iterable[str]:
    """Why nothing is proven even if everything holds."""
    rate = _rate(evidence)
    if rate < LEAST_RATE:
        yield f"only {rate:,.0f} records/s were published on average: at least {LEAST_RATE:,} are needed"
    if _shards(evidence) < MOST_SHARDS:
        yield f"records went to {_shards(evidence)} shards only: {MOST_SHARDS} are needed"
    deaths = {row["who"]: row["at"] for row in evidence.told("killed")}
    if not any(tenure.end == deaths.get(tenure.process) for tenure in evidence.tenures):
        yield "no consumer was killed while it owned a shard"
    if not evidence.told("coordinator-killed") or not evidence.told("coordinator-watched"):
        yield "the coordinator was not killed and restarted"
    if [row["shards"] for row in evidence.told("scaled")] != [MOST_SHARDS, LAST_SHARDS]:
        yield f"the stream was not scaled to {MOST_SHARDS} and then to {LAST_SHARDS} shards"
    if not any(_handed_over(tenures, deaths) for tenures in _tenures_by_shard(evidence).values()):
        yield "no shard went from one living process to another"
    if not evidence.told("stopped"):
        yield "no process was told to stop"


def _handed_over(tenures: Sequence[Tenure], deaths: Mapping[str, int]) -> bool:
    return any(a.process != b.process and a.end < deaths.get(a.process, FOREVER) for a, b in pairwise(tenures))


def _figures(evidence: Evidence) -> Mapping[str, float]:
    return {
        "published": len(evidence.published),
        "handled": len({(h.shard, h.id) for h in evidence.handlings}),
        "handlings": len(evidence.handlings),
        "duplicates": len(evidence.handlings) - len({(h.shard, h.id) for h in evidence.handlings}),
        "acknowledged": len(evidence.acks),
        "publishesWithoutAnswer": len(evidence.uncertain),
        "ownerships": len(evidence.tenures),
        "recordsPerSecond": round(_rate(evidence), 1),
    }


def _rate(evidence: Evidence) -> float:
    if len(evidence.published) < 2:  # noqa: PLR2004
        return 0.0
    nanos = max(1, evidence.published[-1].at - evidence.published[0].at)
    return len(evidence.published) * NANOS / nanos


def _first_handlings(evidence: Evidence) -> Mapping[int, list[Handling]]:
    found: dict[int, dict[Id, Handling]] = defaultdict(dict)
    for handling in evidence.handlings:
        found[handling.shard].setdefault(handling.id, handling)
    return {shard: list(firsts.values()) for shard, firsts in sorted(found.items())}


def _tenures_by_shard(evidence: Evidence) -> Mapping[int, list[Tenure]]:
    found: dict[int, list[Tenure]] = defaultdict(list)
    for tenure in evidence.tenures:
        found[tenure.shard].append(tenure)
    return dict(sorted(found.items()))


def _shards(evidence: Evidence) -> int:
    return len(Counter(handling.shard for handling in evidence.handlings))


def _record(shard: int, record: Id) -> str:
    return f"orders:{shard} {record[0]}-{record[1]}"
