"""What a coordinator counts of its own work, and how a rebalance is told from anything else."""

from collections import Counter

import attrs
import pytest

from streamshard.core.chronicle import Event
from streamshard.core.commands import Intent
from streamshard.core.group import GroupRecord, MemberState
from streamshard.core.ids import Instant, LayoutVersion, ShardIndex, StreamPrefix, Token, View
from streamshard.core.membership import MAX_IGNORED_CLAIMS
from streamshard.core.outcome import Fence
from streamshard.core.tally import FAST, SLOW, Cause, Histogram, Tally, at_rest, cause, moves
from streamshard.errors import RevisionConflict
from tests.unit.core.builders import A1, A2, B1, C1, S0, S1, S2, A, B, C, group, holding, member
from tests.unit.core.driving import EXPIRY_MS, KEY, ORDERS, Member, Node, Site, create, scale

ALONE = group(member(A, A1), targets={S0: A, S1: A})
BOTH = group(member(A, A1), member(B, B1, 3), targets={S0: A, S1: B})
RESTING = {S0: holding(A, A1, listed=True), S1: holding(A, A1, 11, listed=True)}


def settled() -> tuple[Node, Member]:
    site = Site()
    node, first = site.node(), Member()
    for _ in range(3):
        node.beat(first)
    node.tick()
    return node, first


class TestHistogram:
    def test_a_duration_counts_under_the_first_bound_that_it_does_not_pass(self) -> None:
        histogram = Histogram((0.1, 0.2))

        for took in (0.05, 0.1, 0.15, 7.0):
            histogram.note(took)

        assert histogram.counts == [2, 1, 1]
        assert round(histogram.seconds, 6) == 7.3

    def test_each_bound_is_above_the_one_before(self) -> None:
        for bounds in (FAST, SLOW):
            assert list(bounds) == sorted(set(bounds))


class TestMoves:
    def test_only_what_was_meant_for_another_member_has_moved(self) -> None:
        before = group(member(A), targets={S0: A, S1: A})
        after = group(member(A), targets={S0: A, S1: B, S2: B})

        assert moves(before, after) == 1

    def test_a_shard_that_is_meant_for_nobody_any_more_has_not_moved(self) -> None:
        assert moves(ALONE, group(targets={})) == 0


class TestCause:
    def test_a_newcomer(self) -> None:
        assert cause(ALONE, BOTH) is Cause.JOIN

    def test_a_new_instance_under_an_old_name(self) -> None:
        assert cause(ALONE, group(member(A, A2, 3), targets={S0: A})) is Cause.JOIN

    def test_one_that_was_terminal_and_lives_again(self) -> None:
        before = group(member(A), member(B, B1, state=MemberState.EXPIRED))

        assert cause(before, group(member(A), member(B, C1, 3))) is Cause.JOIN

    def test_one_that_left_without_a_trace(self) -> None:
        assert cause(BOTH, ALONE) is Cause.LEAVE

    @pytest.mark.parametrize(
        ("state", "expected"),
        [
            (MemberState.LEAVING, Cause.LEAVE),
            (MemberState.EXPIRED, Cause.EXPIRY),
            (MemberState.FENCED, Cause.FENCE),
        ],
    )
    def test_one_that_has_ended(self, state: MemberState, expected: Cause) -> None:
        assert cause(BOTH, group(member(A, A1), member(B, B1, 3, state=state))) is expected

    def test_another_layout_counts_before_what_members_do(self) -> None:
        assert cause(ALONE, attrs.evolve(BOTH, layout_version=LayoutVersion(2))) is Cause.RESHARDING

    def test_an_expiry_counts_before_a_join(self) -> None:
        after = group(member(A, A1), member(B, B1, 3, state=MemberState.EXPIRED), member(C, C1, 4))

        assert cause(BOTH, after) is Cause.EXPIRY

    def test_the_end_of_one_that_had_ended_before_is_none(self) -> None:
        before = group(member(A), member(B, B1, state=MemberState.EXPIRED), targets={S0: A})

        assert cause(before, group(member(A), targets={S1: A})) is Cause.OTHER


class TestRest:
    @pytest.mark.parametrize(
        ("record", "expected"),
        [
            (group(), True),
            (ALONE, False),
            (attrs.evolve(ALONE, holdings=RESTING), True),
            (attrs.evolve(ALONE, holdings={**RESTING, S1: holding(A, A1, 11)}), False),
            (attrs.evolve(ALONE, holdings={S0: RESTING[S0]}), False),
        ],
        ids=["empty", "nothing granted", "all held", "one not reported", "one missing"],
    )
    def test_a_group_is_at_rest_when_everything_meant_is_held_and_reported(
        self, record: GroupRecord, *, expected: bool
    ) -> None:
        assert at_rest(record) is expected


class TestCounting:
    def test_events_are_counted_by_their_kind_and_handed_on(self) -> None:
        tally, orders = Tally(), StreamPrefix("orders")
        told = [Event("recreated", orders, "once"), Event("frozen", orders, "x"), Event("recreated", orders, "twice")]

        heard = tally.hear(event for event in told)

        assert heard == tuple(told)
        assert tally.events == {"recreated": 2, "frozen": 1}

    def test_a_commit_that_leaves_the_record_alone_is_nothing(self) -> None:
        tally = Tally()

        tally.committed(ALONE, ALONE, Instant(0))

        assert (tally.rebalances, tally.moves, tally.rebalancing.counts) == (Counter(), 0, [0] * 16)

    def test_a_rebalance_lasts_from_the_first_unrest_to_the_commit_that_ends_it(self) -> None:
        tally = Tally()

        tally.committed(group(), ALONE, Instant(1_000))
        tally.seen(ALONE, Instant(2_000))
        tally.committed(ALONE, attrs.evolve(ALONE, holdings=RESTING), Instant(5_000))

        assert (tally.rebalancing.seconds, sum(tally.rebalancing.counts)) == (4.0, 1)

    def test_one_that_ends_elsewhere_is_not_counted_here(self) -> None:
        tally = Tally()

        tally.seen(ALONE, Instant(1_000))
        tally.seen(attrs.evolve(ALONE, holdings=RESTING), Instant(5_000))
        tally.committed(ALONE, attrs.evolve(ALONE, holdings=RESTING), Instant(9_000))

        assert sum(tally.rebalancing.counts) == 0

    def test_a_group_that_is_gone_leaves_nothing_behind(self) -> None:
        tally = Tally()

        tally.seen(ALONE, Instant(1_000))
        tally.forget([KEY])
        tally.committed(ALONE, attrs.evolve(ALONE, holdings=RESTING), Instant(9_000))

        assert sum(tally.rebalancing.counts) == 0

    @pytest.mark.parametrize(("claims", "expected"), [(0, 1), (MAX_IGNORED_CLAIMS, 0)])
    def test_a_fence_that_was_answered_is_not_counted_as_one_of_time(self, claims: int, expected: int) -> None:
        tally = Tally()
        fenced = member(B, B1, 3, state=MemberState.FENCED, ignored_claims=claims)

        tally.committed(BOTH, group(member(A, A1), fenced), Instant(0))

        assert tally.fenced[Fence.OVERDUE] == expected


class TestCoordinator:
    def test_it_counts_joins_leaves_and_moves(self) -> None:
        node, first = settled()
        second = Member("b", "2")

        for _ in range(3):
            node.beat(second)
            node.beat(first)
        node.beat(second, intent=Intent.LEAVE, holds=())

        tally = node.coordinator.tally
        assert (tally.rebalances, tally.moves) == ({Cause.JOIN: 2, Cause.LEAVE: 1}, 2)
        assert tally.events["member-joined"] == 2

    def test_it_counts_expiries(self) -> None:
        node, _ = settled()
        second = Member("b", "2")
        node.beat(second)

        node.site.pass_time(EXPIRY_MS + 2_000, node)

        assert node.coordinator.tally.events["member-expired"] == 2

    def test_it_counts_reshardings_as_a_cause(self) -> None:
        node, first = settled()

        node.run(node.coordinator.scale(scale(4)))
        for _ in range(3):
            node.tick()
            node.beat(first)

        assert node.coordinator.tally.rebalances[Cause.RESHARDING] == 1

    def test_it_counts_why_members_are_fenced(self) -> None:
        node, first = settled()
        thief, liar, ghost, twin = (Member(name, number) for name, number in ("b2", "c3", "d4", "a5"))
        for other in (thief, liar, ghost):
            node.beat(other)
        node.beat(ghost, intent=Intent.LEAVE, holds=())
        held = first.beat().holds[0]

        node.beat(thief, holds=(held,))
        node.beat(liar, holds=(attrs.evolve(held, shard=ShardIndex(7), token=Token(2**52)),))
        node.beat(ghost, intent=Intent.JOIN, epoch=ghost.epoch)
        node.beat(twin, intent=Intent.STAY, epoch=first.epoch)
        for _ in range(MAX_IGNORED_CLAIMS):
            node.beat(first, view=View("made up"))

        assert node.coordinator.tally.fenced == {
            Fence.USURPED: 1,
            Fence.UNISSUED: 1,
            Fence.ENDED: 1,
            Fence.STALE: 1,
            Fence.CLAIMS: 1,
            Fence.OVERDUE: 0,
        }

    def test_it_counts_lost_races(self) -> None:
        node, first = settled()
        node.store.fail("commit", RevisionConflict("somebody was faster"), RevisionConflict("and once more"))

        node.beat(first)

        assert node.coordinator.tally.conflicts == 2

    def test_it_counts_what_was_made_again(self) -> None:
        node, first = settled()
        del node.site.world.streams["orders:0"]

        row = attrs.evolve(first.beat(), progress=())
        node.run(node.coordinator.heartbeat(KEY, row))
        node.desk.vanished[ORDERS] = {S0}
        node.tick()

        assert node.coordinator.tally.events["recreated"] == 1

    def test_a_rebalance_takes_the_time_it_takes(self) -> None:
        node = Site(empty=True).node()
        node.run(node.coordinator.create_stream(create(2)))
        first = Member()

        node.beat(first)
        node.clock.advance(3_000)
        node.beat(first)

        assert node.coordinator.tally.rebalancing.seconds == 3.0
