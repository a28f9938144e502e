"""Ticks that trim: what everybody acknowledged goes in turn, and what went unread is told and counted."""

import attrs

from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import Stream
from streamshard.core.admin import AmendStream, DeleteGroup
from streamshard.core.chronicle import TRIMMED_UNREAD
from streamshard.core.effects import Missed
from streamshard.core.group import Quarantine
from streamshard.core.ids import GroupName, WallMillis
from streamshard.core.stream import Retention
from streamshard.core.trimming import TELL_EVERY_MS, Losses
from streamshard.errors import StreamUnavailable
from tests.unit.core.driving import ANN, AUDIT, BILLING, KEY, ORDERS, S0, S1, Node, Site, add_group, scale

EVERY_MS = 10_000


def kept(shards: int = 1) -> tuple[Site, Node]:
    """A stream whose acknowledged records go, and a coordinator that has looked at everything."""
    site = Site(shards)
    node = site.node()
    node.run(node.coordinator.amend_stream(AmendStream(ORDERS, ANN, Retention.ACKNOWLEDGED)))
    node.tick()
    node.coordinator.drain_events()
    return site, node


def stream(site: Site, shard: int = 0) -> Stream:
    return site.world.streams[f"orders:{shard}"]


def take(site: Site, count: int, group: GroupName = BILLING, shard: int = 0) -> None:
    """The group reads and acknowledges so many records."""
    stream(site, shard).deliver(group, "c", count)
    stream(site, shard).groups[group].pending.clear()


def lose(site: Site, count: int, shard: int = 0) -> None:
    """Somebody else trims."""
    for entry in sorted(stream(site, shard).entries)[:count]:
        del stream(site, shard).entries[entry]


def lengths(site: Site) -> list[int]:
    return [len(site.world.streams[key].entries) for key in sorted(site.world.streams)]


def told(node: Node) -> list[str]:
    return [event.text for event in node.coordinator.drain_events() if event.kind == TRIMMED_UNREAD]


def found(node: Node) -> dict[GroupName, int]:
    return {key.group: count for key, count in node.coordinator.trimmed_unread().items()}


def test_what_is_acknowledged_goes_at_the_next_look() -> None:
    site, node = kept(2)
    site.append(0, 9)
    site.append(1, 9)
    take(site, 9)
    take(site, 4, shard=1)

    node.tick()
    before = lengths(site)
    site.pass_time(EVERY_MS, node)

    assert (before, lengths(site)) == ([9, 9], [1, 6])


def test_a_stream_that_keeps_everything_keeps_it() -> None:
    site = Site(1)
    node = site.node()
    site.append(0, 9)
    take(site, 9)

    site.pass_time(2 * EVERY_MS, node)

    assert lengths(site) == [9]


def test_a_retention_that_is_taken_back_ends_it() -> None:
    site, node = kept()
    node.run(node.coordinator.amend_stream(AmendStream(ORDERS, ANN, Retention.NONE)))
    site.append(0, 9)
    take(site, 9)

    site.pass_time(2 * EVERY_MS, node)

    assert lengths(site) == [9]


def test_nothing_goes_while_a_group_is_in_quarantine() -> None:
    site, node = kept()
    site.append(0, 9)
    take(site, 9)
    record = attrs.evolve(site.group, quarantine=Quarantine("lost writes", WallMillis(0)))
    site.memory._shelf.groups[KEY] = record

    site.pass_time(EVERY_MS, node)

    assert (site.group.quarantine is None, lengths(site)) == (False, [9])


def test_nothing_goes_while_a_group_can_not_be_read() -> None:
    site, node = kept()
    site.append(0, 9)
    take(site, 9)
    node.desk.groups[KEY].broken = ("its epoch ran backwards",)

    site.pass_time(EVERY_MS, node)

    assert lengths(site) == [9]


def test_a_coordinator_that_has_not_proven_a_group_trims_nothing() -> None:
    site, node = kept()
    site.append(0, 9)
    take(site, 9)
    node.streams.trouble = lambda name, given: StreamUnavailable("away") if name == "read_fences" else None

    site.pass_time(EVERY_MS - 1_000, node)
    node.connection.reconnect()
    site.pass_time(3_000, node)

    assert lengths(site) == [9]


def test_a_new_group_finds_what_the_others_have_not_acknowledged() -> None:
    site, node = kept()
    site.append(0, 9)
    take(site, 6)
    site.pass_time(EVERY_MS, node)

    node.run(node.coordinator.create_group(add_group()))
    site.pass_time(EVERY_MS, node)
    take(site, 9)
    site.pass_time(EVERY_MS, node)

    assert lengths(site) == [4]
    assert len(stream(site).after(stream(site).groups[AUDIT.group].last_delivered)) == 4


def test_shards_that_are_drained_are_left_to_the_drain() -> None:
    site, node = kept(2)
    site.append(1, 9)
    take(site, 5, shard=1)
    node.run(node.coordinator.scale(scale(1)))

    site.pass_time(EVERY_MS, node)

    assert lengths(site) == [0, 9]


def test_a_restarted_coordinator_goes_on_where_it_can() -> None:
    site, _ = kept()
    site.append(0, 9)
    take(site, 9)

    site.node("again").tick()

    assert lengths(site) == [1]


def test_what_others_removed_unread_is_counted_and_told_once() -> None:
    site, node = kept(2)
    site.append(0, 9)
    site.append(1, 9)
    lose(site, 3)
    lose(site, 4, shard=1)

    site.pass_time(EVERY_MS, node)
    first = told(node)
    site.pass_time(EVERY_MS, node)

    assert (first, told(node)) == ([Losses(7, shards={S0, S1}).text()], [])
    assert found(node) == {BILLING: 7}


def test_further_losses_are_told_together_after_a_minute() -> None:
    site, node = kept()
    for _ in range(4):
        site.append(0, 5)
        lose(site, 5)
        site.pass_time(EVERY_MS, node)
    early = told(node)
    site.pass_time(TELL_EVERY_MS, node)

    assert (early, told(node)) == ([Losses(5, shards={S0}).text()], [Losses(15, shards={S0}).text()])


def test_a_stream_that_keeps_everything_is_counted_too() -> None:
    site = Site(1)
    node = site.node()
    site.append(0, 9)
    lose(site, 2)

    node.tick()

    assert found(node) == {BILLING: 2}


def test_a_group_that_could_not_be_looked_at_is_unknown() -> None:
    site, node = kept()
    other = site.node("blind")
    other.streams.fail("trim", StreamUnavailable("away"))

    other.tick()

    assert (found(other), found(node)) == ({}, {BILLING: 0})


def test_a_group_that_is_gone_is_counted_no_more() -> None:
    site, node = kept()
    node.run(node.coordinator.create_group(add_group()))
    site.pass_time(EVERY_MS, node)
    both = found(node)

    site.world.streams["orders:0"].entries.clear()
    node.run(node.coordinator.delete_group(DeleteGroup(AUDIT, ANN)))
    site.pass_time(EVERY_MS, node)

    assert (set(both), set(found(node))) == ({BILLING, AUDIT.group}, {BILLING})


def test_a_loss_that_may_be_greater_says_so() -> None:
    losses = Losses()

    losses.add(Missed(BILLING, 9, 1, exact=False), S0)

    assert losses.text() == (
        "at least 1 record was removed from shard 0 before this group had read them: a producer's max_len or "
        "somebody's XTRIM or XDEL is ahead of it"
    )


def test_the_group_that_holds_a_shard_back_is_known() -> None:
    site, node = kept()
    site.world.create_foreign("orders:0", (GroupName("their-own"),))
    site.append(0, 9)
    take(site, 9)

    site.pass_time(EVERY_MS, node)

    assert node.coordinator.held_back_by(ORDERS) == {S0: GroupName("their-own")}


class Untrimmable(MemoryStreamBackend):
    """What a third party may offer that knows nothing of trims."""

    trim = None  # type: ignore[assignment]


def test_shards_that_can_not_be_trimmed_keep_everything() -> None:
    site, node = kept()
    site.append(0, 9)
    take(site, 9)
    node.desk.streams = Untrimmable(site.world)

    site.pass_time(EVERY_MS, node)

    assert (lengths(site), found(node)) == ([9], {BILLING: 0})
