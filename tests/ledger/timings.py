"""How long it took until somebody read again, and whether a run was hard enough to prove anything."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import attrs

from tests.ledger.checks import MILLI, Check, forgotten
from tests.ledger.lines import FOREVER, Ledger, Row

NANOS = 1_000_000_000
LOSING = "failover-loss"
"""The nemesis that has not done its work unless Redis forgot something."""


@attrs.frozen
class Bounds:
    """What a run promises, in milliseconds."""

    crash_ms: float
    handoff_ms: float


def quick_failovers(ledger: Ledger, bounds: Bounds) -> Check:
    """From the kill of a consumer, with nothing else going on, to the first handler of a new owner of each shard."""
    found = failovers(ledger)
    return _within("quick-failovers", "crash to next read", found, bounds.crash_ms)


def quick_handoffs(ledger: Ledger, bounds: Bounds) -> Check:
    """From the last moment at which a shard was owned to the next owner, with nothing else going on."""
    found = handoffs(ledger)
    return _within("quick-handoffs", "graceful handoff gap", found, bounds.handoff_ms)


def pauses_move_nothing(ledger: Ledger) -> Check:
    """While all coordinators stand still for less than a lease, and after, nobody gets or loses a shard."""
    pauses = [fault for fault in ledger.faults if fault.name == "coordinators-frozen"]
    wrong = []
    for pause in pauses:
        for tenure in ledger.tenures:
            if pause.began <= tenure.start <= pause.ended:
                wrong.append(f"shard {tenure.shard} went to {tenure.process}")
            if pause.began <= tenure.end <= pause.ended:
                wrong.append(f"shard {tenure.shard} was taken from {tenure.process}")
    return Check(
        "pauses-move-nothing", f"all coordinators stopped {len(pauses)} times: no move, no fence", tuple(wrong)
    )


def failovers(ledger: Ledger) -> list[float]:
    """Milliseconds, one for each shard of each consumer that was killed to see that."""
    return [
        _first_start(ledger, row, shard)
        for row in ledger.told("crash")
        if not row["blurred"]
        for shard in row["shards"]
    ]


def handoffs(ledger: Ledger) -> list[float]:
    """Milliseconds without an owner, one for each shard of each consumer that left to see that."""
    found = []
    for row in (row for row in ledger.told("leave") if not row["blurred"]):
        for shard in row["shards"]:
            ends = [t.end for t in ledger.tenures if (t.shard, t.process) == (shard, row["who"]) and t.end < FOREVER]
            starts = [t.start for t in ledger.tenures if t.shard == shard and ends and t.start >= max(ends)]
            found.append((min(starts) - max(ends)) / MILLI if starts else float("inf"))
    return found


def void(ledger: Ledger, wanted: Collection[str], least: int, rate: float, *, timed: bool = True) -> Iterable[str]:
    """Why the run proves too little, if it does: ``least`` times each nemesis, ``rate`` records a second in calm."""
    reached = calm_rate(ledger)
    if reached < rate:
        yield f"{reached:,.0f} records/s were published in calm: at least {rate:,.0f} are needed"
    fired = Counter(fault.name for fault in ledger.faults)
    for name in sorted(wanted):
        if fired[name] < least:
            yield f"{name} came {fired[name]} times: at least {least} are needed"
    if LOSING in wanted and not forgotten(ledger):
        yield f"{LOSING}: no acknowledged write was lost"
    for kind, found in (("crash failovers", failovers(ledger)), ("graceful handoffs", handoffs(ledger))):
        if timed and not found:
            yield f"no {kind} were measured: the machine was too busy, or they did not happen"


def calm_rate(ledger: Ledger) -> float:
    """Records a second that were published before anything was done to the run."""
    begin, end = ledger.phase("calm")
    return sum(begin <= p.at < end for p in ledger.published) * NANOS / max(1, end - begin)


def figures(ledger: Ledger) -> Mapping[str, object]:
    """What a run came to, for its report."""
    return {
        "records published": len(ledger.published),
        "records handled": len({(start.shard, start.id) for start in ledger.starts}),
        "acknowledged, then forgotten by Redis": len(forgotten(ledger)),
        "publishes in doubt": len(ledger.maybe),
        "records/s in calm": round(calm_rate(ledger)),
        "ownerships": len(ledger.tenures),
        "faults": len(ledger.faults),
        "processes that ended by themselves": len(ledger.told("fell")),
        "failover ms": _spread(failovers(ledger)),
        "handoff ms": _spread(handoffs(ledger)),
    }


def _within(name: str, what: str, found: list[float], bound: float) -> Check:
    wrong = [f"{what}: {ms:,.0f} ms, over {bound:,.0f}" for ms in found if ms > bound]
    return Check(
        name, f"{what} at most {max(found, default=0):,.0f} ms of {bound:,.0f}, {len(found)} seen", tuple(wrong)
    )


def _first_start(ledger: Ledger, crash: Row, shard: int) -> float:
    starts = (s.at for s in ledger.starts if s.shard == shard and s.at > crash["at"] and s.process != crash["who"])
    killed: int = crash["at"]
    return (next(starts, FOREVER) - killed) / MILLI


def _spread(found: list[float]) -> str:
    ordered = sorted(found)
    return f"{ordered[len(ordered) // 2]:,.0f} median, {ordered[-1]:,.0f} worst" if ordered else "none"
