"""Whatever is decided keeps the invariants, and is the same for the same."""

import random
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from streamshard.adapters.stores.codec import dump_group
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.decide import decide, decide_tick
from streamshard.core.group import GroupRecord
from streamshard.core.ids import MemberId
from streamshard.core.invariants import group_step_violations, group_violations
from streamshard.core.outcome import Accepted
from streamshard.core.replies import Status
from tests.unit.core.builders import (
    A1,
    B1,
    WAIT,
    A,
    B,
    Bench,
    C,
    beat,
    client,
    context,
    group,
    layout,
    sight,
)

JOIN, STAY, LEAVE = Intent.JOIN, Intent.STAY, Intent.LEAVE


NAMES = [A, B, C]
INTENTS = [JOIN, STAY, STAY, STAY, LEAVE]


def wander(seed: int, check: Callable[[GroupRecord, GroupRecord], None]) -> None:
    """A group under random attempts, duplicates, silences and time, committing whatever is decided."""
    rng = random.Random(seed)
    bench = Bench(group(shards=3), layout(0, 1, 2))
    clients = [client(MemberId(name), number) for name in NAMES for number in (1, 2)]
    sent: list[Heartbeat] = []
    for _ in range(40):
        before = bench.record
        one = rng.choice(clients)
        choice = rng.random()
        if choice < 0.6:
            sent.append(one.attempt(rng.choice(INTENTS)))
            reply = bench.hear(sent[-1])
            if rng.random() < 0.8 and reply.status in (Status.OK, Status.REVOKE_PENDING):
                one.take(reply)
            one.finish(*[s for s in sorted(one.draining) if rng.random() < 0.7])
        elif choice < 0.75 and sent:
            bench.hear(rng.choice(sent))
        else:
            bench.now += rng.choice([500, 3_000, 16_000])
            bench.tick()
        if bench.record is not before:
            check(before, bench.record)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_whatever_is_decided_keeps_the_invariants(seed: int) -> None:
    def check(before: GroupRecord, after: GroupRecord) -> None:
        assert (group_violations(after), group_step_violations(before, after)) == ((), ())

    wander(seed, check)


def shuffled(record: GroupRecord, rng: random.Random) -> GroupRecord:
    """The same record, its mappings filled in another order."""
    names = ("members", "targets", "holdings", "last_tokens", "longest_leases", "layout")
    mixed: dict[str, Any] = {}
    for name in names:
        items = list(getattr(record, name).items())
        rng.shuffle(items)
        mixed[name] = dict(items)
    return attrs.evolve(record, **mixed)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_deciding_twice_and_on_a_record_filled_in_another_order_gives_the_same_bytes(seed: int) -> None:
    rng = random.Random(seed)
    records: list[GroupRecord] = []
    wander(seed, lambda _, after: records.append(after))

    for record in records:
        attempt = beat(rng.choice(NAMES), rng.choice([A1, B1]), 99, intent=rng.choice(INTENTS))
        outcomes = []
        for same in (record, record, shuffled(record, rng)):
            seen = sight(same)
            decision = decide(same, {}, attempt, context(shards=layout(0, 1, 2)), seen)
            late = decide_tick(same, {}, context(WAIT, shards=layout(0, 1)), seen)
            after = decision.record if isinstance(decision, Accepted) else same
            outcomes.append((decision, late, dump_group(after), dump_group(late.record)))
        assert outcomes[0] == outcomes[1] == outcomes[2]
