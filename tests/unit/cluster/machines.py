"""Machines: hazards put together, each with what must hold of it besides."""

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from streamshard.adapters.streams.memory_world import ZERO_ID
from streamshard.core.admin import AmendStream
from streamshard.core.ids import GroupName, Millis, ShardIndex, stream_key
from streamshard.core.stream import Retention, ShardPhase
from streamshard.testing.cluster import KEY, OPERATOR, SHORT
from streamshard.testing.coordinating import CoordinatorProcess
from streamshard.testing.network import Fate
from streamshard.testing.processes import NEVER
from streamshard.testing.recovery import settle
from tests.unit.cluster.hazards import (
    ConsumerHazards,
    CoordinatorHazards,
    Hazards,
    durations,
    number,
    one_of,
    steps,
    weather,
)


class Calm(CoordinatorHazards):
    """The same members throughout, each heard of now and then: whatever else happens, nothing moves."""

    at_most_lost = 1

    def begun(self) -> None:
        settle(self.cluster)
        self.cluster.producing = True
        self.moves = self.cluster.books.moves
        self.targets = dict(self.cluster.group.targets)

    @rule(by=st.sampled_from([1_000, 4_000]))
    def the_whole_machine_is_suspended(self, by: int) -> None:
        with self.judged() as cluster:
            cluster.pass_time(by)

    def ended(self) -> None:
        assert dict(self.cluster.group.targets) == self.targets, f"I9: {self.targets} to {self.cluster.group.targets}"
        assert self.cluster.books.moves == self.moves, f"I9: {self.cluster.books.moves - self.moves} shards moved"


class Churn(CoordinatorHazards, ConsumerHazards):
    """Members come and go, and everything that may happen to them and to the coordinators does."""

    @rule(which=number)
    def a_coordinator_falls_asleep_or_wakes(self, which: int) -> None:
        with self.judged() as cluster:
            process = one_of(cluster.coordinators, which)
            process.asleep = not process.asleep

    @rule(which=number, lease=st.sampled_from([2_400, 3_000, 4_000]))
    def a_coordinator_is_restarted_with_another_lease(self, which: int, lease: int) -> None:
        with self.judged() as cluster:
            timing = attrs.evolve(SHORT, lease_ms=Millis(lease), heartbeat_ms=Millis(400))
            cluster.timing = attrs.evolve(SHORT, lease_ms=Millis(4_000))
            cluster.restart(one_of(cluster.coordinators, which), timing)


class Resharding(CoordinatorHazards, ConsumerHazards):
    """The number of shards changes, is changed back, and is changed by coordinators that wake late."""

    @rule(count=st.integers(0, 5), by=number, wait=durations, weather=weather)
    def an_operator_scales(self, count: int, by: int, wait: int, weather: list[Fate]) -> None:
        with self.judged() as cluster:
            cluster.scale(count, by % 2)
            cluster.run(wait, weather)

    @rule(count=st.integers(0, 5), by=number, held=steps)
    def an_operator_scales_and_is_held(self, count: int, by: int, held: int) -> None:
        with self.judged() as cluster:
            cluster.scale(count, by % 2, held)

    @rule(by=number, wait=st.sampled_from([3_100, 6_500, 9_000]))
    def a_resharding_is_given_time(self, by: int, wait: int) -> None:
        with self.judged() as cluster:
            cluster.run(wait)

    @rule(by=number, held=st.none() | steps)
    def an_operator_rolls_back(self, by: int, held: int | None) -> None:
        with self.judged() as cluster:
            cluster.roll_back(by % 2, held)

    @precondition(lambda self: any(process.errands for process in self.cluster.coordinators))
    @rule(which=number, by=steps)
    def a_command_goes_on(self, which: int, by: int) -> None:
        with self.judged() as cluster:
            process: CoordinatorProcess = one_of([p for p in cluster.coordinators if p.errands], which)
            errand = one_of(process.errands, which)
            cluster.advance(errand, by)
            process.errands = [e for e in process.errands if not e.done]

    @rule(late=number)
    def a_producer_that_slept_writes(self, late: int) -> None:
        """Whatever was routed once may be written at any time, also long after the shard has gone."""
        with self.judged() as cluster:
            shards = [s.index for s in cluster.stream.shards.values() if s.phase is not ShardPhase.PREPARING]
            cluster.producer.routed.insert(0, stream_key(KEY.prefix, one_of(shards, late)))
            cluster.append()

    @rule(which=number)
    def a_producer_that_slept_writes_just_before_a_seal(self, which: int) -> None:
        with self.judged() as cluster:
            sealing, others = one_of(cluster.coordinators, which), cluster.awake
            for process in others:
                process.asleep = process is not sealing
            removed = ShardIndex(cluster.stream.routed_count - 1)
            if cluster.scale(removed) if removed > 0 and not sealing.asleep else False:
                self.write_before_the_seal(sealing, removed)
            for process in others:
                process.asleep = False

    def write_before_the_seal(self, sealing: CoordinatorProcess, removed: ShardIndex) -> None:
        for _ in range(25):
            sealing.tick_at = NEVER
            self.cluster.run(200)
            if sealing.errand_of_a_tick().go_to("> seal"):
                self.cluster.producer.routed.insert(0, stream_key(KEY.prefix, removed))
                self.cluster.append()
            self.cluster.tick(sealing)

    @rule(name=st.integers(0, 50))
    def a_producer_looks_a_shard_up(self, name: int) -> None:
        with self.judged() as cluster:
            cluster.route(name)

    @rule()
    def a_producer_writes_at_last(self) -> None:
        with self.judged() as cluster:
            cluster.append()

    @rule(which=number)
    def a_group_is_destroyed_in_redis(self, which: int) -> None:
        with self.judged() as cluster:
            keys = sorted(cluster.world.streams)
            if keys:
                cluster.destroy_group(one_of(keys, which))

    @rule()
    def redis_goes_away_or_comes_back(self) -> None:
        with self.judged() as cluster:
            cluster.toggle_redis()


class StoreLoss(CoordinatorHazards, ConsumerHazards):
    """The store forgets commits, and the group is deleted and created again."""

    @rule(commits=st.integers(1, 6), noticed=st.booleans())
    def the_store_loses_its_last_commits(self, *, commits: int, noticed: bool) -> None:
        with self.judged() as cluster:
            cluster.pass_time(10)
            cluster.lose_writes(commits)
            for process in cluster.coordinators if noticed else ():
                process.store.reconnect()

    @rule(by=number, held=st.none() | steps)
    def the_group_is_deleted(self, by: int, held: int | None) -> None:
        with self.judged() as cluster:
            cluster.delete_group(by % 2, held)

    @rule(by=number, held=st.none() | steps)
    def the_group_is_created_again(self, by: int, held: int | None) -> None:
        with self.judged() as cluster:
            cluster.create_group(by % 2, held)

    @precondition(lambda self: any(process.errands for process in self.cluster.coordinators))
    @rule(which=number, by=steps)
    def a_command_goes_on(self, which: int, by: int) -> None:
        with self.judged() as cluster:
            process = one_of([p for p in cluster.coordinators if p.errands], which)
            cluster.advance(one_of(process.errands, which), by)
            process.errands = [e for e in process.errands if not e.done]


STRANGER = GroupName("stranger")


class TrimHazards(Hazards):
    """What everybody acknowledged is trimmed, also beside groups that nobody registered."""

    retention = Retention.ACKNOWLEDGED

    @rule(by=number, kept=st.sampled_from(Retention), held=st.none() | steps)
    def an_operator_changes_what_is_kept(self, by: int, kept: Retention, held: int | None) -> None:
        with self.judged() as cluster:
            process = one_of(cluster.coordinators, by)
            command = AmendStream(KEY.prefix, OPERATOR, kept)
            cluster.operate(process, process.coordinator.amend_stream(command), held)

    @rule(which=number)
    def a_stranger_makes_a_group(self, which: int) -> None:
        with self.judged() as cluster:
            if cluster.world.streams:
                cluster.world.create_foreign(one_of(sorted(cluster.world.streams), which), (STRANGER,))

    @rule(which=number, count=st.integers(0, 6), settles=st.booleans())
    def a_stranger_reads(self, *, which: int, count: int, settles: bool) -> None:
        with self.judged() as cluster:
            known = [stream for _, stream in sorted(cluster.world.streams.items()) if STRANGER in stream.groups]
            if known:
                stream = one_of(known, which)
                stream.deliver(STRANGER, "s", count)
                if settles:
                    stream.groups[STRANGER].pending.clear()

    @rule(which=number, back=st.integers(0, 6))
    def a_stranger_goes_back(self, which: int, back: int) -> None:
        with self.judged() as cluster:
            known = [stream for _, stream in sorted(cluster.world.streams.items()) if STRANGER in stream.groups]
            if known:
                stream = one_of(known, which)
                stream.groups[STRANGER].last_delivered = ([ZERO_ID, *sorted(stream.entries)])[: back + 1][-1]

    def teardown(self) -> None:
        for key in self.cluster.world.streams:
            self.cluster.world.lose_group(key, STRANGER)
        super().teardown()


class TrimmingShards(TrimHazards, Resharding):
    """Shards come and go while they are trimmed."""


class TrimmingGroups(TrimHazards, StoreLoss):
    """The group comes and goes, and the store forgets, while shards are trimmed."""
