"""What time alone does to a group, and what a resharding has to know of it."""

import attrs
import pytest

from streamshard.core import group_ticks
from streamshard.core.group import MemberState
from streamshard.core.ids import Millis
from streamshard.core.stream_events import GroupSummary
from streamshard.errors import GroupNotFound, RevisionConflict
from tests.unit.core.driving import BILLING, EXPIRY_MS, KEY, S0, S1, TIMING, Member, Node, Site, scale


def settled(rebalance_ms: int = 60_000) -> tuple[Site, Node, Member]:
    site = Site(timing=attrs.evolve(TIMING, rebalance_timeout_ms=Millis(rebalance_ms)))
    node, member = site.node(), Member()
    node.beat(member)
    node.beat(member)
    node.tick(2)
    node.calls()
    return site, node, member


def test_a_look_at_a_group_that_nothing_befell_is_one_read() -> None:
    site, node, _ = settled()

    known = node.run(group_ticks.look(node.desk, KEY, site.stream))

    assert known.record is site.group
    assert node.calls() == ["load_group"]


def test_a_look_at_a_group_that_is_gone_finds_nothing() -> None:
    site, node, _ = settled()
    stream = site.stream
    site.memory._shelf.groups.clear()

    with pytest.raises(GroupNotFound):
        node.run(group_ticks.look(node.desk, KEY, stream))


def test_a_look_commits_an_expiry_and_the_next_one_drops_nothing_twice() -> None:
    site, node, member = settled()
    site.pass_time(EXPIRY_MS - 1_000, node)
    node.clock.advance(1_000)

    known = node.run(group_ticks.look(node.desk, KEY, site.stream))

    assert site.group.members[member.name].state is MemberState.EXPIRED
    assert (dict(site.group.holdings), known.rows) == ({}, {})
    assert site.memory._shelf.rows[KEY] == {}


def test_an_expiry_is_not_committed_over_a_renewal() -> None:
    site, node, member = settled()
    other = site.node("other")
    other.beat(member)
    node.tick()
    site.pass_time(EXPIRY_MS - 1_000, node)
    node.clock.advance(1_000)
    look = node.start(group_ticks.look(node.desk, KEY, site.stream)).go_to("> commit")
    other.beat(member)

    with pytest.raises(RevisionConflict):
        look.finish()

    assert site.group.members[member.name].state is MemberState.ACTIVE


def test_a_row_of_an_instance_that_is_gone_is_dropped_without_a_new_revision() -> None:
    site, node, member = settled()
    (row,) = site.memory._shelf.rows[KEY].values()
    stray = attrs.evolve(row, instance=Member("x", "9").instance)
    site.memory._shelf.rows[KEY][stray.instance] = stray
    before = site.group

    known = node.run(group_ticks.look(node.desk, KEY, site.stream))

    assert site.group is before
    assert list(known.rows) == list(site.memory._shelf.rows[KEY]) == [member.instance]


def test_a_shard_that_is_not_given_up_in_time_lapses_alone_and_is_free_a_lease_later() -> None:
    site, node, member = settled(rebalance_ms=5_000)
    node.beat(Member("b", "2"))
    (moving,) = [s for s, m in site.group.targets.items() if m == "b"]
    lapsed: list[bool] = []

    for _ in range(26):
        site.pass_time(1_000, node)
        holds = dict(member.holds)
        node.beat(member)
        member.holds = {**holds, **member.holds}
        lapsed.append(moving in site.group.holdings and site.group.holdings[moving].lapsed)

    assert lapsed.index(True) in (4, 5, 6)
    assert lapsed[lapsed.index(True) :].count(True) in (15, 16)
    assert site.group.members[member.name].state is MemberState.ACTIVE


def test_a_summary_of_a_group_at_rest_hands_nothing_over() -> None:
    site, _, _ = settled()

    assert group_ticks.summary(site.group) == GroupSummary(
        BILLING, site.group.layout_version, 1, handover=False, held_by_live=(S0, S1)
    )


def test_a_summary_counts_a_shard_that_nobody_holds_yet_as_handed_over() -> None:
    site, node, _ = settled()
    node.run(node.coordinator.scale(scale(3)))
    node.tick()

    assert group_ticks.summary(site.group).handover


def test_a_summary_counts_a_shard_whose_holder_is_not_its_target_as_handed_over() -> None:
    site, node, _ = settled()
    node.beat(Member("b", "2"))

    assert group_ticks.summary(site.group).handover


def test_a_summary_of_a_group_without_live_members_waits_for_nobody() -> None:
    site, node, _ = settled()
    site.pass_time(EXPIRY_MS + 1_000, node)

    assert group_ticks.summary(site.group) == GroupSummary(BILLING, site.group.layout_version, 0, handover=False)
