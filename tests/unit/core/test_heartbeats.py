"""Answering heartbeats over ports: one call if nothing changes, and nothing told that is not committed and fenced."""

import attrs
import pytest

from streamshard.adapters.stores.memory import Fault
from streamshard.core.commands import Intent
from streamshard.core.group import MemberState
from streamshard.core.heartbeats import MAX_ATTEMPTS
from streamshard.core.ids import Epoch, GroupKey, GroupName, LayoutVersion, Seq, StreamPrefix, Token
from streamshard.core.invariants import group_violations
from streamshard.core.replies import Extension, RetryReason, Status
from streamshard.errors import MetadataCorrupt, RevisionConflict, StoreUnavailable, StreamUnavailable
from tests.unit.core.driving import BILLING, EXPIRY_MS, KEY, S0, S1, Errand, Member, Node, Site


def two_nodes() -> tuple[Site, Node, Node, Member]:
    """Two coordinators that both know the group, and a member that holds both of its shards."""
    site = Site()
    first, second, member = site.node("first"), site.node("second"), Member()
    first.beat(member)
    first.beat(member)
    for node in (first, second):
        node.tick(2)
        node.calls()
    return site, first, second, member


def test_a_member_that_joins_alone_is_granted_everything() -> None:
    site = Site()

    reply = site.node().beat(Member())

    assert (reply.status, reply.assigned, reply.pending) == (Status.OK, (S0, S1), ())
    assert {s: h.token for s, h in site.group.holdings.items()} == {g.shard: g.token for g in reply.grants}


def test_a_grant_is_told_after_its_fence_was_raised_and_the_record_read_again() -> None:
    site = Site()
    node = site.node()
    node.tick(2)
    node.calls()

    node.beat(Member())

    assert node.calls() == ["commit", "load_group", "raise_fences"]
    assert [site.world.fences[f"orders:{s}"].tokens[BILLING] for s in (0, 1)] == list(site.group.last_tokens.values())


def test_a_heartbeat_that_changes_nothing_is_one_call_of_the_store() -> None:
    site, first, _, member = two_nodes()
    before = site.group

    reply = first.beat(member)

    assert first.calls() == ["commit"]
    assert site.group is before
    assert reply.extended == tuple(Extension(s, h.token) for s, h in site.group.holdings.items())


def test_a_heartbeat_of_an_unknown_stream_costs_one_read_and_is_remembered_by_nobody() -> None:
    node = Site().node()

    reply = node.run(node.coordinator.heartbeat(GroupKey(StreamPrefix("void"), GroupName("g")), Member().beat()))

    assert reply.status is Status.UNKNOWN_MEMBER_ID
    assert node.calls() == ["load_stream"]
    assert (node.desk.groups, node.desk.past, node.desk.layouts, node.desk.vanished) == ({}, {}, {}, {})


def test_a_heartbeat_of_an_unknown_group_is_remembered_by_nobody() -> None:
    node = Site().node()

    reply = node.run(node.coordinator.heartbeat(attrs.evolve(KEY, group=GroupName("none")), Member().beat()))

    assert reply.status is Status.UNKNOWN_MEMBER_ID
    assert node.desk.groups == {}


def test_a_member_of_a_corrupt_group_is_asked_to_come_again() -> None:
    node = Site().node()
    node.store.fail("load_group", MetadataCorrupt("bits have flipped"))

    reply = node.beat(Member())

    assert (reply.status, reply.retry_reason) == (Status.RETRY, RetryReason.UNAVAILABLE)


def test_a_store_that_fails_is_answered_with_a_retry_and_starts_every_timer_anew() -> None:
    site, first, _, member = two_nodes()
    site.pass_time(EXPIRY_MS - 1_000, first)
    first.store.fail("commit", StoreUnavailable("away"))

    reply = first.beat(member)
    site.pass_time(5_000, first)

    assert (reply.status, reply.retry_reason) == (Status.RETRY, RetryReason.UNAVAILABLE)
    assert site.group.members[member.name].state is MemberState.ACTIVE


def test_what_another_coordinator_committed_is_read_and_decided_upon_again() -> None:
    _, first, second, member = two_nodes()
    second.beat(Member("b", "2"))

    reply = first.beat(member)

    assert first.calls() == ["commit", "load_stream", "load_group", "commit"]
    assert (reply.assigned, reply.pending, len(reply.extended)) == ((S0,), (), 2)


def test_a_group_that_never_stands_still_is_given_up_after_a_number_of_attempts() -> None:
    _, first, _, member = two_nodes()
    first.store.fail("commit", *[RevisionConflict("moved on")] * MAX_ATTEMPTS)

    reply = first.beat(member)

    assert (reply.status, reply.retry_reason) == (Status.RETRY, RetryReason.CONFLICT)
    assert first.calls().count("commit") == MAX_ATTEMPTS


def test_a_new_connection_to_the_store_is_a_first_load_within_the_same_answer() -> None:
    site, first, _, member = two_nodes()
    first.connection.reconnect()

    reply = first.beat(member)

    assert first.calls() == ["commit", "load_stream", "load_group", "commit", "read_fences"]
    assert (reply.status, reply.assigned, site.group.quarantine) == (Status.OK, (S0, S1), None)


def test_a_repeated_attempt_is_answered_alike_and_writes_nothing() -> None:
    site, first, second, member = two_nodes()
    beat = member.beat()
    told = first.run(first.coordinator.heartbeat(KEY, beat))
    before = site.group

    again = [node.run(node.coordinator.heartbeat(KEY, beat)) for node in (first, second)]

    assert again == [told, told]
    assert site.group is before


def test_a_repeated_join_tells_the_grants_that_nobody_heard_of() -> None:
    site = Site()
    node, beat = site.node(), Member().beat()
    told = node.run(node.coordinator.heartbeat(KEY, beat))
    other = site.node("other")

    again = other.run(other.coordinator.heartbeat(KEY, beat))

    assert (again.grants, again.epoch) == (told.grants, told.epoch)


def test_an_attempt_older_than_the_last_one_prolongs_nothing() -> None:
    _, first, _, member = two_nodes()
    late = member.beat()
    first.beat(member)

    reply = first.run(first.coordinator.heartbeat(KEY, late))

    assert (reply.status, reply.extended) == (Status.OK, ())


def test_a_no_is_never_said_on_a_copy() -> None:
    _, first, second, _ = two_nodes()
    newcomer = Member("b", "2")
    second.beat(newcomer)

    reply = first.beat(newcomer)

    assert first.calls() == ["load_stream", "load_group", "commit"]
    assert reply.status is Status.OK


def test_a_member_that_claims_again_and_again_what_nobody_issued_is_fenced() -> None:
    site, first, _, member = two_nodes()

    replies = [first.beat(member, view=None, metadata_version=10_000).status for _ in range(3)]

    assert replies == [Status.SYNC_METADATA, Status.SYNC_METADATA, Status.FENCED_MEMBER_EPOCH]
    assert site.group.members[member.name].state is MemberState.FENCED


def test_a_member_that_says_goodbye_is_gone_once_it_holds_nothing() -> None:
    site, first, _, member = two_nodes()

    first.beat(member, intent=Intent.LEAVE, epoch=Epoch(-1), holds=())

    assert (dict(site.group.members), dict(site.group.holdings)) == ({}, {})


def test_a_client_of_the_older_contract_is_refused_with_the_reason() -> None:
    reply = Site().node().beat(Member(), instance=None)

    assert reply.status is Status.UNSUPPORTED_PROTOCOL
    assert reply.message is not None
    assert "allowLegacyMembers" in reply.message


def test_grants_stay_pending_while_redis_is_away() -> None:
    site = Site()
    node, member = site.node(), Member()
    node.tick(2)
    node.streams.fail("raise_fences", StreamUnavailable("away"))

    replies = [node.beat(member), node.beat(member)]

    assert [(r.status, r.assigned, r.pending) for r in replies] == [
        (Status.OK, (), (S0, S1)),
        (Status.OK, (S0, S1), ()),
    ]


def test_a_grant_that_was_given_up_while_its_fence_was_raised_is_not_told() -> None:
    _, first, second, member = two_nodes()
    first.beat(member, intent=Intent.LEAVE, epoch=Epoch(-1), holds=())
    joining = Member("c", "3")
    errand = first.start(first.coordinator.heartbeat(KEY, joining.beat())).go_to("< raise_fences")
    second.run(second.coordinator.heartbeat(KEY, joining.beat(intent=Intent.LEAVE, epoch=Epoch(-1))))

    reply = errand.finish()

    assert (reply.grants, reply.extended) == ((), ())


def test_a_raise_that_is_overtaken_by_a_later_grant_alarms_nobody() -> None:
    site, first, second, member = two_nodes()
    first.beat(member, intent=Intent.LEAVE, epoch=Epoch(-1), holds=())
    joining = Member("c", "3")
    errand = first.start(first.coordinator.heartbeat(KEY, joining.beat())).go_to("> raise_fences")
    joining.epoch = site.group.members[joining.name].epoch
    later = second.beat(joining)

    reply = errand.finish()

    assert site.group.quarantine is None
    assert (reply.grants, len(later.grants)) == ((), 2)


def test_a_mark_between_the_floor_and_the_grant_is_proof_of_a_lost_grant() -> None:
    site, first, second, member = two_nodes()
    first.beat(member, intent=Intent.LEAVE, epoch=Epoch(-1), holds=())
    second.tick()
    lost = Member("b", "2")
    first.beat(lost)
    site.memory.lose_suffix(1)
    site.pass_time(1_000)

    reply = second.beat(Member("c", "3"))

    assert reply.grants == ()
    assert site.group.quarantine is not None
    assert all(site.group.last_tokens[s] >= token for s, token in lost.holds.items())


def test_a_member_whose_view_was_issued_and_is_not_on_record_starts_a_new_lineage() -> None:
    site, _, second, member = two_nodes()
    before = site.group
    other = site.node("other")
    other.beat(Member("b", "2"))
    other.beat(member)
    while site.group.version != before.version:
        site.memory.lose_suffix(1)

    reply = second.beat(member)

    assert reply.status is Status.SYNC_METADATA
    assert site.group.past_lineages == (before.lineage,)
    assert site.group.quarantine is not None
    assert "holds a view" in site.group.quarantine.reason


def test_a_shard_that_vanished_is_granted_once_the_tick_has_made_it_again() -> None:
    site = Site()
    node, member = site.node(), Member()
    node.tick(2)
    site.world.lose_shard("orders:0")

    first = node.beat(member)
    node.tick()
    second = node.beat(member)

    assert (first.assigned, first.pending) == ((S1,), (S0,))
    assert second.assigned == (S0, S1)
    assert "orders:0" in site.world.streams


def test_a_shard_of_a_later_layout_stays_pending() -> None:
    site = Site()
    node = site.node()
    node.tick(2)
    fence = site.world.fences["orders:0"]
    assert fence.layout is not None
    fence.layout = LayoutVersion(fence.layout + 7)

    reply = node.beat(Member())

    assert (reply.assigned, reply.pending) == ((S1,), (S0,))


def test_a_store_that_went_back_before_the_record_was_read_again_tells_nothing() -> None:
    site, first, _, member = two_nodes()
    first.beat(member, intent=Intent.LEAVE, epoch=Epoch(-1), holds=())
    errand = first.start(first.coordinator.heartbeat(KEY, Member("c", "3").beat())).go_to("> load_group")
    site.memory.lose_suffix(1)

    reply = errand.finish()

    assert reply.grants == ()
    assert site.group.quarantine is not None


@pytest.mark.parametrize("fault", [Fault.UNCERTAIN_APPLIED, Fault.UNCERTAIN_LOST])
def test_a_join_whose_commit_went_unanswered_is_carried_out_once(fault: Fault) -> None:
    site = Site()
    node = site.node()
    node.tick(2)
    node.connection.fail_next(fault)

    reply = node.beat(Member())

    assert (reply.status, reply.assigned) == (Status.OK, (S0, S1))
    assert (site.group.version.revision, site.group.group_epoch) == (2, 2)


@pytest.mark.parametrize("fault", [Fault.UNCERTAIN_APPLIED, Fault.UNCERTAIN_LOST])
def test_a_renewal_that_went_unanswered_is_looked_up(fault: Fault) -> None:
    site, first, _, member = two_nodes()
    before = site.group
    first.connection.fail_next(fault)

    reply = first.beat(member)

    assert (reply.status, len(reply.extended)) == (Status.OK, 2)
    assert site.group is before


STEPS = range(16)


@pytest.mark.parametrize("steps", STEPS)
def test_two_members_that_join_at_once_share_the_shards_wherever_one_stands_meanwhile(steps: int) -> None:
    site = Site()
    node = site.node()
    one, other = Member("a", "1"), Member("b", "2")
    errand = node.start(node.coordinator.heartbeat(KEY, one.beat()))
    for _ in range(steps):
        if not errand.done:
            errand.step()

    node.let_run()
    other.hear(node.run(node.coordinator.heartbeat(KEY, other.beat())))
    one.hear(errand.finish())

    assert not one.holds.keys() & other.holds.keys()
    assert group_violations(site.group) == ()


@pytest.mark.parametrize("steps", STEPS)
def test_one_attempt_sent_twice_at_once_is_accepted_once(steps: int) -> None:
    site = Site()
    node, beat = site.node(), Member().beat()
    errand = node.start(node.coordinator.heartbeat(KEY, beat))
    for _ in range(steps):
        if not errand.done:
            errand.step()

    node.let_run()
    replies = [node.run(node.coordinator.heartbeat(KEY, beat)), errand.finish()]

    assert [reply.status for reply in replies] == [Status.OK, Status.OK]
    assert {reply.epoch for reply in replies} == {2}
    told = {(g.shard, g.token) for reply in replies for g in reply.grants}
    assert told == {(s, h.token) for s, h in site.group.holdings.items()}


@pytest.mark.parametrize("steps", STEPS)
def test_a_coordinator_that_dies_in_a_join_leaves_nothing_that_another_can_not_go_on_with(steps: int) -> None:
    site = Site()
    first, second, member = site.node("first"), site.node("second"), Member()
    errand: Errand[object] = first.start(first.coordinator.heartbeat(KEY, member.beat()))
    for _ in range(steps):
        if not errand.done:
            errand.step()
    errand.kill()

    replies = [second.beat(member), second.beat(member)]

    assert [reply.status for reply in replies] == [Status.OK, Status.OK]
    assert replies[-1].assigned == (S0, S1)
    assert member.holds == {s: Token(h.token) for s, h in site.group.holdings.items()}
    assert member.seq == Seq(3)
