"""A stream's record, a Redis in memory, and coordinators that work on both: for the tests of the stream's rules."""

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import attrs

from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.admin import (
    Amend,
    AmendStream,
    Author,
    CreateGroup,
    CreateStream,
    DeleteGroup,
    DeleteStream,
    GroupSpec,
    Idempotency,
    Rollback,
    Scale,
)
from streamshard.core.effects import DropGroup, DropShard, MendLag, Provision, RaiseLayout, Seal
from streamshard.core.ids import (
    GroupKey,
    GroupName,
    Instant,
    LayoutVersion,
    Lineage,
    Millis,
    Nonce,
    ReshardingId,
    ShardIndex,
    StreamPrefix,
    WallMillis,
    stream_key,
)
from streamshard.core.stream import Resharding, Retention, Shard, StreamRecord, StreamTombstone
from streamshard.core.stream_events import (
    FencesSeen,
    GroupsSeen,
    GroupSummary,
    LayoutRaised,
    Observation,
    Probed,
    ProbeShard,
    Provisioned,
    ReadFences,
    Sealed,
    StreamCommand,
    StreamContext,
    StreamOutcome,
    Tidied,
)
from streamshard.core.stream_fences import fences_wanted
from streamshard.core.stream_sight import StreamSight
from streamshard.core.stream_wants import Order, Pace, wanted
from streamshard.core.streams import decide_stream

T = TypeVar("T")

ORDERS = StreamPrefix("orders")
BILLING = GroupName("billing")
AUDIT = GroupName("audit")
TICK = Millis(1_000)
LEASE = Millis(5_000)
PACE = Pace(TICK, LEASE, Millis(10_000), 100_000)
ANN = Author("ann", "because")


def run(call: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        call.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("it suspended")


def keyed(key: str, fingerprint: str = "same") -> Author:
    return Author("ann", "because", Idempotency(key, fingerprint))


def create(count: int = 2, *groups: str, author: Author = ANN, adopt: bool = False) -> CreateStream:
    specs = tuple(GroupSpec(GroupName(name)) for name in groups or (BILLING,))
    return CreateStream(ORDERS, author, count, specs, adopt=adopt)


def add_group(name: str, count: int | None = None, author: Author = ANN, start: str = "0") -> CreateGroup:
    group = GroupName(name)
    return CreateGroup(GroupKey(ORDERS, group), author, GroupSpec(group, start), count)


def drop_group(name: str, *, force: bool = False, keep: bool = False, author: Author = ANN) -> DeleteGroup:
    return DeleteGroup(GroupKey(ORDERS, GroupName(name)), author, force, keep)


def drop_stream(*, force: bool = False, drop_data: bool = False, author: Author = ANN) -> DeleteStream:
    return DeleteStream(ORDERS, author, force, drop_data)


def scale(target: int, name: str = "r1", author: Author = ANN, **more: Any) -> Scale:
    return Scale(ORDERS, author, target, ReshardingId(name), **more)


def rollback(name: str = "r1") -> Rollback:
    return Rollback(ORDERS, ANN, ReshardingId(name))


def amend(*ignored: str, name: str = "r1") -> Amend:
    return Amend(ORDERS, ANN, ReshardingId(name), tuple(GroupName(group) for group in ignored))


def retain(retention: Retention = Retention.ACKNOWLEDGED, author: Author = ANN) -> AmendStream:
    return AmendStream(ORDERS, author, retention)


class Shop:
    """One store and one Redis."""

    def __init__(self) -> None:
        self.world = MemoryStreams()
        self.backend = MemoryStreamBackend(self.world)
        self.stored: StreamRecord | StreamTombstone | None = None
        self.now = Instant(1_000_000)
        self.commits = 0
        self.store = "store-1"
        self.live: dict[GroupName, int] = {}
        self.quarantined: tuple[GroupName, ...] = ()
        self.outcomes: list[StreamOutcome] = []

    @property
    def record(self) -> StreamRecord:
        assert isinstance(self.stored, StreamRecord)
        return self.stored

    @property
    def resharding(self) -> Resharding:
        """The active one, or the last that ended."""
        return self.record.resharding or self.record.history[-1]

    @property
    def phases(self) -> str:
        """One letter a shard: Preparing, Open, Draining, Sealed."""
        return "".join(shard.phase.value[0] for shard in self.record.shards.values())

    @property
    def generations(self) -> list[int]:
        return [shard.generation for shard in self.record.shards.values()]

    def shard(self, index: int) -> Shard:
        return self.record.shards[ShardIndex(index)]

    def keys(self) -> list[str]:
        return sorted(self.world.streams)

    def context(self, command: StreamCommand | None = None) -> StreamContext:
        shards = fences_wanted(self.stored, command, 2) if command is not None else ()
        creates = isinstance(command, CreateStream | CreateGroup)
        return StreamContext(
            wall=WallMillis(1_700_000_000_000 + self.now),
            nonce=Nonce(f"nonce-{self.commits}"),
            lineage=Lineage(f"lineage-{self.commits}"),
            mac_key="secret",
            store=self.store,
            max_shard_count=16,
            default_shard_count=2,
            marks=run(self.backend.read_fences(ORDERS, shards)),
            probes=run(self.backend.probe(ORDERS, shards)) if creates else (),
            live_members=self.live,
            quarantined=self.quarantined,
        )

    def do(self, command: StreamCommand) -> StreamOutcome:
        """Decide, and commit what changed."""
        outcome = decide_stream(self.stored, command, self.context(command))
        self.stored = outcome.record
        self.commits += outcome.changed
        self.outcomes.append(outcome)
        return outcome

    def write(self, index: int, count: int = 1) -> None:
        for _ in range(count):
            self.world.add(stream_key(ORDERS, ShardIndex(index)), {b"n": b"1"})

    def consume(self, index: int, group: GroupName = BILLING, *, acknowledge: bool = True) -> None:
        stream = self.world.streams[stream_key(ORDERS, ShardIndex(index))]
        stream.deliver(group, "c", 1_000)
        if acknowledge:
            stream.groups[group].pending.clear()

    def summary(self, name: GroupName = BILLING, **more: Any) -> GroupSummary:
        stated = {"layout_version": self.record.layout_version, "live_members": 1, "handover": False, **more}
        return GroupSummary(name=name, **stated)

    def groups(self, *summaries: GroupSummary) -> StreamOutcome:
        return self.do(GroupsSeen(summaries or (self.summary(),)))


class Desk:
    """One coordinator: its own sight, its own ticks."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.sight: StreamSight | None = None

    def look(self) -> tuple[Order, ...]:
        """Load the record, and say what is wanted."""
        if not isinstance(self.shop.stored, StreamRecord):
            return ()
        if self.sight is None:
            self.sight = StreamSight.first(self.shop.record, self.shop.now)
        self.sight.observe(self.shop.record, self.shop.now)
        return wanted(self.shop.record, self.sight, self.shop.now, PACE)

    def hear(self, answer: Observation) -> StreamOutcome:
        """Take an answer in, against the record as it is now."""
        if self.sight is not None and isinstance(self.shop.stored, StreamRecord):
            self.sight.observe(self.shop.record, self.shop.now)
            self.sight.hear(self.shop.record, answer, self.shop.now)
        return self.shop.do(answer)

    def work(self, rounds: int = 6) -> None:
        """Ask for what is wanted until nothing is, or the rounds are over; no time passes."""
        for _ in range(rounds):
            orders = self.look()
            for answer in perform(self.shop.backend, orders):
                self.hear(answer)

    def until_it_would_seal(self) -> list[Seal]:
        """Look and let time pass, until seals are wanted that are then not carried out."""
        for _ in range(20):
            self.shop.now = Instant(self.shop.now + TICK)
            orders = self.look()
            seals = [order for order in orders if isinstance(order, Seal)]
            if seals:
                return seals
            for answer in perform(self.shop.backend, [order for order in orders if isinstance(order, ProbeShard)]):
                self.hear(answer)
        raise RuntimeError("no seal is ever wanted")

    def tick(self, count: int = 1) -> None:
        """As `work`, with a tick of time before each round."""
        for _ in range(count):
            self.shop.now = Instant(self.shop.now + TICK)
            self.work(2)


def perform(backend: MemoryStreamBackend, orders: Sequence[Order]) -> Iterable[Observation]:
    """Carry orders out and give the answers, one observation a kind."""
    provisions = [order for order in orders if isinstance(order, Provision)]
    seals = [order for order in orders if isinstance(order, Seal)]
    raises = [order for order in orders if isinstance(order, RaiseLayout)]
    chores = [order for order in orders if isinstance(order, DropGroup | DropShard | MendLag)]
    probes = [order for order in orders if isinstance(order, ProbeShard)]
    for order in orders:
        if isinstance(order, ReadFences):
            yield FencesSeen(run(backend.read_fences(order.prefix, order.shards)))
    if provisions:
        yield Provisioned(tuple(zip(provisions, run(backend.provision(provisions)), strict=True)))
    if raises:
        yield LayoutRaised(tuple(zip(raises, run(backend.raise_layouts(raises)), strict=True)))
    if seals:
        yield Sealed(tuple((order, run(backend.seal(order))) for order in seals))
    if chores:
        yield Tidied(tuple(zip(chores, run(backend.tidy(chores)), strict=True)))
    if probes:
        found = run(backend.probe(ORDERS, [order.shard for order in probes]))
        yield Probed(tuple(zip(probes, found, strict=True)))


def opened(count: int = 2, *groups: str) -> tuple[Shop, Desk]:
    """A shop with a stream that is in use, and a coordinator."""
    shop = Shop()
    desk = Desk(shop)
    shop.do(create(count, *groups))
    desk.work()
    assert shop.phases == "O" * count
    return shop, desk


def at_layout(order: Provision, layout: int) -> Provision:
    return attrs.evolve(order, layout=LayoutVersion(layout))
