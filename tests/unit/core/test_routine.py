"""Heartbeats that repeat themselves: what is recalled is what deciding anew would come to, and else nothing is."""

import contextlib
import random
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamshard.core import answers
from streamshard.core.answers import Served
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.decide import decide
from streamshard.core.desk import Desk
from streamshard.core.group import ShardProgress
from streamshard.core.heartbeats import recalled
from streamshard.core.ids import Epoch, InstanceId, MemberId, Seq, WallMillis
from streamshard.core.outcome import Accepted
from streamshard.core.replies import HeartbeatReply, Status
from streamshard.core.routine import TOLD_ANEW
from streamshard.errors import StreamshardError, StreamUnavailable
from tests.unit.core.driving import KEY, S0, S1, Member, Node, Site, scale

OTHERWISE: dict[str, Any] = {
    "member": MemberId("b"),
    "intent": Intent.LEAVE,
    "epoch": Epoch(99),
    "instance": InstanceId("9" * 32),
    "holds": (),
    "view": None,
    "metadata_version": 10_000,
    "member_name": "another",
    "protocol_version": 2,
    "max_concurrency": 7,
    "owned": (S1,),
    "revoking": (S0,),
    "revoked": (S0,),
    "advertised_url": "http://elsewhere",
    "client_version": "2",
    "principal": "app",
    "legacy": True,
}
MADE_IN = 6
"""Commits that make the stream and its group: losing these would leave nothing to ask."""
TOLD: dict[str, Any] = {"request_id": "r-9", "available": 5, "progress": (ShardProgress(S0, pending=4),)}


def at_rest() -> tuple[Site, Node, Member]:
    """A member that has said the same thing twice."""
    site = Site()
    node, member = site.node(), Member()
    for _ in range(4):
        node.beat(member)
        node.tick()
    return site, node, member


def anew(desk: Desk, beat: Heartbeat, wall: int, *, raised: bool) -> HeartbeatReply:
    """The answer of somebody who remembers nothing, at another time, and perhaps without knowing the fences."""
    known, stream = desk.groups[KEY], desk.layouts[KEY.prefix]
    fences = frozenset(known.sight.raised) if raised else frozenset()
    context = attrs.evolve(desk.context(stream, known.sight.source), wall=WallMillis(wall), raised=fences)
    decision = decide(known.record, known.rows, beat, context, known.sight)
    assert isinstance(decision, Accepted)
    assert decision.row is not None
    assert decision.record is known.record
    assert (decision.refusal, decision.same_rows, decision.force_row) == (None, {}, False)
    served = Served(known.record, beat, decision.instance, decision.row.lease_ms, decision.standing, fences)
    return answers.serve(served, desk.settings.timing, stream.mac_key)


def changed(rng: random.Random, beat: Heartbeat) -> Heartbeat:
    """The same heartbeat with some things said otherwise."""
    told = {name: value for name, value in TOLD.items() if rng.random() < 0.5}
    other = {name: value for name, value in OTHERWISE.items() if rng.random() < 0.03}
    later = Seq(beat.seq + rng.choice([-3, 0, 0, 1, 1_000]))
    return attrs.evolve(beat, **{"seq": later, **told, **other})


def disturb(rng: random.Random, site: Site, node: Node, other: Node, crew: list[Member]) -> None:
    """Something happens to the group."""
    match rng.randrange(12):
        case 0:
            other.beat(rng.choice(crew))
        case 1:
            with contextlib.suppress(StreamshardError):  # one is under way, or it would change nothing
                node.run(node.coordinator.scale(scale(rng.randint(2, 5), f"r{rng.random()}")))
        case 2 if len(site.memory._shelf.undo) > MADE_IN:
            site.memory.lose_suffix(1)
            node.connection.reconnect()
        case 3:
            site.memory.lose_rows()
        case 4:
            site.pass_time(rng.choice([1_000, 20_000]), node)
        case 5 | 6:
            node.beat(rng.choice(crew), **{n: v for n, v in TOLD.items() if rng.random() < 0.5})
        case _:
            for each in crew * 3:
                node.beat(each)


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_whatever_is_recalled_is_what_deciding_anew_comes_to(seed: int) -> None:
    rng = random.Random(seed)
    site, node, member = at_rest()
    other, crew = site.node("other"), [member, Member("b", "2"), Member("c", "3")]
    for _ in range(25):
        disturb(rng, site, node, other, crew)
        for one in crew:
            beat = changed(rng, attrs.evolve(one.beat(), seq=one.seq))
            said = recalled(node.desk, KEY, beat)
            if said is not None:
                wall = rng.choice([0, 1, node.clock.wall(), 2**52])
                assert said[2].answer(beat) == anew(node.desk, beat, wall, raised=rng.random() < 0.5)


def test_a_heartbeat_that_repeats_itself_is_recalled() -> None:
    _, node, member = at_rest()

    assert recalled(node.desk, KEY, member.beat()) is not None


@pytest.mark.parametrize("field", sorted(f.name for f in attrs.fields(Heartbeat) if f.name not in TOLD_ANEW))
def test_a_heartbeat_that_says_anything_else_is_decided_anew(field: str) -> None:
    _, node, member = at_rest()

    assert recalled(node.desk, KEY, member.beat(**{field: OTHERWISE[field]})) is None


@pytest.mark.parametrize("seq", [0, 1, 4])
def test_an_attempt_that_is_not_newer_is_not_recalled(seq: int) -> None:
    _, node, member = at_rest()

    assert recalled(node.desk, KEY, attrs.evolve(member.beat(), seq=Seq(seq))) is None


def test_nothing_is_recalled_of_an_instance_whose_row_is_lost() -> None:
    site, node, member = at_rest()
    site.memory.lose_rows()
    node.tick()

    assert recalled(node.desk, KEY, member.beat()) is None
    assert node.beat(member).status is Status.OK


def test_what_is_told_for_display_stands_in_the_row() -> None:
    site, node, member = at_rest()

    node.beat(member, **TOLD)

    row = site.memory._shelf.rows[KEY][member.instance]
    assert (row.seq, row.available, row.progress) == (member.seq, TOLD["available"], TOLD["progress"])


def test_each_renewal_carries_a_mark_of_its_own_whoever_writes_it() -> None:
    site, node, member = at_rest()
    other = site.node("other")
    marks = []

    for each in (node, node, other, other, node):
        each.beat(member)
        marks.append(site.memory._shelf.rows[KEY][member.instance].mark)

    assert len(set(marks)) == len(marks)
    assert {len(mark) for mark in marks} == {32}


def test_a_member_that_leaves_out_a_grant_is_not_recalled_as_its_fence_may_be_raised_by_then() -> None:
    site = Site()
    node, member = site.node(), Member()
    node.tick(2)
    node.streams.fail("raise_fences", *[StreamUnavailable("away")] * 10)
    replies = [node.beat(member).pending for _ in range(4)]

    said = recalled(node.desk, KEY, member.beat())
    node.streams.failures["raise_fences"].clear()

    assert (replies, said) == ([(S0, S1)] * 4, None)
    assert node.beat(member).assigned == (S0, S1)


def test_nothing_is_recalled_once_the_record_is_another_one() -> None:
    _, node, member = at_rest()
    node.beat(Member("b", "2"))

    assert recalled(node.desk, KEY, member.beat()) is None


def test_nothing_is_recalled_over_a_new_connection_until_it_was_decided_anew() -> None:
    _, node, member = at_rest()
    node.desk.forget_source()

    assert recalled(node.desk, KEY, member.beat()) is None
    assert node.beat(member).status is Status.OK


def test_a_commit_taken_in_while_the_row_was_written_is_what_is_answered() -> None:
    site, node, member = at_rest()
    before = site.group.metadata_version
    writing = node.start(node.coordinator.heartbeat(KEY, member.beat())).go_to("< commit")
    node.let_run()
    node.beat(Member("b", "2"))

    reply = writing.finish()

    assert before < site.group.metadata_version == reply.metadata_version
    assert (reply.assigned, len(reply.extended)) == ((S0,), 2)
