"""What may befall a cluster, as rules."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TypeVar

import attrs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from streamshard.adapters.stores.memory import Fault
from streamshard.core.stream import Retention
from streamshard.testing.cluster import Cluster
from streamshard.testing.network import Fate
from streamshard.testing.recovery import settle

T = TypeVar("T")

EXAMPLES = os.environ.get("STREAMSHARD_EXAMPLES")
STEPS = int(os.environ.get("STREAMSHARD_STEPS", "25"))

number = st.integers(0, 11)
durations = st.sampled_from([50, 100, 250, 500, 1_000, 3_100])
fates = st.sampled_from(list(Fate))
weather = st.lists(fates, max_size=8)
names = st.sampled_from(["a", "b", "c"])
steps = st.integers(1, 14)


def hunting(examples: int) -> settings:
    """The same examples at every run, or with STREAMSHARD_EXAMPLES so many new ones."""
    return settings(
        max_examples=int(EXAMPLES) if EXAMPLES else examples,
        derandomize=EXAMPLES is None,
        database=None,
        report_multiple_bugs=False,
        stateful_step_count=STEPS,
        deadline=None,
        print_blob=EXAMPLES is not None,
        suppress_health_check=list(HealthCheck),
    )


def one_of(things: Sequence[T], which: int) -> T:
    return things[which % len(things)]


class Hazards(RuleBasedStateMachine):
    """What befalls every cluster: time, and a network that loses, repeats, delays and reorders."""

    at_most_lost: int | None = None
    retention = Retention.NONE

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.sound = True

    @initialize(shards=st.integers(1, 4), members=st.integers(1, 3))
    def begin(self, shards: int, members: int) -> None:
        self.cluster = Cluster(shards, retention=self.retention)
        self.cluster.network.at_most_lost = self.at_most_lost
        with self.judged():
            for name in "abc"[:members]:
                self.cluster.join(name)
            self.cluster.producing = True
            self.cluster.run(2_000)
            self.begun()

    def begun(self) -> None:
        """Remember how all began."""

    @contextlib.contextmanager
    def judged(self) -> Iterator[Cluster]:
        self.sound = False
        yield self.cluster
        self.cluster.check()
        self.sound = True

    def teardown(self) -> None:
        if self.sound:
            settle(self.cluster)
            self.ended()

    def ended(self) -> None:
        """Judge how all ended."""

    @rule(by=durations, weather=weather)
    def all_go_on(self, by: int, weather: list[Fate]) -> None:
        with self.judged() as cluster:
            cluster.run(by, weather)

    @rule(by=st.sampled_from([1_000, 2_000]), weather=weather)
    def all_go_on_in_bad_weather(self, by: int, weather: list[Fate]) -> None:
        with self.judged() as cluster:
            cluster.run(by, weather)

    @rule(by=st.sampled_from([3_100, 4_500, 6_500]))
    def all_go_on_for_long(self, by: int) -> None:
        with self.judged() as cluster:
            cluster.run(by)

    @precondition(lambda self: self.cluster.network.letters)
    @rule(which=number, to=number)
    def a_late_or_repeated_heartbeat_arrives(self, which: int, to: int) -> None:
        with self.judged() as cluster:
            letter = one_of(cluster.network.letters, which)
            if letter.fate is not Fate.REPEAT:
                cluster.network.letters.remove(letter)
            if cluster.awake:
                cluster.deliver(attrs.evolve(letter, fate=Fate.GOOD), one_of(cluster.awake, to))

    @precondition(lambda self: self.cluster.network.replies)
    @rule(which=number)
    def a_late_answer_arrives(self, which: int) -> None:
        with self.judged() as cluster:
            reply = one_of(cluster.network.replies, which)
            if not reply.to.asleep:
                cluster.network.replies.remove(reply)
                reply.arrive()


class CoordinatorHazards(Hazards):
    """What befalls coordinators that share a store."""

    @rule(which=number)
    def a_coordinator_is_killed_and_restarted(self, which: int) -> None:
        with self.judged() as cluster:
            cluster.restart(one_of(cluster.coordinators, which))

    @rule(by=st.sampled_from([300, 1_000, 3_100, 6_500]))
    def all_coordinators_stop_for_a_while(self, by: int) -> None:
        with self.judged() as cluster:
            stopped = cluster.awake
            for process in stopped:
                process.asleep = True
            cluster.run(by)
            for process in stopped:
                process.asleep = False

    @rule(which=number, fault=st.sampled_from(list(Fault)))
    def the_store_fails_a_coordinator(self, which: int, fault: Fault) -> None:
        with self.judged() as cluster:
            one_of(cluster.coordinators, which).store.fail_next(fault)
            cluster.run(250)

    @rule(which=number)
    def the_store_is_reached_over_a_new_connection(self, which: int) -> None:
        with self.judged() as cluster:
            one_of(cluster.coordinators, which).store.reconnect()

    @rule()
    def the_store_forgets_the_renewals(self) -> None:
        with self.judged() as cluster:
            cluster.shelf.lose_rows()

    @rule(which=number, by=steps)
    def a_tick_stands_in_the_middle(self, which: int, by: int) -> None:
        with self.judged() as cluster:
            process = one_of(cluster.coordinators, which)
            if not process.asleep:
                cluster.tick(process, by)

    @rule(which=number)
    def a_tick_goes_on(self, which: int) -> None:
        with self.judged() as cluster:
            process = one_of(cluster.coordinators, which)
            if process.ticking is not None and not process.asleep:
                cluster.tick(process)

    @rule(by=st.integers(1, 12))
    def answers_will_stand_elsewhere(self, by: int) -> None:
        self.cluster.hold_after = by

    @precondition(lambda self: any(process.held for process in self.cluster.awake))
    @rule(which=number)
    def an_answer_goes_on(self, which: int) -> None:
        with self.judged() as cluster:
            process = one_of([process for process in cluster.awake if process.held], which)
            cluster.go_on(process, which % len(process.held))


class ConsumerHazards(Hazards):
    """What befalls consumers: they come and go, stop anywhere, and their handlers take their time."""

    @rule(name=names)
    def a_consumer_starts(self, name: str) -> None:
        with self.judged() as cluster:
            if len(cluster.alive) < 5:
                cluster.join(name)

    @precondition(lambda self: self.cluster.alive)
    @rule(which=number)
    def a_consumer_is_killed(self, which: int) -> None:
        with self.judged() as cluster:
            cluster.kill(one_of(cluster.alive, which))

    @precondition(lambda self: self.cluster.alive)
    @rule(which=number)
    def a_consumer_is_restarted(self, which: int) -> None:
        with self.judged() as cluster:
            gone = one_of(cluster.alive, which)
            cluster.kill(gone)
            cluster.join(gone.name)

    @precondition(lambda self: self.cluster.alive)
    @rule(which=number)
    def a_consumer_leaves(self, which: int) -> None:
        with self.judged() as cluster:
            consumer = one_of(cluster.alive, which)
            if not consumer.asleep:
                consumer.stop()

    @precondition(lambda self: self.cluster.alive)
    @rule(which=number)
    def a_consumer_falls_asleep_or_wakes(self, which: int) -> None:
        with self.judged() as cluster:
            consumer = one_of(cluster.alive, which)
            consumer.asleep = not consumer.asleep

    @precondition(lambda self: self.cluster.alive)
    @rule(which=number, fate=fates, to=number)
    def a_consumer_beats_out_of_turn(self, which: int, fate: Fate, to: int) -> None:
        with self.judged() as cluster:
            consumer = one_of(cluster.alive, which)
            if not consumer.asleep and consumer.session.beats:
                cluster.send(consumer, consumer.beat_now(), fate, one_of(cluster.coordinators, to))

    @precondition(lambda self: self.cluster.alive)
    @rule(which=number, stuck=st.booleans(), fails=st.integers(0, 2))
    def handlers_get_stuck_or_fail(self, *, which: int, stuck: bool, fails: int) -> None:
        with self.judged() as cluster:
            consumer = one_of(cluster.alive, which)
            consumer.stuck, consumer.fails_next = stuck, fails

    @precondition(lambda self: self.cluster.alive)
    @rule(which=number)
    def orders_to_redis_get_slow_or_arrive(self, which: int) -> None:
        with self.judged() as cluster:
            consumer = one_of(cluster.alive, which)
            cluster.slow ^= {consumer.name}
            for run in list(consumer.runs.values()):
                if run.command is not None:
                    cluster.arrive(consumer, run.command)

    @precondition(lambda self: self.cluster.strays)
    @rule(which=number)
    def an_order_of_a_dead_process_arrives(self, which: int) -> None:
        with self.judged() as cluster:
            command = one_of(cluster.strays, which)
            cluster.strays.remove(command)
            cluster.arrive(None, command)

    @rule(by=durations)
    def only_time_passes(self, by: int) -> None:
        with self.judged() as cluster:
            cluster.pass_time(by)

    @precondition(lambda self: self.cluster.alive)
    @rule(which=number, by=st.sampled_from([2_600, 3_100, 4_500]))
    def a_consumer_is_cut_off(self, which: int, by: int) -> None:
        with self.judged() as cluster:
            cut = {one_of(cluster.alive, which).name}
            cluster.cut, before = cut, cluster.cut
            cluster.run(by)
            cluster.cut = before

    @precondition(lambda self: self.cluster.alive)
    @rule(which=number, by=st.sampled_from([2_600, 3_100, 4_500]))
    def a_consumer_gets_a_slow_answer_and_stops(self, which: int, by: int) -> None:
        with self.judged() as cluster:
            consumer = one_of(cluster.alive, which)
            if not consumer.asleep and consumer.session.beats:
                cluster.send(consumer, consumer.beat_now(), Fate.DELAY_REPLY)
                cluster.run(800)
                for reply in [reply for reply in cluster.network.replies if reply.to is consumer]:
                    reply.arrive()
                consumer.asleep = True
            cluster.run(by)

    @precondition(lambda self: self.cluster.alive)
    @rule(which=number, name=names)
    def a_handler_outlives_a_rebalance(self, which: int, name: str) -> None:
        with self.judged() as cluster:
            one_of(cluster.alive, which).stuck = True
            cluster.run(500)
            if len(cluster.alive) < 5:
                cluster.join(name)
            cluster.run(9_000)

    @precondition(lambda self: self.cluster.alive)
    @rule(which=number, wait=st.sampled_from([500, 4_500]))
    def a_consumer_dies_with_orders_on_their_way(self, which: int, wait: int) -> None:
        with self.judged() as cluster:
            consumer = one_of(cluster.alive, which)
            cluster.slow.add(consumer.name)
            cluster.run(500)
            cluster.kill(consumer)
            cluster.join(consumer.name)
            cluster.run(wait)
            while cluster.strays:
                cluster.arrive(None, cluster.strays.pop())

    @rule()
    def producers_start_or_stop(self) -> None:
        self.cluster.producing = not self.cluster.producing
