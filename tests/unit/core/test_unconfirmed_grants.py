"""A grant whose raise was never answered must not launder the token before it."""

from streamshard.core.commands import Intent
from streamshard.core.replies import Status
from streamshard.errors import StreamUnavailable
from tests.unit.core.driving import Member, Site


def test_a_lost_grant_is_found_by_the_raise_of_the_next_one_however_late_that_comes() -> None:
    """M is told to A; the store loses that commit; C is granted T, and Redis is away when it is to be raised.

    Were T released because C never listed it, the next grant's floor would be T, its raise would be let
    through over M, and C would read beside A.
    """
    site = Site(1)
    node, other = site.node(), site.node("n2")
    other.tick()
    before = site.group.version.revision
    a, c = Member("a", "1"), Member("c", "3")
    node.beat(a)
    assert a.holds

    site.memory.lose_suffix(site.group.version.revision - before)
    other.clock.step_wall(5)
    other.streams.fail("raise_fences", StreamUnavailable("away"))
    other.beat(c)
    reply = other.beat(c)

    assert not c.holds
    assert site.group.quarantine is not None
    assert reply.status is not Status.OK


def test_a_goodbye_before_the_raise_was_answered_frees_nothing_at_once() -> None:
    site = Site(1)
    node = site.node()
    c = Member("c", "3")
    node.streams.fail("raise_fences", *[StreamUnavailable("away")] * 2)
    node.beat(c)

    node.beat(c, intent=Intent.LEAVE)

    assert [h.instance for h in site.group.holdings.values()] == [c.instance]


def test_a_goodbye_frees_a_grant_that_was_never_told_once_its_fence_is_raised() -> None:
    site = Site(1)
    node = site.node()
    c = Member("c", "3")
    node.streams.fail("raise_fences", StreamUnavailable("away"))
    node.beat(c)

    node.beat(c, intent=Intent.LEAVE)

    assert dict(site.group.holdings) == {}
