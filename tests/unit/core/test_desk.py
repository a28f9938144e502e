"""What a coordinator has loaded and seen: never older than it was, and never trusted longer than it may be."""

import attrs
import pytest

from streamshard.adapters.stores.memory import Fault
from streamshard.core.desk import GroupCommit
from streamshard.core.group import MemberState
from streamshard.core.ids import Epoch, GroupKey, GroupName, Millis, ShardIndex, StreamPrefix, Token
from streamshard.core.outcome import LostWrites
from streamshard.errors import GroupNotFound, MetadataCorrupt, RevisionConflict, StreamNotFound, StreamUnavailable
from tests.unit.core.driving import BILLING, EXPIRY_MS, KEY, ORDERS, S0, Member, Node, Site, create, scale


def settled() -> tuple[Site, Node, Member]:
    """A coordinator that knows the group, and a member that holds everything."""
    site = Site()
    node, member = site.node(), Member()
    node.beat(member)
    node.beat(member)
    node.tick(2)
    node.calls()
    return site, node, member


def test_a_stream_that_does_not_exist_is_not_found_and_not_remembered() -> None:
    node = Site().node()

    with pytest.raises(StreamNotFound):
        node.run(node.desk.load_stream(StreamPrefix("void")))

    assert node.desk.layouts == {}


def test_a_stream_that_is_gone_is_forgotten() -> None:
    site, node, _ = settled()
    site.memory._shelf.streams.clear()

    with pytest.raises(StreamNotFound):
        node.run(node.desk.load_stream(ORDERS))

    assert node.desk.layouts == {}


def test_a_late_answer_does_not_put_an_older_layout_back() -> None:
    site, node, _ = settled()
    late = node.start(node.desk.load_stream(ORDERS)).go_to("< load_stream")
    node.let_run()
    node.run(node.coordinator.scale(scale(4)))

    late.finish()

    assert node.desk.layouts[ORDERS].routed_count == site.stream.routed_count == 4


def test_a_late_answer_does_not_forget_a_stream_made_meanwhile() -> None:
    site = Site(empty=True)
    node = site.node()
    late = node.start(node.desk.load_stream(ORDERS)).go_to("< load_stream")
    node.let_run()
    node.run(node.coordinator.create_stream(create()))

    with pytest.raises(StreamNotFound):
        late.finish()

    assert ORDERS in node.desk.layouts


def test_a_load_that_is_overtaken_by_a_commit_gives_what_was_committed() -> None:
    site, node, _ = settled()
    late = node.start(node.desk.load_group(KEY)).go_to("< load_group")
    node.let_run()
    node.beat(Member("b", "2"))

    assert late.finish().record is site.group


def test_a_group_that_is_gone_is_forgotten() -> None:
    site, node, _ = settled()
    node.desk.forget_source()
    site.memory._shelf.groups.clear()

    with pytest.raises(GroupNotFound):
        node.run(node.desk.load_group(KEY))

    assert (node.desk.groups, node.desk.past) == ({}, {})


def test_a_record_that_went_back_is_a_lost_write_and_starts_a_lineage() -> None:
    site, node, _ = settled()
    node.beat(Member("b", "2"))
    before = site.group
    site.memory.lose_suffix(1)

    node.tick()

    assert site.group.quarantine is not None
    assert site.group.past_lineages == (before.lineage,)


def test_what_was_seen_over_one_connection_is_not_missing_unnoticed_over_the_next() -> None:
    site, node, member = settled()
    node.beat(member, intent=member.beat().intent, max_concurrency=9)
    site.memory.lose_suffix(1)
    node.connection.reconnect()

    node.tick(2)

    assert site.group.quarantine is not None
    assert "successor" in site.group.quarantine.reason


def test_what_was_seen_before_a_commit_met_another_connection_is_not_forgotten_either() -> None:
    site, node, member = settled()
    node.beat(member, max_concurrency=9)
    site.memory.lose_suffix(1)
    node.connection.reconnect()
    member.view = None

    node.beat(member)

    assert site.group.quarantine is not None
    assert "successor" in site.group.quarantine.reason


def test_a_group_is_proven_against_its_fences_once_a_connection() -> None:
    _, node, _ = settled()
    node.connection.reconnect()

    node.tick(4)

    assert node.calls().count("read_fences") == 2


def test_a_fence_above_the_last_token_starts_a_lineage_on_a_first_load() -> None:
    site, _, _ = settled()
    site.world.fences["orders:0"].tokens[BILLING] = Token(site.group.last_tokens[S0] + 5)

    site.node("new").tick()

    assert site.group.quarantine is not None
    assert site.group.last_tokens[S0] == site.world.fences["orders:0"].tokens[BILLING]


def test_a_first_load_without_redis_starts_a_lineage() -> None:
    site, _, _ = settled()
    site.world.go_down()

    site.node("new").tick()

    assert site.group.quarantine is not None
    assert "Redis" in site.group.quarantine.reason


def test_a_grant_that_somebody_makes_during_a_first_load_proves_nothing() -> None:
    site = Site()
    first, second = site.node("first"), site.node("second")
    first.tick(2)
    loading = second.start(second.coordinator.tick()).go_to("< load_group")
    first.beat(Member())

    loading.finish()
    second.let_run()
    second.tick(3)

    assert site.group.quarantine is None


def test_a_store_that_was_replaced_is_quarantined_once_whoever_finds_out() -> None:
    site, first, member = settled()
    second = site.node("second")
    second.tick(2)
    before = site.group.lineage
    site.memory.replace_identity("memory:2")

    meeting = second.start(second.coordinator.tick()).go_to("> commit")
    first.tick(2)
    meeting.finish()
    second.let_run()
    second.tick(2)
    first.beat(member)

    assert site.group.past_lineages == (before,)


def test_a_proof_that_another_coordinator_acted_upon_is_settled() -> None:
    site, first, _ = settled()
    second = site.node("second")
    first.beat(Member("b", "2"))
    second.tick(2)
    before = site.group.lineage
    site.memory.lose_suffix(1)
    meeting = second.start(second.coordinator.tick()).go_to("> commit")
    first.tick()

    meeting.finish()
    second.let_run()
    second.tick()

    assert site.group.past_lineages == (before,)


def test_a_new_lineage_is_not_started_on_proof_about_another_record() -> None:
    site, node, member = settled()
    known = node.desk.groups[KEY]
    stream = node.desk.layouts[ORDERS]
    errand = node.start(node.desk.begin_anew(known, stream, {}, LostWrites("proof"))).go_to("< read_fences")
    node.let_run()
    node.beat(member, max_concurrency=7)

    errand.finish()

    assert site.group.quarantine is None


def test_marks_that_are_known_serve_where_redis_does_not_answer() -> None:
    site, node, _ = settled()
    site.world.go_down()
    mark = Token(site.group.last_tokens[S0] + 3)

    node.run(node.desk.begin_anew(node.desk.groups[KEY], site.stream, {S0: mark}, LostWrites("proof")))

    assert site.group.last_tokens[S0] == mark


def test_a_slow_read_starts_every_timer_anew() -> None:
    site, node, member = settled()
    site.pass_time(EXPIRY_MS - 2_000, node)
    slow = node.start(node.desk.load_group(KEY)).go_to("< load_group")
    node.clock.advance(1_600)
    slow.finish()
    node.let_run()
    node.tick()

    site.pass_time(4_000, node)

    assert site.group.members[member.name].state is MemberState.ACTIVE


def test_a_group_that_nobody_watched_for_a_while_has_its_timers_started_anew() -> None:
    site, node, member = settled()
    node.store.trouble = lambda name, given: MetadataCorrupt("bits have flipped") if name == "load_group" else None
    site.pass_time(60_000, node)
    node.store.trouble = lambda name, given: None

    site.pass_time(EXPIRY_MS - 2_000, node)

    assert site.group.members[member.name].state is MemberState.ACTIVE


def test_a_silent_member_is_expired_by_a_coordinator_that_watched_it_all_the_time() -> None:
    site, node, member = settled()

    site.pass_time(EXPIRY_MS + 2_000, node)

    assert site.group.members[member.name].state is MemberState.EXPIRED


@pytest.mark.parametrize(("fault", "revisions"), [(Fault.UNCERTAIN_APPLIED, 1), (Fault.UNCERTAIN_LOST, 0)])
def test_a_commit_without_an_answer_is_looked_up(fault: Fault, revisions: int) -> None:
    site, node, _ = settled()
    known, before = node.desk.groups[KEY], site.group
    context = node.desk.context(site.stream, known.sight.source)
    record = attrs.evolve(
        before,
        version=attrs.evolve(before.version, revision=before.version.revision + 1, nonce=context.nonce),
        ring=(*before.ring, context.nonce),
        group_epoch=Epoch(before.group_epoch + 1),
    )
    node.connection.fail_next(fault)

    try:
        node.run(node.desk.commit_group(known, GroupCommit(record, context.nonce)))
    except RevisionConflict:
        assert not revisions

    assert node.desk.groups[KEY].record is site.group
    assert site.group.version.revision == before.version.revision + revisions


def test_a_commit_that_ends_late_does_not_put_an_older_record_back() -> None:
    site, node, member = settled()
    late = node.start(node.coordinator.heartbeat(KEY, member.beat(max_concurrency=5))).go_to("< commit")
    node.let_run()
    node.tick()
    node.beat(Member("b", "2"))

    late.finish()

    assert node.desk.groups[KEY].record is site.group


def test_nothing_is_committed_to_a_group_that_is_broken() -> None:
    site, node, member = settled()
    before = site.group
    node.desk.groups[KEY].broken = ("tokens ran backwards",)

    with pytest.raises(MetadataCorrupt, match="orders/billing is frozen: tokens ran backwards"):
        node.run(node.desk.commit_group(node.desk.groups[KEY], GroupCommit(before, node.entropy.nonce())))

    assert site.group is before


def test_the_lease_of_a_row_that_was_lost_is_the_longest_on_record() -> None:
    site, node, member = settled()
    known = node.desk.groups[KEY]
    known.rows.clear()
    known.record = attrs.evolve(site.group, longest_leases={member.instance: Millis(60_000)})

    assert node.desk.lease_of(known, member.instance) == 60_000


def test_what_is_known_of_streams_that_are_gone_is_dropped() -> None:
    _, node, _ = settled()
    node.desk.vanished[ORDERS] = {S0}
    node.desk.past[KEY] = node.desk.groups[KEY]

    node.desk.forget_streams(set())

    assert (node.desk.groups, node.desk.past, node.desk.layouts, node.desk.vanished) == ({}, {}, {}, {})


def test_what_is_known_of_present_streams_is_kept() -> None:
    _, node, _ = settled()
    node.desk.groups[GroupKey(StreamPrefix("gone"), GroupName("g"))] = node.desk.groups[KEY]

    node.desk.forget_streams({ORDERS})

    assert (list(node.desk.groups), list(node.desk.layouts)) == ([KEY], [ORDERS])


def test_a_pause_is_a_random_part_of_what_it_may_be() -> None:
    node = Site().node()

    pauses = []
    for _ in range(3):
        before = node.clock.boot()
        errand = node.start(node.desk.pause(100))
        errand.step()
        wakeup = node.clock.next_wakeup()
        pauses.append((wakeup or node.clock.boot()) - before)
        errand.finish()

    assert len(set(pauses)) == 3
    assert all(0 <= pause <= 100 for pause in pauses)


def test_redis_is_asked_for_every_shard_that_ever_had_a_token() -> None:
    site, node, _ = settled()
    known = node.desk.groups[KEY]
    known.record = attrs.evolve(site.group, last_tokens={**site.group.last_tokens, ShardIndex(7): Token(5)})
    asked: list[object] = []

    def note(name: str, given: tuple[object, ...]) -> Exception | None:
        asked.append(given[-1])
        return StreamUnavailable("away")

    node.streams.trouble = note

    assert node.run(node.desk._marks(known)) is None
    assert asked == [[0, 1, 7]]
