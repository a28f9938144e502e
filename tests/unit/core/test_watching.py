"""What is news for whom, and what it costs to find out."""

import attrs
import pytest

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.core import views
from streamshard.core.group import MemberState, Quarantine
from streamshard.core.ids import (
    GroupKey,
    GroupName,
    LayoutVersion,
    Lineage,
    MemberId,
    Nonce,
    StreamPrefix,
    Version,
    View,
    WallMillis,
)
from streamshard.core.notices import GroupWatch, LayoutWatch
from streamshard.core.replies import News
from streamshard.core.watching import concerned, is_newer, layout_news
from streamshard.errors import GroupNotFound, InvalidRequest, MetadataCorrupt, SourceChanged, StreamNotFound
from tests.unit.core.builders import A1, B1, C1, S0, S1, S2, A, B, C, group, holding, member
from tests.unit.core.driving import KEY, ORDERS, Member, Node, Site, scale


class Unglanced:
    """A store with the port's methods and no more."""

    def __init__(self, store: MemoryStore) -> None:
        self.load_stream, self.load_group, self.commit = store.load_stream, store.load_group, store.commit
        self.prefixes, self.close = store.prefixes, store.close


SEEN = Version(Lineage("l"), 7, Nonce("n"))


def test_a_member_is_concerned_by_a_shard_it_has_to_give_up_and_by_one_that_is_free_for_it() -> None:
    record = group(
        member(A, A1),
        member(B, B1),
        member(C, C1),
        shards=3,
        holdings={S0: holding(A, A1), S1: holding(B, B1)},
        targets={S0: B, S1: B, S2: C},
    )

    assert concerned(record) == {A, C}


def test_a_member_that_drains_already_or_whose_holding_lapsed_is_left_alone() -> None:
    held = {S0: holding(A, A1, draining=True), S1: holding(A, A1, lapsed=True)}
    record = group(member(A, A1), member(B, B1), holdings=held, targets={S0: B, S1: B})

    assert concerned(record) == frozenset()


def test_a_free_shard_concerns_nobody_in_quarantine() -> None:
    free = group(member(A, A1), targets={S0: A, S1: A})
    quarantined = attrs.evolve(free, quarantine=Quarantine("lost writes", WallMillis(0)))

    assert concerned(free) == {A}
    assert concerned(quarantined) == frozenset()


@pytest.mark.parametrize("state", [MemberState.EXPIRED, MemberState.FENCED, MemberState.LEAVING])
def test_a_member_whose_end_has_come_is_concerned(state: MemberState) -> None:
    assert concerned(group(member(A, A1, state=state), member(B, B1))) == {A}


@pytest.mark.parametrize(
    ("version", "newer"),
    [
        (SEEN, False),
        (Version(Lineage("l"), 6, Nonce("m")), False),
        (Version(Lineage("l"), 8, Nonce("o")), True),
        (Version(Lineage("l"), 7, Nonce("other")), True),
        (Version(Lineage("another"), 1, Nonce("n")), True),
    ],
)
def test_a_version_is_news_unless_it_was_seen_or_is_an_older_copy(version: Version, newer: bool) -> None:  # noqa: FBT001
    assert is_newer(version, SEEN) is newer


def test_everything_is_news_to_whoever_has_seen_nothing() -> None:
    assert is_newer(SEEN, None)


def test_another_layout_is_news_and_so_is_the_same_number_in_another_lineage() -> None:
    stream = Site().stream
    held, number = stream.lineage, stream.layout_version

    def changed(version: int, lineage: str | None) -> bool:
        watch = LayoutWatch(ORDERS, LayoutVersion(version), None if lineage is None else Lineage(lineage))
        return layout_news(stream, watch).changed

    assert not changed(number, held)
    assert not changed(number, None)
    assert changed(number - 1, held)
    assert changed(number + 1, None)
    assert changed(number, "another")


def ready() -> tuple[Site, Node, Member]:
    """A coordinator and a member that holds both shards."""
    site = Site()
    node, holder = site.node(), Member()
    node.beat(holder)
    node.beat(holder)
    node.calls()
    return site, node, holder


def present(site: Site) -> View:
    return views.mint(site.stream.mac_key, KEY, site.group.version)


def look(node: Node, *members: str, view: View | None) -> News:
    named = tuple(MemberId(name) for name in members) or None
    return node.run(node.coordinator.watches.look(GroupWatch(KEY, view, named)))


def test_who_holds_the_present_view_hears_nothing_new() -> None:
    site, node, _ = ready()

    news = look(node, view=present(site))

    record = site.group
    assert news == News(False, site.stream.lineage, record.layout_version, record.metadata_version, present(site))


def test_whoever_has_no_view_is_given_one() -> None:
    site, node, _ = ready()

    news = look(node, view=None)

    assert (news.changed, news.view) == (True, present(site))


def test_a_join_is_news_for_the_member_that_has_to_give_something_up_and_for_nobody_else() -> None:
    site, node, _ = ready()
    before = present(site)
    node.beat(Member("b", "2"))

    everybody = look(node, view=before)
    holder = look(node, "a", view=before)
    newcomer = look(node, "b", view=before)

    assert (everybody.changed, everybody.members) == (True, None)
    assert (holder.changed, holder.members) == (True, ("a",))
    assert (newcomer.changed, newcomer.members) == (False, ())


def test_a_release_is_news_for_whom_the_shard_is_meant() -> None:
    site, node, holder = ready()
    newcomer = Member("b", "2")
    node.beat(newcomer)
    node.beat(holder)
    before = present(site)
    node.beat(holder)

    assert len(site.group.holdings) == 1
    assert look(node, "b", view=before).members == ("b",)
    assert look(node, "a", view=before).changed is False


def test_another_lineage_concerns_everybody_and_so_does_a_name_that_nobody_knows() -> None:
    site, node, _ = ready()
    elsewhere = views.mint(site.stream.mac_key, KEY, Version(Lineage("past"), 99, Nonce("n")))
    before = present(site)
    node.beat(Member("b", "2"))

    assert look(node, "a", "b", view=elsewhere).members == ("a", "b")
    assert look(node, "b", "stranger", view=before).members == ("stranger",)


def test_a_view_of_another_group_is_refused() -> None:
    site, node, _ = ready()
    other = views.mint(site.stream.mac_key, GroupKey(ORDERS, GroupName("audit")), site.group.version)

    for view in (other, View("garbage"), View("")):
        with pytest.raises(InvalidRequest, match="^view: "):
            look(node, view=view)


def test_what_is_not_there_is_not_found() -> None:
    _, node, _ = ready()
    watches = node.coordinator.watches

    with pytest.raises(GroupNotFound):
        node.run(watches.look(GroupWatch(GroupKey(ORDERS, GroupName("nobody")))))
    with pytest.raises(StreamNotFound):
        node.run(watches.look(GroupWatch(GroupKey(StreamPrefix("void"), GroupName("billing")))))
    with pytest.raises(StreamNotFound):
        node.run(watches.look(LayoutWatch(StreamPrefix("void"), LayoutVersion(1))))


def test_a_look_sees_what_another_coordinator_has_committed() -> None:
    site, node, _ = ready()
    before, layout = present(site), site.stream.layout_version
    other = site.node("n2")
    other.beat(Member("b", "2"))
    other.run(other.coordinator.scale(scale(4)))
    other.tick()

    assert look(node, "a", view=before).changed
    assert node.run(node.coordinator.watches.look(LayoutWatch(ORDERS, layout))).changed


def test_a_look_at_what_is_known_asks_for_versions_alone() -> None:
    site, node, _ = ready()

    look(node, view=present(site))
    node.run(node.coordinator.watches.refresh([KEY, ORDERS]))

    assert node.calls() == ["versions", "versions"]


def test_a_record_that_cannot_be_read_is_not_read_again_in_the_same_version() -> None:
    site, node, _ = ready()
    site.node("n2").beat(Member("b", "2"))
    node.store.fail("load_group", MetadataCorrupt("flipped"), MetadataCorrupt("flipped"))
    watches = node.coordinator.watches

    node.run(watches.refresh([KEY]))
    node.run(watches.refresh([KEY, ORDERS]))
    asked = node.calls()
    site.node("n3").beat(Member("c", "3"))
    node.run(watches.refresh([KEY]))

    assert asked == ["versions", "load_group", "versions"]
    assert node.calls() == ["versions", "load_group"]


def test_another_store_makes_everything_a_first_load() -> None:
    site, node, _ = ready()
    node.store.fail("versions", SourceChanged("another file"))

    node.run(node.coordinator.watches.refresh([KEY, ORDERS]))

    assert (node.desk.groups, node.desk.layouts) == ({}, {})
    assert look(node, view=present(site)).changed is False


def test_a_store_that_cannot_be_glanced_at_is_read_instead() -> None:
    site, node, _ = ready()
    before = present(site)
    site.node("n2").beat(Member("b", "2"))
    node.desk.store = Unglanced(node.connection)

    assert node.run(node.coordinator.watches.refresh([KEY])) is False
    assert look(node, "a", view=before).changed


def test_a_glance_asks_nobody_and_has_nothing_to_say_of_what_it_does_not_know() -> None:
    site, node, _ = ready()
    watch = GroupWatch(KEY, present(site))
    before = node.coordinator.watches.glance(watch)
    node.desk.forget_groups([KEY])

    assert before is not None
    assert node.coordinator.watches.glance(watch) is None
    assert node.coordinator.watches.glance(LayoutWatch(StreamPrefix("void"), LayoutVersion(1))) is None
    assert node.calls() == []
