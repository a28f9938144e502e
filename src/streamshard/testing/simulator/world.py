"""The cluster, with everything more that may befall it, its judges, and the history of a run."""

import hashlib
from collections import Counter

import attrs

from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import Fence, Stream
from streamshard.core.admin import Rollback, Scale
from streamshard.core.commands import Heartbeat
from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import Epoch, GroupName, InstanceId, MemberId, ReshardingId, Seq, ShardIndex, Version
from streamshard.core.replies import HeartbeatReply
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.stream import Retention
from streamshard.core.timing import Timing
from streamshard.errors import Conflict, InvalidRequest, NotAllowed, NotFound, StreamshardError
from streamshard.testing.checkers import Violation, one_reader_per_shard
from streamshard.testing.clock import SeededEntropy
from streamshard.testing.cluster import KEY, OPERATOR, TRIM_EVERY_MS, Cluster
from streamshard.testing.coordinating import RATES, CoordinatorProcess, RatedClock
from streamshard.testing.network import Fate, Letter
from streamshard.testing.processes import Command, Consumer, Run
from streamshard.testing.simulator.accounts import Accounts, LenientBooks, MarksOfLives, PatientBooks, StreamBooks
from streamshard.testing.simulator.damage import DamagedStore, Damages, PatchyBackend, Reach, Reaches
from streamshard.testing.stepping import SLEEPING, Errand, SteppedBackend, SteppedStore, T

STRANGER = GroupName("stranger")
REFUSED = (Conflict, NotAllowed, NotFound, InvalidRequest)
"""Errors that say that nothing was done; after any other one that is not known."""

FATES = {
    Fate.LOSE_REQUEST: "drop request",
    Fate.LOSE_REPLY: "drop response",
    Fate.REPEAT: "duplicate request",
    Fate.DELAY_REQUEST: "delay",
    Fate.DELAY_REPLY: "delay",
    Fate.HOLD: "coordinator stop at a call",
}


@attrs.define
class Mallory:
    """Somebody who was let in under a name of his own, and means harm."""

    name: MemberId
    instance: InstanceId
    epoch: Epoch = Epoch(0)
    seq: Seq = Seq(0)


class World(Cluster):
    """A cluster that remembers what has happened to it. ``illegal``: clocks may run 10 % apart."""

    def __init__(self, shards: int, coordinators: int, retention: Retention, illegal: int = 0) -> None:
        self.illegal = bool(illegal)
        self.history = hashlib.sha256()
        self.events = 0
        self.answers = 0
        self.faults: Counter[str] = Counter()
        self.overlaps = 0
        """How often two passed their own check of the lease, where clocks are that bad."""
        self.damages: Damages = {}
        self.reaches: Reaches = {}
        self.cuts: set[tuple[str, str, str]] = set()
        """Links that let nothing through: member, coordinator, and which way."""
        self.replicas: dict[str, tuple[Stream | None, Fence | None]] = {}
        """What a shard's replica knows, where that is not all."""
        self.mallories: list[Mallory] = []
        self.asked: list[tuple[ReshardingId, Errand[object]]] = []
        self.stream_books = StreamBooks()
        self.steady: tuple[dict[ShardIndex, MemberId], int] | None = None
        """Who every shard was meant for, and how many had moved by then, where no more may."""
        self._newest: dict[InstanceId, Seq] = {}
        self._version: Version | None = None
        super().__init__(shards, coordinators, retention=retention)
        self.ledger, self.marks = Accounts(), MarksOfLives(strict=not illegal)
        self.books = LenientBooks() if illegal else PatientBooks()
        self._watch()
        self.commits = 0

    # judges and history

    @property
    def accounts(self) -> Accounts:
        """The ledger, as what it is here."""
        assert isinstance(self.ledger, Accounts), "a world keeps accounts"
        return self.ledger

    @property
    def lives(self) -> MarksOfLives:
        """The judge of marks, as what it is here."""
        assert isinstance(self.marks, MarksOfLives), "a world's marks have lives"
        return self.marks

    def note(self, what: str) -> None:
        """Something happened: runs with the same history are the same run."""
        self.history.update(what.encode())

    def _watch(self) -> None:
        super()._watch()
        record = self.stored
        version = record.version if record is not None else None
        if version != self._version:
            self._version = version
            self.note(f"commit {version};")
        self.stream_books.look(self.stream)

    def check(self) -> None:
        """Judge this instant; raises `Violation`."""
        if not self.illegal:
            super().check()
            return
        try:
            one_reader_per_shard(self.consumers)
        except Violation:
            self.overlaps += 1
        self.marks.told(self.consumers)
        self.ledger.look(self.world)

    # processes

    def _coordinator(self, name: str, timing: Timing, clock: RatedClock | None = None) -> CoordinatorProcess:
        number = self.fresh()
        clock = clock or self.clock(number * 70_000, RATES[number % 3])
        store = self.shelf.connect()
        backend = PatchyBackend(MemoryStreamBackend(self.world), self.reaches)
        coordinator = Coordinator(
            SteppedStore(DamagedStore(store, self.damages), self._watch),
            SteppedBackend(backend, self._watch, lambda key: self.ledger.begin_anew(key)),
            clock,
            SeededEntropy(f"{name}-{number}"),
            CoordinatorSettings(name, timing, trim_every_ms=TRIM_EVERY_MS),
        )
        return CoordinatorProcess(name, clock, store, coordinator)

    def finish(self, errand: Errand[T]) -> Errand[T]:
        """Let an errand go on to its end, and time pass while it sleeps."""
        while not errand.done:
            errand.step()
            self.events += 1
            if errand.at == SLEEPING:
                self.pass_time(10)
        return errand

    def step_run(self, consumer: Consumer, run: Run) -> bool:
        """One step of one thread that reads."""
        self.events += 1
        return super().step_run(consumer, run)

    def arrive(self, consumer: Consumer | None, command: Command) -> None:
        """An order reaches Redis, unless its shard is away."""
        reach = self.reaches.get(command.run.access.shard)
        if reach is None:
            super().arrive(consumer, command)
        elif reach is Reach.MUTE:
            super().arrive(None, command)
        if reach is not None and consumer is not None:
            consumer.unreachable(command)
        run = command.run
        self.note(f"{command.verb} {run.key} {run.access.token} {run.position} {len(run.hand)};")

    def append(self) -> None:
        """Write the record that has waited longest."""
        routed = self.producer.routed
        away = [shard for shard, reach in self.reaches.items() if reach is Reach.AWAY]
        if routed and int(routed[0].rpartition(":")[2]) in away:
            routed.pop(0)
            return
        super().append()

    # heartbeats

    def send(
        self, consumer: Consumer, beat: Heartbeat, fate: Fate | None = None, to: CoordinatorProcess | None = None
    ) -> None:
        """A heartbeat sets out, perhaps over a link that is cut one way or the other."""
        self.events += 1
        choice = self.awake or self.coordinators
        to = to or choice[self.fresh() % len(choice)]
        fate = fate or self.network.next_fate(consumer.name)
        if (consumer.name, to.name, "there") in self.cuts:
            return
        if (consumer.name, to.name, "back") in self.cuts and fate in (Fate.GOOD, Fate.REPEAT):
            fate = Fate.LOSE_REPLY
        if fate in FATES:
            self.faults[FATES[fate]] += 1
        super().send(consumer, beat, fate, to)

    def deliver(self, letter: Letter, to: CoordinatorProcess) -> None:
        """A heartbeat reaches a coordinator."""
        beat = letter.beat
        if beat.instance is not None:
            newest = self._newest.get(beat.instance, Seq(0))
            if beat.seq < newest:
                self.faults["reorder"] += 1
            self._newest[beat.instance] = max(newest, beat.seq)
        super().deliver(letter, to)

    def answer(self, letter: Letter, errand: Errand[HeartbeatReply]) -> None:
        """A coordinator ends an answer, and it sets out; an error is none."""
        error = self.finish(errand).error
        if error is None:
            self.answers += 1
            reply = errand.result
            self.note(f"{reply.status.value} {reply.member} {reply.epoch} {reply.seq} {reply.view};")
            super().answer(letter, errand)
            return
        self.note(f"{type(error).__name__};")
        sender = letter.sender
        if letter.fate is not Fate.LOSE_REPLY and not sender.ended and sender.session.instance == letter.beat.instance:
            outstanding = sender.session.outstanding
            if outstanding is not None and outstanding.seq == letter.beat.seq:
                sender.unanswered()

    # operators

    def ask(self, resharding: ReshardingId, process: CoordinatorProcess, errand: Errand[object], steps: int) -> None:
        """Let an operator's errand go so many steps, or to its end for 0, and remember what it will be told."""
        self.asked.append((resharding, errand))
        if steps:
            self.advance(errand, steps)
        else:
            self.finish(errand)
        if not errand.done:
            process.errands.append(errand)
        self.hear_answers()

    def hear_answers(self) -> None:
        """Compare what operators were told with what is in the record."""
        for resharding, errand in [asked for asked in self.asked if asked[1].done]:
            self.asked.remove((resharding, errand))
            error: StreamshardError | None = errand.error
            known = errand.at != "killed" and (error is None or isinstance(error, REFUSED))
            self.stream_books.answered(resharding, accepted=error is None if known else None)

    def start_scaling(self, target: int, process: CoordinatorProcess, steps: int) -> None:
        """Ask for another number of shards."""
        name = ReshardingId(f"r{self.fresh()}")
        command = Scale(KEY.prefix, OPERATOR, target, name)
        self.ask(name, process, Errand(process.coordinator.scale(command)), steps)

    def start_rollback(self, process: CoordinatorProcess, steps: int) -> None:
        """Ask for the active resharding to be taken back."""
        active = self.stream.resharding
        command = Rollback(KEY.prefix, OPERATOR, active.id if active is not None else ReshardingId("none"))
        self.operate(process, process.coordinator.rollback(command), steps or None)

    def lose_writes(self, commits: int) -> int:
        """Let the store forget its last commits, silently."""
        lost = super().lose_writes(commits)
        self.stream_books.lost_writes(self.stream)
        return lost
