"""One run: calm, then chaos, then quiet measurements, then everything is handled and judged."""

import heapq
import itertools
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs

from streamshard.adapters.clock import SystemClock
from tests.chaos.ground import ground
from tests.chaos.nemeses import nemeses_of
from tests.chaos.plan import BATCH, BOUNDS, LAST_SHARDS, LEAST_LEASE_S, LEAST_RATE, MOST_SHARDS, STREAM, Plan
from tests.chaos.stage import BY, CONSUMER, COORDINATOR, PRODUCER, ChaosFailed, NotNow, Stage
from tests.chaos.wounds import Nemesis, Wound
from tests.ledger.checks import (
    Check,
    duplicates,
    in_order,
    no_old_ack,
    nobody_stranded,
    nothing_invented,
    nothing_lost,
    one_reader,
    one_token,
    stopped_well,
)
from tests.ledger.lines import Ledger, read
from tests.ledger.timings import figures, pauses_move_nothing, quick_failovers, quick_handoffs, void

CALM_S = 3.0
BUSY_MS = 100.0
"""A thread that wakes up this late says that the machine had no time for anybody."""

_NOW = SystemClock().boot_ns


@attrs.frozen
class Result:
    """What a run came to. ``void``: why it proves too little."""

    checks: tuple[Check, ...]
    void: tuple[str, ...]
    figures: Mapping[str, object]

    @property
    def ok(self) -> bool:
        """Everything holds, and it was a real test."""
        return not self.void and all(check.ok for check in self.checks)


class Lateness:
    """A thread that sleeps and wakes, and notes how late it was: what it sees, everybody here suffers."""

    def __init__(self) -> None:
        self._worst = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lateness")
        self._thread.start()

    def take(self) -> float:
        """The worst in milliseconds since the last time."""
        worst, self._worst = self._worst, 0.0
        return worst

    def close(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            before = time.monotonic()
            time.sleep(0.01)
            self._worst = max(self._worst, (time.monotonic() - before) * 1000 - 10)


class Storm:
    """Lets nemeses loose, several at a time, each of them often enough."""

    def __init__(self, stage: Stage, nemeses: Mapping[str, Nemesis], say: Callable[[str], None]) -> None:
        self._stage, self._nemeses, self._say = stage, nemeses, say
        self._bag: list[str] = []
        self._active: list[tuple[float, int, Iterator[float], Wound]] = []
        self._order = itertools.count()
        self.fired: Counter[str] = Counter()

    def rage(self) -> None:
        """For the plan's time, and as long again if some nemesis has not come often enough by then."""
        began = time.monotonic()
        pause = self._stage.plan.seconds / max(1, len(self._nemeses) * self._stage.plan.rounds) / 1.3
        following = began
        try:
            while (now := time.monotonic()) < began + self._stage.plan.seconds * (1 if self._enough() else 2):
                self._advance(now)
                if now >= following and len(self._active) < self._stage.plan.at_once:
                    self._begin()
                    following = now + self._stage.chance.expovariate(1 / pause)
                self._stage.pause(0.01)
            while self._active:
                self._advance(time.monotonic())
                self._stage.pause(0.01)
        finally:
            for _, _, nemesis, _ in self._active:
                nemesis.close()  # type: ignore[attr-defined]

    def _enough(self) -> bool:
        return all(self.fired[name] >= self._stage.plan.rounds for name in self._nemeses)

    def _begin(self) -> None:
        for _ in range(len(self._nemeses)):
            if not self._bag:
                self._bag = sorted(self._nemeses)
                self._stage.chance.shuffle(self._bag)
            wound = Wound(self._bag.pop(), _NOW())
            nemesis = self._nemeses[wound.name](self._stage, wound)
            try:
                lasts = next(nemesis)
            except NotNow:
                self._bag.insert(0, wound.name)
                continue
            except StopIteration:
                lasts = 0.0
            self._say(f"{wound.name} {' '.join(wound.who)} {lasts:.2f} s")
            self._push(lasts, nemesis, wound)
            return

    def _advance(self, now: float) -> None:
        while self._active and self._active[0][0] <= now:
            _, _, nemesis, wound = heapq.heappop(self._active)
            lasts = next(nemesis, None)
            if lasts is None:
                self.fired[wound.name] += 1
                self._stage.story.note("fault", **attrs.asdict(wound))
            else:
                self._push(lasts, nemesis, wound)

    def _push(self, lasts: float, nemesis: Iterator[float], wound: Wound) -> None:
        heapq.heappush(self._active, (time.monotonic() + lasts, next(self._order), nemesis, wound))


class Run:
    """The phases of a run over its stage."""

    def __init__(self, stage: Stage, say: Callable[[str], None]) -> None:
        self._stage, self._plan, self._say = stage, stage.plan, say
        self._lateness = Lateness()
        self._complaints = 0
        everything = nemeses_of(self._plan.setting)
        chosen = self._plan.nemeses or tuple(everything)
        unknown = sorted({*chosen} - {*everything})
        if unknown:
            raise ChaosFailed(f"{', '.join(unknown)}: {self._plan.setting} has only {', '.join(everything)}")
        self._nemeses = {name: everything[name] for name in chosen}

    def play(self) -> Result:
        """All of it."""
        try:
            self._phase("start")
            self._stage.populate()
            self._stage.until(self._stage.stable, "everybody to have a share")
            self._stage.pause(1.0)
            self._phase("calm")
            self._stage.pause(CALM_S)
            self._phase("chaos")
            Storm(self._stage, self._nemeses, self._say).rage()
            self._phase("healing")
            self._scale(self._plan.members)
            self._phase("probes")
            for _ in range(self._plan.probes):
                self._freeze_coordinators()
                self._crash_a_consumer()
                self._dismiss_a_consumer()
            self._phase("end")
            self._finish()
        finally:
            self._lateness.close()
        return judge(self._ledger(), self._plan, tuple(self._nemeses))

    def _phase(self, name: str) -> None:
        self._say(f"-- {name}")
        self._stage.story.note("phase", name=name)

    def _freeze_coordinators(self) -> None:
        began = _NOW()
        seconds = self._stage.chance.uniform(0.3, 0.6) * LEAST_LEASE_S
        for one in self._stage.of(COORDINATOR):
            one.signal(signal.SIGSTOP)
        self._stage.pause(seconds)
        for one in self._stage.of(COORDINATOR):
            one.signal(signal.SIGCONT)
        self._stage.pause(1.0)
        self._stage.story.note("fault", **attrs.asdict(Wound("coordinators-frozen", began)))

    def _crash_a_consumer(self) -> None:
        victim = self._stage.idle(CONSUMER)
        owned = [shard for shard, owner in self._stage.owners().items() if owner == victim.name]
        self._begin_to_measure()
        at, life = _NOW(), victim.life
        self._stage.kill(victim)
        self._stage.until(lambda: victim.name not in self._stage.owners().values(), "the dead one's shards to go on")
        self._stage.pause(1.0)
        self._measured("crash", at, life, owned)
        self._stage.start(victim)
        self._stage.until(self._stage.stable, "everybody to have a share after a crash")

    def _dismiss_a_consumer(self) -> None:
        victim = self._stage.idle(CONSUMER)
        owned = [shard for shard, owner in self._stage.owners().items() if owner == victim.name]
        self._begin_to_measure()
        at, life = _NOW(), victim.life
        self._stage.dismiss(victim)
        self._stage.until(lambda: self._stage.ended(victim), f"{victim.name} to end")
        self._stage.until(self._stage.stable, "the others to take over")
        self._measured("leave", at, life, owned)
        self._stage.start(victim)
        self._stage.until(self._stage.stable, "everybody to have a share after a restart")

    def _begin_to_measure(self) -> None:
        self._lateness.take()
        self._complaints = self._stage.complaints()

    def _measured(self, kind: str, at: int, life: str, shards: list[int]) -> None:
        late, complaints = self._lateness.take(), self._stage.complaints() - self._complaints
        blurred = late > BUSY_MS or complaints > 0
        self._say(f"{kind} of {life}: shards {shards}, up to {late:.0f} ms late, {complaints} complaints")
        self._stage.story.note(kind, at=at, who=life, shards=shards, late_ms=late, blurred=blurred)

    def _scale(self, shards: int) -> None:
        stage = self._stage

        def scaled() -> bool:
            if stage.stable(shards):
                return True
            if stage.scaling() is None:
                stage.request("POST", f"streams/{STREAM}/scale", {"targetShardCount": shards, **BY})
            return False

        stage.until(scaled, f"{shards} shards to be shared evenly")

    def _finish(self) -> None:
        stage = self._stage
        for producer in stage.of(PRODUCER):
            self._end(producer.name)
        self._scale(LAST_SHARDS)
        stage.until(stage.nothing_waits, "everything to be handled")
        stage.pause(0.5)
        for consumer in stage.of(CONSUMER):
            self._end(consumer.name)
        self._take_stock()
        for coordinator in stage.of(COORDINATOR):
            self._end(coordinator.name)

    def _end(self, name: str) -> None:
        actor = self._stage.actors[name]
        self._stage.dismiss(actor)
        self._stage.until(lambda: self._stage.ended(actor), f"{name} to end")

    def _take_stock(self) -> None:
        stage = self._stage
        for shard in range(MOST_SHARDS):
            key = f"{STREAM}:{shard}"
            exists, pending, lag = stage.waiting(shard)
            fence = stage.ground.ask(f"{{{key}}}:fence", "HMGET", f"{{{key}}}:fence", "sealed", "t:billing")
            ids = [row[0].decode() for row in stage.ground.ask(key, "XRANGE", key, "-", "+")]
            facts = {"exists": exists, "sealed": fence[0] == b"1", "mark": int(fence[1] or 0)}
            if exists or fence[1]:
                stage.story.note("remains", shard=shard, **facts, ids=ids, pending=pending, lag=lag)

    def _ledger(self) -> Ledger:
        return read({path.stem: path.read_text() for path in sorted(self._stage.folder.glob("*.jsonl"))})


def judge(ledger: Ledger, plan: Plan, nemeses: tuple[str, ...]) -> Result:
    """What a ledger proves of a run."""
    checks = (
        nothing_lost(ledger),
        nothing_invented(ledger),
        duplicates(BATCH)(ledger),
        in_order(ledger),
        one_token(ledger),
        no_old_ack(ledger),
        one_reader(ledger),
        nobody_stranded(LAST_SHARDS)(ledger),
        stopped_well(ledger),
        pauses_move_nothing(ledger),
        quick_failovers(ledger, BOUNDS),
        quick_handoffs(ledger, BOUNDS),
    )
    return Result(checks, tuple(void(ledger, nemeses, plan.rounds, LEAST_RATE, timed=plan.timed)), figures(ledger))


def play(plan: Plan, folder: Path, say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)) -> Result:
    """A whole run on servers of its own; everything it started has ended when this returns."""
    with ground(plan.setting, folder) as servers:
        stage = Stage(plan, folder, servers)
        try:
            return Run(stage, say).play()
        finally:
            stage.end()
