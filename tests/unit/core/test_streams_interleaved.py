"""Two coordinators on one stream: orders late, doubled and lost, answers late, operators and writers in between."""

from collections import defaultdict

import attrs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamshard.core.effects import DropGroup, MendLag, Provision, RaiseLayout, Seal
from streamshard.core.ids import GroupName, Instant, LayoutVersion, RecordId, ShardIndex, stream_key
from streamshard.core.stream import EntryState, ShardPhase, StreamRecord, StreamState
from streamshard.core.stream_events import GroupsSeen, GroupSummary, Observation, ProbeShard, ReadFences
from streamshard.core.stream_shape import readable
from streamshard.core.stream_wants import Order
from tests.unit.core.stream_bench import (
    AUDIT,
    BILLING,
    ORDERS,
    TICK,
    Desk,
    Shop,
    add_group,
    amend,
    create,
    drop_group,
    perform,
    rollback,
    scale,
)

MOST_SHARDS = 4
picks = st.integers(0, 10**6)
counts = st.integers(0, MOST_SHARDS)


@attrs.define
class Group:
    """What the members of a group have adopted, and what they hold."""

    layout: LayoutVersion = LayoutVersion(0)
    held: frozenset[ShardIndex] = frozenset()
    live: bool = True


class TwoCoordinators(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shop = Shop()
        self.desks = (Desk(self.shop), Desk(self.shop))
        self.orders: list[tuple[Desk, tuple[Order, ...]]] = []
        self.answers: list[tuple[Desk, Observation]] = []
        self.groups: dict[GroupName, Group] = defaultdict(Group)
        self.routed: list[int] = [0]
        self.reshardings = 0
        self.written: set[tuple[str, RecordId]] = set()
        self.handled: set[tuple[str, RecordId]] = set()
        self.seen: StreamRecord | None = None
        self.shop.do(create(2))

    # Coordinators

    @rule(who=st.integers(0, 1))
    def look(self, who: int) -> None:
        desk = self.desks[who]
        self.orders += [(desk, order) for order in batches(desk.look())]

    @precondition(lambda self: self.orders)
    @rule(which=picks, kept=st.booleans())
    def reach_redis(self, which: int, *, kept: bool) -> None:
        at = which % len(self.orders)
        desk, batch = self.orders[at] if kept else self.orders.pop(at)
        self.answers += [(desk, answer) for answer in self.carry_out(batch)]

    @precondition(lambda self: self.answers)
    @rule(which=picks, kept=st.booleans())
    def hear(self, which: int, *, kept: bool) -> None:
        at = which % len(self.answers)
        desk, answer = self.answers[at] if kept else self.answers.pop(at)
        desk.hear(answer)

    @precondition(lambda self: self.orders)
    @rule(which=picks)
    def lose_an_order(self, which: int) -> None:
        del self.orders[which % len(self.orders)]

    @rule(who=st.integers(0, 1), ticks=st.integers(1, 7))
    def work_undisturbed(self, who: int, ticks: int) -> None:
        for _ in range(ticks):
            self.shop.now = Instant(self.shop.now + TICK)
            for batch in batches(self.desks[who].look()):
                for answer in self.carry_out(batch):
                    self.desks[who].hear(answer)

    @rule(who=st.integers(0, 1))
    def restart(self, who: int) -> None:
        self.desks[who].sight = None

    # Operators

    @rule(count=counts, stop=st.booleans())
    def scale(self, count: int, *, stop: bool) -> None:
        self.reshardings += 1
        self.shop.do(scale(count, f"r{self.reshardings}", stop_producers=stop))

    @rule()
    def roll_back(self) -> None:
        if self.shop.record.resharding is not None:
            self.shop.do(rollback(self.shop.record.resharding.id))

    @rule()
    def add_a_group(self) -> None:
        self.shop.do(add_group(AUDIT))

    @rule(keep=st.booleans())
    def delete_the_group(self, *, keep: bool) -> None:
        self.shop.do(drop_group(AUDIT, keep=keep))

    # Producers and members

    @rule()
    def refresh_a_route(self) -> None:
        self.routed.append(self.shop.record.routed_count)

    @rule(which=picks, route=picks)
    def write(self, which: int, route: int) -> None:
        count = self.routed[route % len(self.routed)]
        if count:
            self.append(which % count)

    def append(self, index: int) -> None:
        key = stream_key(ORDERS, ShardIndex(index))
        record = self.shop.world.add(key, {b"n": b"1"})
        if record is not None:
            self.written.add((key, record))

    @rule(live=st.booleans())
    def adopt(self, *, live: bool) -> None:
        for name in self.active():
            shards = frozenset(shard.index for shard in readable(self.shop.record))
            self.groups[name] = Group(self.shop.record.layout_version, shards, live)

    @rule(which=picks, acknowledge=st.booleans())
    def read(self, which: int, *, acknowledge: bool) -> None:
        shards = readable(self.shop.record)
        if shards:
            self.consume(shards[which % len(shards)].index, acknowledge=acknowledge)

    def consume(self, index: ShardIndex, *, acknowledge: bool) -> None:
        key = stream_key(ORDERS, index)
        stream = self.shop.world.streams.get(key)
        for name in self.active() if stream is not None else ():
            if stream is not None and name in stream.groups:
                stream.deliver(name, "c", 100)
                if acknowledge:
                    pending = stream.groups[name].pending
                    done = {(key, RecordId(f"{ms}-{seq}")) for ms, seq in pending}
                    self.handled |= done if name == BILLING else set()
                    pending.clear()

    @rule()
    def look_at_groups(self) -> None:
        self.shop.do(GroupsSeen(self.summaries()))

    def active(self) -> list[GroupName]:
        return [name for name, entry in self.shop.record.groups.items() if entry.state is EntryState.ACTIVE]

    def summaries(self) -> tuple[GroupSummary, ...]:
        known = [(name, self.groups[name]) for name in self.active()]
        return tuple(
            GroupSummary(name, group.layout, int(group.live), False, tuple(sorted(group.held))) for name, group in known
        )

    def carry_out(self, batch: tuple[Order, ...]) -> list[Observation]:
        """At Redis: nothing that is not handled may go with a key (I5)."""
        before = set(self.shop.keys())
        answers = list(perform(self.shop.backend, batch))
        gone = before - set(self.shop.keys())
        assert {record for record in self.written - self.handled if record[0] in gone} == set()
        return answers

    # What must always hold

    @invariant()
    def numbers_only_grow(self) -> None:
        before, after = self.seen, self.shop.record
        self.seen = after
        if before is None:
            return
        assert before.lineage == after.lineage
        assert before.version.revision <= after.version.revision
        assert before.layout_version <= after.layout_version
        assert all(shard.generation <= after.shards[index].generation for index, shard in before.shards.items())
        if before.layout_version == after.layout_version:
            assert before.layout().shards == after.layout().shards
            assert before.routed_count == after.routed_count

    @invariant()
    def a_life_does_not_come_back(self) -> None:
        for shard in self.shop.record.shards.values():
            if shard.phase is ShardPhase.SEALED:
                assert stream_key(ORDERS, shard.index) not in self.shop.world.streams

    @invariant()
    def what_is_open_stands_with_every_group(self) -> None:
        for shard in self.shop.record.shards.values():
            if shard.phase is ShardPhase.OPEN:
                key = stream_key(ORDERS, shard.index)
                assert set(self.active()) <= set(self.shop.world.streams[key].groups)
                assert not self.shop.world.fences[key].sealed
                assert self.shop.world.fences[key].generation == shard.generation

    @invariant()
    def no_alarm_is_raised(self) -> None:
        assert not any(outcome.revived or outcome.discontinuity for outcome in self.shop.outcomes)

    @invariant()
    def what_is_routed_is_read(self) -> None:
        record = self.shop.record
        full_drain = record.resharding is not None and record.resharding.to_count == 0
        routed = [shard for shard in record.shards.values() if shard.index < record.routed_count]
        if record.state is StreamState.ACTIVE and not full_drain:
            assert {shard.phase for shard in routed} <= {ShardPhase.OPEN}

    @invariant()
    def nothing_is_stranded(self) -> None:
        """Every record that is not handled yet is on a key that stands and that will be read."""
        left = {key for key, _ in self.written - self.handled}
        lost = {s.index for s in self.shop.record.shards.values() if s.phase is ShardPhase.SEALED}
        assert left <= set(self.shop.keys())
        assert not {stream_key(ORDERS, index) for index in lost} & left

    def teardown(self) -> None:
        """Faults end: whatever was begun comes to its end, and every record is handled."""
        self.orders.clear()
        self.answers.clear()
        for _ in range(12):
            self.adopt(live=True)
            if self.shop.record.resharding is not None:  # a deleted group's Redis group may have been kept
                self.shop.do(amend(AUDIT, name=self.shop.record.resharding.id))
            for shard in readable(self.shop.record):
                self.consume(shard.index, acknowledge=True)
            self.work_undisturbed(who=0, ticks=2)
            self.look_at_groups()
        record = self.shop.record
        assert record.resharding is None
        assert {entry.state for entry in record.groups.values()} <= {EntryState.ACTIVE}
        opened = [shard.index for shard in record.shards.values() if shard.phase is ShardPhase.OPEN]
        assert opened == list(range(record.routed_count))
        assert self.shop.keys() == [stream_key(ORDERS, index) for index in opened]
        assert self.written == self.handled


def batches(orders: tuple[Order, ...]) -> list[tuple[Order, ...]]:
    """Orders that reach Redis together: those of one kind."""
    kinds = (Provision, Seal, RaiseLayout, DropGroup | MendLag, ProbeShard, ReadFences)
    found = [tuple(order for order in orders if isinstance(order, kind)) for kind in kinds]
    return [batch for batch in found if batch]


TestTwoCoordinators = TwoCoordinators.TestCase
TestTwoCoordinators.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
