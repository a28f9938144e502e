"""Who is told that a record changed."""

from streamshard.core.notices import Notices, Watched
from tests.unit.core.driving import KEY, ORDERS, Member, Node, Site, scale


def listening() -> tuple[Site, Node, list[Watched]]:
    """A coordinator that has looked at everything once, and what is told from then on."""
    site = Site()
    node = site.node()
    node.tick(2)
    told: list[Watched] = []
    node.desk.notices.subscribe(told.append)
    return site, node, told


def test_every_listener_is_told_until_it_has_heard_enough() -> None:
    notices, one, two = Notices(), list[Watched](), list[Watched]()
    notices.subscribe(one.append)
    end = notices.subscribe(two.append)

    notices.tell(KEY)
    end()
    notices.tell(ORDERS)

    assert (one, two) == ([KEY, ORDERS], [KEY])


def test_a_listener_may_end_itself_while_it_is_told() -> None:
    notices, told = Notices(), list[Watched]()

    def once(key: Watched) -> None:
        told.append(key)
        end()

    end = notices.subscribe(once)
    notices.subscribe(told.append)

    notices.tell(KEY)
    notices.tell(KEY)

    assert told == [KEY, KEY, KEY]


def test_a_commit_is_told_and_a_renewal_is_not() -> None:
    _, node, told = listening()
    member = Member()

    node.beat(member)
    joined = told.copy()
    node.beat(member)
    listed = told.copy()
    node.beat(member)

    assert joined == [KEY]
    assert told == listed == [KEY, KEY]


def test_what_another_coordinator_committed_is_told_once_it_is_read() -> None:
    site, node, told = listening()
    site.node("n2").beat(Member())

    before = told.copy()
    node.run(node.desk.load_group(KEY))
    node.run(node.desk.load_group(KEY))

    assert (before, told) == ([], [KEY])


def test_a_new_layout_is_told_to_whoever_watches_the_stream() -> None:
    site, node, told = listening()
    node.run(node.coordinator.scale(scale(4)))
    own = told.copy()

    node.tick()

    assert set(own) == {ORDERS}
    assert ORDERS in told[len(own) :]
    assert site.stream.routed_count == 4


def test_an_unchanged_layout_is_told_nobody() -> None:
    _, node, told = listening()

    node.tick(3)
    node.run(node.desk.load_stream(ORDERS))

    assert told == []


def test_a_group_that_is_gone_is_told() -> None:
    site, node, told = listening()
    site.memory._shelf.groups.clear()

    node.tick()

    assert KEY in told
