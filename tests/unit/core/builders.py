"""Groups, heartbeats and time for the tests of the group's rules."""

from collections.abc import Mapping
from typing import Any

import attrs

from streamshard.core import answers, handover
from streamshard.core.answers import Served
from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.decide import decide, decide_tick, identified
from streamshard.core.group import GroupRecord, Holding, Member, MemberState, Quarantine, Row
from streamshard.core.ids import (
    Epoch,
    Generation,
    GroupKey,
    GroupName,
    InstanceId,
    Instant,
    LayoutVersion,
    Lineage,
    MemberId,
    Millis,
    Nonce,
    Seq,
    ShardIndex,
    StreamPrefix,
    Token,
    Version,
    View,
    WallMillis,
)
from streamshard.core.outcome import (
    Accepted,
    Context,
    Decision,
    LostWrites,
    Refusal,
    Replay,
    Rows,
    Standing,
    TickOutcome,
)
from streamshard.core.ports import StoreSource
from streamshard.core.replies import HeartbeatReply
from streamshard.core.sight import GroupSight
from streamshard.core.stream import Layout
from streamshard.core.timing import Timing, expiry_wait_ms

KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
MAC = "key of the stream"
SOURCE = StoreSource("store", 1)
TIMING = Timing()
LEASE = TIMING.lease_ms
WAIT = expiry_wait_ms(LEASE)
TIMEOUT = TIMING.rebalance_timeout_ms
WALL = 1_700_000_000_000

A, B, C = MemberId("a"), MemberId("b"), MemberId("c")
A1, A2, B1, B2, C1 = (InstanceId(name) for name in ("a1", "a2", "b1", "b2", "c1"))
S0, S1, S2, S3 = (ShardIndex(index) for index in range(4))
GEN = Generation(1)
VERSION = Version(Lineage("lineage"), 1, Nonce("nonce"))


def layout(*shards: int, version: int = 1, generation: int = 1) -> Layout:
    return Layout(LayoutVersion(version), {ShardIndex(s): Generation(generation) for s in shards})


def context(now: int = 0, nonce: str = "next", shards: Layout | None = None, **timing: int) -> Context:
    """Everything a decision needs besides the record; ``timing`` in milliseconds, without the suffix."""
    lengths: dict[str, Any] = {f"{name}_ms": Millis(length) for name, length in timing.items()}
    return Context(
        now=Instant(now),
        wall=WallMillis(WALL + now),
        timing=attrs.evolve(TIMING, **lengths),
        layout=shards or layout(0, 1),
        mac_key=MAC,
        nonce=Nonce(nonce),
        lineage=Lineage(f"lineage of {nonce}"),
        source=SOURCE,
    )


def member(name: MemberId = A, instance: InstanceId = A1, epoch: int = 2, **given: Any) -> Member:
    fields: dict[str, Any] = {"state": MemberState.ACTIVE, "joined_at": WallMillis(WALL), **given}
    return Member(id=name, name=name, instance=instance, epoch=Epoch(epoch), **fields)


def holding(name: MemberId = A, instance: InstanceId = A1, token: int = 10, floor: int = 0, **given: Any) -> Holding:
    fields: dict[str, Any] = {"generation": GEN, "seq": Seq(1), **given}
    return Holding(member=name, instance=instance, token=Token(token), floor=Token(floor), **fields)


def group(
    *members: Member, holdings: Mapping[ShardIndex, Holding] | None = None, shards: int = 2, **given: Any
) -> GroupRecord:
    """A consistent record; what is not said about tokens and leases follows from the holdings and members."""
    held = dict(holdings or {})
    instances = [*(m.instance for m in members), *(h.instance for h in held.values())]
    epoch = max([1, *(m.epoch for m in members)])
    fields: dict[str, Any] = {
        "version": VERSION,
        "ring": (VERSION.nonce,),
        "store": SOURCE.identity,
        "layout_version": LayoutVersion(1),
        "layout": layout(*range(shards)).shards,
        "group_epoch": Epoch(epoch),
        "assignment_epoch": Epoch(epoch),
        "members": {m.id: m for m in members},
        "holdings": held,
        "last_tokens": {s: h.token for s, h in held.items()},
        "longest_leases": dict.fromkeys(instances, LEASE),
        **given,
    }
    return GroupRecord(key=KEY, **fields)


def row(instance: InstanceId = A1, seq: int = 1, mark: str | None = None, lease: int = LEASE) -> Row:
    return Row(instance, Seq(seq), Nonce(mark or f"{instance}:{seq}"), Millis(lease))


def hold(shard: int, token: int, *, draining: bool = False) -> Hold:
    return Hold(ShardIndex(shard), Token(token), draining)


def beat(
    name: MemberId = A, instance: InstanceId | None = A1, seq: int = 2, holds: tuple[Hold, ...] = (), **given: Any
) -> Heartbeat:
    fields: dict[str, Any] = {"intent": Intent.STAY, "epoch": Epoch(2), "member_name": name, **given}
    return Heartbeat(member=name, instance=instance, seq=Seq(seq), holds=holds, **fields)


def sight(record: GroupRecord, rows: Mapping[InstanceId, Row] | None = None, now: int = 0) -> GroupSight:
    """What a coordinator has seen that loads this for the first time."""
    first = GroupSight.first(SOURCE, record, Instant(now))
    first.observe(record, rows or {}, Instant(now))
    return first


def accepted(decision: Decision) -> Accepted:
    assert isinstance(decision, Accepted), decision
    return decision


def refused(decision: Decision) -> Refusal:
    assert isinstance(decision, Refusal), decision
    return decision


@attrs.define
class Client:
    """A well-behaved member, as far as these tests need one: it lists what its last answer let it hold."""

    name: MemberId
    instance: InstanceId
    epoch: Epoch = Epoch(0)
    seq: int = 0
    view: View | None = None
    held: dict[ShardIndex, Token] = attrs.field(factory=dict)
    draining: set[ShardIndex] = attrs.field(factory=set)

    def attempt(self, intent: Intent | None = None) -> Heartbeat:
        self.seq += 1
        usual = Intent.STAY if self.epoch else Intent.JOIN
        return Heartbeat(
            member=self.name,
            intent=intent or usual,
            epoch=self.epoch,
            instance=self.instance,
            seq=Seq(self.seq),
            holds=tuple(Hold(s, t, s in self.draining) for s, t in sorted(self.held.items())),
            view=self.view,
            member_name=self.name,
        )

    def take(self, reply: HeartbeatReply) -> None:
        """Hold what was granted, drain what is not assigned any more."""
        self.epoch, self.view = reply.epoch, reply.view
        self.draining |= set(self.held).difference(reply.assigned)
        self.held.update({g.shard: g.token for g in reply.grants if g.shard not in self.held})

    def finish(self, *shards: ShardIndex) -> None:
        """Let go of what was drained."""
        for shard in shards:
            self.draining.discard(shard)
            del self.held[shard]


@attrs.define
class Bench:
    """One group, its rows, and one coordinator's sight of them; every commit arrives, every fence is raised."""

    record: GroupRecord
    shards: Layout = attrs.field(factory=lambda: layout(0, 1))
    timing: dict[str, int] = attrs.field(factory=dict)
    now: int = 0
    rows: dict[InstanceId, Row] = attrs.field(factory=dict)
    sight: GroupSight = attrs.field(init=False)
    commits: int = 0

    def __attrs_post_init__(self) -> None:
        self.sight = sight(self.record, self.rows, self.now)

    def context(self) -> Context:
        self.commits += 1
        plain = context(self.now, f"commit {self.commits}", self.shards, **self.timing)
        return attrs.evolve(plain, raised=self.sight.raised)

    def decide(self, attempt: Heartbeat) -> Decision:
        return decide(self.record, self.rows, identified(self.record, attempt), self.context(), self.sight)

    def hear(self, attempt: Heartbeat) -> HeartbeatReply:
        """Decide, commit, raise, answer."""
        attempt = identified(self.record, attempt)
        settings = self.context()
        decision = decide(self.record, self.rows, attempt, settings, self.sight)
        match decision:
            case Accepted(record=record, row=renewal, standing=standing):
                self.commit(record, renewal)
                attempt = attrs.evolve(attempt, instance=decision.instance)
                if decision.refusal is not None:
                    return answers.refuse(self.record, attempt, settings.timing, decision.refusal)
                return self.answer(attempt, standing)
            case Replay():
                return self.answer(attempt, Standing.PRESENT)
            case Refusal():
                return answers.refuse(self.record, attempt, settings.timing, decision)
            case LostWrites():
                raise ValueError(decision.reason)

    def commit(self, record: GroupRecord, renewal: Row | None = None) -> None:
        self.record = record
        self.sight.follow(record, self.rows, Instant(self.now))
        if renewal is not None:
            self.rows[renewal.instance] = renewal
            self.sight.renewed(renewal.instance, renewal.mark, Instant(self.now))

    def answer(self, attempt: Heartbeat, standing: Standing) -> HeartbeatReply:
        assert attempt.instance is not None
        owner = self.record.members.get(attempt.member)
        if owner is not None:
            fresh = handover.unraised(self.record, attempt, owner, self.sight)
            self.sight.raised |= {(shard, h.token) for shard, h in fresh.items()}
        lease = self.rows[attempt.instance].lease_ms
        served = Served(self.record, attempt, attempt.instance, lease, standing, self.sight.raised)
        return answers.serve(served, self.context().timing, MAC)

    def talk(self, *clients: Client) -> None:
        """One heartbeat of each, heard and answered."""
        for client in clients:
            client.take(self.hear(client.attempt()))

    def tick(self) -> TickOutcome:
        """Read everything anew, decide what time has done, commit it."""
        self.sight.observe(self.record, self.rows, Instant(self.now))
        outcome = decide_tick(self.record, self.rows, self.context(), self.sight)
        for instance in outcome.drop_rows:
            del self.rows[instance]
        if outcome.record is not self.record:
            self.commit(outcome.record)
        return outcome

    def wait(self, duration: int, *clients: Client, step: int = 1_000) -> None:
        """Let time pass, ticking; the clients go on beating."""
        end = self.now + duration
        while self.now < end:
            self.now = min(end, self.now + step)
            self.talk(*clients)
            self.tick()

    def holders(self) -> dict[int, InstanceId]:
        return {int(shard): h.instance for shard, h in self.record.holdings.items()}


def client(name: MemberId, number: int = 1) -> Client:
    return Client(name, InstanceId(f"{name}{number}"))


def settled(*names: MemberId, shards: int = 2, **given: Any) -> tuple[Bench, list[Client]]:
    """A group in which these have joined, in this order, and have handed over whatever had to move."""
    bench = Bench(group(shards=shards, **given), layout(*range(shards)))
    clients = [client(name) for name in names]
    for count in range(1, len(clients) + 1):
        for _ in range(4):
            bench.talk(*clients[:count])
            for one in clients[:count]:
                one.finish(*sorted(one.draining))
    return bench, clients


QUARANTINE = Quarantine("lost", WallMillis(WALL))
LISTED = holding(A, A1, 10, listed=True)


def alone(held: Holding | None = LISTED, owner: Member | None = None, **more: Any) -> GroupRecord:
    """a alone, with the only shard."""
    holdings = {} if held is None else {S0: held}
    record = group(owner or member(A, A1), holdings=holdings, targets={S0: A}, shards=1, last_tokens={S0: Token(10)})
    return attrs.evolve(record, **more)


def hear(record: GroupRecord, attempt: Heartbeat, rows: Rows | None = None, now: int = 0, **timing: int) -> Decision:
    known = rows or {}
    settings = context(now, "next", layout(*record.layout), **timing)
    return decide(record, known, identified(record, attempt), settings, sight(record, known))


def plain(seq: int = 2, *holds: int, **more: Any) -> Heartbeat:
    return attrs.evolve(beat(A, A1, seq, tuple(hold(0, token) for token in holds)), **more)


def taken_over() -> tuple[Bench, Client, Client]:
    """a1 has fallen silent for a little over two heartbeats, and a2 has taken its name over."""
    bench, (a, b) = settled(A, B)
    bench.wait(2 * TIMING.heartbeat_ms + 1_000, b)
    newcomer = client(A, 2)
    bench.talk(newcomer)
    return bench, b, newcomer
