"""A fence mark that no grant can have raised: it stops its own shard, and nothing else."""

from streamshard.core.ids import Token
from streamshard.core.replies import Status
from tests.unit.core.driving import BILLING, ORDERS, S0, S1, Member, Site


def test_a_mark_that_nobody_was_granted_blocks_its_shard_alone_and_is_told_once() -> None:
    site = Site(2)
    site.world.fences[f"{ORDERS}:0"].tokens[BILLING] = Token(2**53 - 1)
    node, member = site.node("n2"), Member()

    replies = [node.beat(member) for _ in range(3)]

    assert [reply.status for reply in replies] == [Status.OK] * 3
    assert replies[-1].assigned == (S1,)
    assert replies[-1].pending == (S0,)
    told = [event for event in node.coordinator.drain_events() if event.kind == "fence-unbelievable"]
    assert [(event.shard, event.group) for event in told] == [(S0, BILLING)]


def test_the_shard_is_granted_once_the_mark_is_gone() -> None:
    site = Site(1)
    site.world.fences[f"{ORDERS}:0"].tokens[BILLING] = Token(2**53 - 1)
    node, member = site.node("n2"), Member()
    node.beat(member)

    del site.world.fences[f"{ORDERS}:0"].tokens[BILLING]

    assert node.beat(member).assigned == (S0,)
