"""A whole cluster in one thread and on one made-up time: real coordinators, sessions, leases, and shards in memory.

Nothing is made up but the wires, the clocks and the threads. After whatever is let happen, `check` judges
what the consumers may do, what Redis let through and what was committed.
"""

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.admin import Author, CreateGroup, CreateStream, DeleteGroup, GroupSpec, Rollback, Scale
from streamshard.core.commands import Heartbeat
from streamshard.core.coordinator import Coordinator
from streamshard.core.group import GroupRecord, GroupTombstone
from streamshard.core.ids import GroupKey, GroupName, Instant, MemberId, Millis, ReshardingId, StreamPrefix
from streamshard.core.records import AckReply
from streamshard.core.replies import HeartbeatReply
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.stream import Retention, StreamRecord
from streamshard.core.timing import Timing
from streamshard.errors import StreamshardError, StreamUnavailable
from streamshard.testing.checkers import Books, Ledger, Marks, one_reader_per_shard
from streamshard.testing.clock import SeededEntropy
from streamshard.testing.coordinating import RATES, CoordinatorProcess, RatedClock
from streamshard.testing.network import Fate, Letter, Network, Reply
from streamshard.testing.processes import Command, Consumer, ProducerProcess, Run
from streamshard.testing.stepping import SLEEPING, Errand, SteppedBackend, SteppedStore, at_once

T = TypeVar("T")

KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
OPERATOR = Author("operator", "because")
SHORT = Timing(
    lease_ms=Millis(3_000),
    heartbeat_ms=Millis(500),
    tick_ms=Millis(200),
    rebalance_timeout_ms=Millis(4_000),
    routing_lease_ms=Millis(3_000),
)
TRIM_EVERY_MS = Millis(600)
QUANTUM_MS = 100
PUBLISH_MS = 200
TURNS = 4
"""How many steps the thread of a run takes in a quantum."""


class Cluster:
    """Coordinators over one store and one Redis, consumers, a producer, and the network between them."""

    def __init__(
        self, shards: int = 3, coordinators: int = 2, timing: Timing = SHORT, retention: Retention = Retention.NONE
    ) -> None:
        self.now = 0
        self.timing = timing
        self.shelf = MemoryStore()
        self.world = MemoryStreams()
        self.log = MemoryShardLog(self.world)
        self.network = Network()
        self.books, self.marks, self.ledger = Books(), Marks(), Ledger()
        self.consumers: list[Consumer] = []
        self.strays: list[Command] = []
        """Orders of processes that are gone, still on their way to Redis."""
        self.slow: set[MemberId] = set()
        """Members whose orders to Redis don't arrive until somebody lets them go."""
        self.cut: set[MemberId] = set()
        """Members whose heartbeats reach nobody."""
        self.producing = False
        self.hold_after = 3
        """How many steps a coordinator takes of an answer whose fate is to be held."""
        self.commits = 0
        """Changes of records that the store could still lose."""
        self._clocks: list[RatedClock] = []
        self._names = 0
        self._published_at = 0
        self._redis_away = False
        self.producer = ProducerProcess(KEY, self.clock(0, 1000), Millis(1_000))
        self.coordinators = [self._coordinator(f"c{n}", timing) for n in range(coordinators)]
        create = CreateStream(KEY.prefix, OPERATOR, shards, (GroupSpec(KEY.group),), retention=retention)
        made = self.finish(Errand(self.coordinators[0].coordinator.create_stream(create)))
        assert made.error is None, made.at
        self.commits = 0

    # what there is

    def clock(self, boot: int, per_mille: int) -> RatedClock:
        """A new clock that time passes on."""
        self._clocks.append(RatedClock(boot, per_mille))
        return self._clocks[-1]

    def fresh(self) -> int:
        """A number that was not used before, for names."""
        self._names += 1
        return self._names

    def _coordinator(self, name: str, timing: Timing, clock: RatedClock | None = None) -> CoordinatorProcess:
        number = self.fresh()
        clock = clock or self.clock(number * 70_000, RATES[number % 3])
        store = self.shelf.connect()
        coordinator = Coordinator(
            SteppedStore(store, self._watch),
            SteppedBackend(MemoryStreamBackend(self.world), self._watch, self.ledger.begin_anew),
            clock,
            SeededEntropy(f"{name}-{number}"),
            CoordinatorSettings(name, timing, trim_every_ms=TRIM_EVERY_MS),
        )
        return CoordinatorProcess(name, clock, store, coordinator)

    def join(self, name: str, per_mille: int | None = None) -> Consumer:
        """Start a consumer's process."""
        number = self.fresh()
        clock = self.clock(1_000_000 - number * 30_000, per_mille or RATES[number % 3])
        consumer = Consumer(MemberId(name), KEY, clock, SeededEntropy(f"{name}-{number}"))
        consumer.beat_at = clock.boot()
        self.consumers.append(consumer)
        return consumer

    @property
    def alive(self) -> list[Consumer]:
        """The consumers whose process is there, stopped or not."""
        return [consumer for consumer in self.consumers if not consumer.ended]

    @property
    def awake(self) -> list[CoordinatorProcess]:
        """The coordinators that do something."""
        return [process for process in self.coordinators if not process.asleep]

    @property
    def stream(self) -> StreamRecord:
        """The stream's record as stored."""
        record = at_once(self.shelf.load_stream(KEY.prefix)).record
        assert isinstance(record, StreamRecord), "the stream is never deleted"
        return record

    @property
    def stored(self) -> GroupRecord | GroupTombstone | None:
        """The group's record as stored, or its tombstone."""
        return at_once(self.shelf.load_group(KEY)).record

    @property
    def group(self) -> GroupRecord:
        """The group's record as stored."""
        record = self.stored
        assert isinstance(record, GroupRecord), "the group is deleted"
        return record

    # judging

    def _watch(self) -> None:
        """Something may have been committed, or changed in Redis, in this very moment."""
        record = self.stored
        before = self.books.last.get(KEY)
        self.commits += before is None or record is None or before.version != record.version
        self.books.look(KEY, record, self.consumers)
        self.ledger.look(self.world)

    def check(self) -> None:
        """Judge this instant; raises `Violation`."""
        one_reader_per_shard(self.consumers)
        self.marks.told(self.consumers)
        self.ledger.look(self.world)

    # time and work

    def pass_time(self, duration: int) -> None:
        """Let so much real time pass, in which nobody does anything."""
        self.now += duration
        for clock in self._clocks:
            clock.pass_real(duration)
        self.check()

    def run(self, duration: int, weather: Iterable[Fate] = ()) -> None:
        """Let everybody who is awake do what they always do; ``weather`` is the fate of the next heartbeats."""
        self.network.weather.extend(weather)
        until = self.now + duration
        while self.now < until:
            self.pass_time(min(QUANTUM_MS, until - self.now))
            self.turn()

    def turn(self) -> None:
        """One turn for everybody, without time."""
        for process in self.awake:
            self._tick_if_due(process)
        self.network.arrive()
        for consumer in self.alive:
            if not consumer.asleep:
                self._live(consumer)
        if self.producing and self.now - self._published_at >= PUBLISH_MS:
            self._published_at = self.now
            self.publish(self.fresh())
        self.check()

    def finish(self, errand: Errand[T]) -> Errand[T]:
        """Let an errand go on to its end, and time pass while it sleeps."""
        while not errand.done:
            errand.step()
            if errand.at == SLEEPING:
                self.pass_time(10)
        return errand

    def advance(self, errand: Errand[Any], steps: int) -> None:
        """Let an errand take so many steps."""
        for _ in range(steps):
            if not errand.done:
                errand.step()

    def _tick_if_due(self, process: CoordinatorProcess) -> None:
        if process.ticking is None and process.clock.boot() >= process.tick_at:
            self.tick(process)

    def tick(self, process: CoordinatorProcess, steps: int | None = None) -> None:
        """A tick, or only so many steps of one."""
        process.tick_at = Instant(process.clock.boot() + process.coordinator.settings.timing.tick_ms)
        errand = process.ticking or Errand(process.coordinator.tick())
        if steps is None:
            self.finish(errand)
        else:
            self.advance(errand, steps)
        process.ticking = None if errand.done else errand

    def _live(self, consumer: Consumer) -> None:
        beat = consumer.beat()
        if beat is not None:
            self.send(consumer, beat)
        self.read(consumer)

    def read(self, consumer: Consumer) -> None:
        """A few steps of each thread that reads."""
        for run in list(consumer.runs.values()):
            for _ in range(TURNS):
                if not self.step_run(consumer, run):
                    break

    def step_run(self, consumer: Consumer, run: Run) -> bool:
        """One step of one thread that reads; False if it waits for something."""
        if not consumer.think(run):
            return False
        if run.handed:
            self.ledger.hand(consumer, run, run.handed.pop())
        if run.command is not None and consumer.name not in self.slow:
            self.arrive(consumer, run.command)
        return True

    def arrive(self, consumer: Consumer | None, command: Command) -> None:
        """An order reaches Redis; nobody hears the answer if its process is gone."""
        try:
            reply = command.carry_out(self.log)
        except StreamUnavailable:
            if consumer is not None:
                consumer.unreachable(command)
            return
        self.marks.passed(command, reply.access)
        if not isinstance(reply, AckReply):
            command.run.group_life = self.ledger.group_lives.get(command.run.key, 0)
        if consumer is not None:
            consumer.heard(command, reply)

    # heartbeats

    def send(
        self,
        consumer: Consumer,
        beat: Heartbeat,
        fate: Fate | None = None,
        to: CoordinatorProcess | None = None,
    ) -> None:
        """A heartbeat sets out; the coordinators take turns unless one is named."""
        if consumer.name in self.cut:
            return
        letter = Letter(consumer, beat, fate or self.network.next_fate(consumer.name))
        if letter.fate in (Fate.DELAY_REQUEST, Fate.REPEAT):
            self.network.letters.append(letter)
        if letter.fate in (Fate.DELAY_REQUEST, Fate.LOSE_REQUEST):
            return
        choice = self.awake or self.coordinators
        to = to or choice[self.fresh() % len(choice)]
        if to.asleep:
            self.network.letters.append(letter)
        else:
            self.deliver(letter, to)

    def deliver(self, letter: Letter, to: CoordinatorProcess) -> None:
        """A heartbeat reaches a coordinator."""
        errand = Errand(to.coordinator.heartbeat(KEY, letter.beat))
        if letter.fate is Fate.HOLD:
            self.advance(errand, self.hold_after)
            if not errand.done:
                to.held.append((letter, errand))
                return
        self.answer(letter, errand)

    def answer(self, letter: Letter, errand: Errand[HeartbeatReply]) -> None:
        """A coordinator ends an answer, and it sets out."""
        assert letter.beat.instance is not None, "consumers have an instance"
        reply = Reply(letter.sender, letter.beat.instance, self.finish(errand).result)
        reply.late = letter.fate is Fate.DELAY_REPLY
        if reply.late or letter.sender.asleep:
            self.network.replies.append(reply)
        elif letter.fate is not Fate.LOSE_REPLY:
            reply.arrive()

    def go_on(self, process: CoordinatorProcess, number: int) -> None:
        """Let a coordinator end one of its answers that stand in the middle."""
        letter, errand = process.held.pop(number)
        self.answer(letter, errand)

    # what befalls processes

    def kill(self, consumer: Consumer) -> None:
        """Kill a consumer; what it has sent is still on its way."""
        self.strays += [run.command for run in consumer.runs.values() if run.command is not None]
        consumer.killed = True

    def restart(self, process: CoordinatorProcess, timing: Timing | None = None) -> CoordinatorProcess:
        """Kill a coordinator and start it again, with an empty memory."""
        process.end()
        place = self.coordinators.index(process)
        fresh = self._coordinator(process.name, timing or process.coordinator.settings.timing, process.clock)
        self.coordinators[place] = fresh
        return fresh

    def lose_writes(self, commits: int) -> int:
        """Let the store forget its last commits, silently; never the creation of the group."""
        lost = self.shelf.lose_suffix(min(commits, self.commits))
        self.commits -= lost
        self.books.lost_writes(KEY, self.stored)
        self.ledger.lost_writes()
        return lost

    def destroy_group(self, key: str) -> None:
        """Destroy the group on one shard behind everybody's back."""
        self.world.lose_group(key, KEY.group)

    def toggle_redis(self) -> None:
        """Take Redis away, or bring it back with everything as it was."""
        self._redis_away = not self._redis_away
        if self._redis_away:
            self.world.go_down()
        else:
            self.world.come_back()

    # operators and producers

    def operate(self, process: CoordinatorProcess, call: Coroutine[Any, Any, Any], steps: int | None = None) -> bool:
        """Carry out an operator's command, or only so many steps of it; False if it was refused."""
        errand = Errand(call)
        if steps is None:
            return self.finish(errand).error is None
        self.advance(errand, steps)
        if not errand.done:
            process.errands.append(errand)
        return errand.error is None

    def scale(self, target: int, by: int = 0, steps: int | None = None) -> bool:
        """Ask for another number of shards."""
        process = self.coordinators[by]
        command = Scale(KEY.prefix, OPERATOR, target, ReshardingId(f"r{self.fresh()}"))
        return self.operate(process, process.coordinator.scale(command), steps)

    def roll_back(self, by: int = 0, steps: int | None = None) -> bool:
        """Take the active resharding back."""
        process, active = self.coordinators[by], self.stream.resharding
        command = Rollback(KEY.prefix, OPERATOR, active.id if active is not None else ReshardingId("none"))
        return self.operate(process, process.coordinator.rollback(command), steps)

    def delete_group(self, by: int = 0, steps: int | None = None) -> bool:
        """Delete the group, whoever is in it."""
        process = self.coordinators[by]
        return self.operate(process, process.coordinator.delete_group(DeleteGroup(KEY, OPERATOR, force=True)), steps)

    def create_group(self, by: int = 0, steps: int | None = None) -> bool:
        """Create the group again."""
        process = self.coordinators[by]
        command = CreateGroup(KEY, OPERATOR, GroupSpec(KEY.group))
        return self.operate(process, process.coordinator.create_group(command), steps)

    def publish(self, name: int) -> None:
        """Route a record and write it."""
        self.route(name)
        self.append()

    def route(self, name: int) -> None:
        """Look up where a record goes, after a refresh if one is due."""
        if self.producer.refresh_due and self.awake:
            process, sent_at = self.awake[name % len(self.awake)], self.producer.clock.boot()
            errand = self.finish(Errand(process.coordinator.routing(KEY)))
            if not isinstance(errand.error, StreamshardError):
                self.producer.adopt(errand.result, sent_at)
        self.producer.route(f"key-{name}")

    def append(self) -> None:
        """Write the record that has waited longest."""
        try:
            written = self.producer.append(self.log)
        except StreamshardError:
            return
        if written is not None:
            self.ledger.accept(*written)
