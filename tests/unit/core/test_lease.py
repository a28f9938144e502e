"""What a producer may still route by."""

import attrs
import pytest

from streamshard.core.ids import GroupKey, GroupName, Instant, LayoutVersion, Lineage, Millis, StreamPrefix
from streamshard.core.lease import RoutingLease, adopt, invalidate, refresh_due, usable
from streamshard.core.replies import Routing
from streamshard.errors import RoutingExpired

ORDERS = GroupKey(StreamPrefix("orders"), GroupName("billing"))
FOUR = Routing(
    key=ORDERS,
    shard_count=4,
    layout_version=LayoutVersion(3),
    lineage=Lineage("a"),
    metadata_version=7,
    protocol="murmur3-v1",
    lease_ms=Millis(60_000),
)
USABLE_MS = 60_000 * 99 // 100 - 3_000
EMPTY = RoutingLease(ORDERS)


def adopted(routing: Routing = FOUR, sent_at: int = 1_000, jitter: float = 0.5) -> RoutingLease:
    lease, problem = adopt(EMPTY, routing, Instant(sent_at), Instant(sent_at), jitter)
    assert problem is None
    return lease


def test_nothing_is_usable_before_the_first_answer() -> None:
    assert refresh_due(EMPTY, Instant(0))
    with pytest.raises(RoutingExpired, match=r"no routing of orders/billing yet"):
        usable(EMPTY, Instant(0))


def test_a_routing_is_usable_until_its_lease_ends_counted_from_when_it_was_asked_for() -> None:
    lease = adopted()

    assert usable(lease, Instant(1_000 + USABLE_MS - 1)) == FOUR
    with pytest.raises(RoutingExpired, match=r"expired 0 ms ago"):
        usable(lease, Instant(1_000 + USABLE_MS))


def test_an_answer_that_comes_after_its_own_lease_is_not_taken() -> None:
    lease, problem = adopt(EMPTY, FOUR, Instant(0), Instant(USABLE_MS), 0.0)

    assert lease == EMPTY
    assert problem == "the routing of orders/billing came after its own lease of 60000 ms was over"


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.75])
def test_a_refresh_is_due_after_a_jittered_part_of_the_lease(jitter: float) -> None:
    lease = adopted(sent_at=0, jitter=jitter)
    pause = int((USABLE_MS // 2) * (0.8 + 0.4 * jitter))

    assert not refresh_due(lease, Instant(pause - 1))
    assert refresh_due(lease, Instant(pause))


def test_a_short_refresh_interval_is_kept() -> None:
    lease, _ = adopt(RoutingLease(ORDERS, Millis(1_000)), FOUR, Instant(0), Instant(0), 0.5)

    assert lease.refresh_at == 1_000


def test_an_invalidated_routing_is_due_at_once_and_usable_still() -> None:
    lease = invalidate(adopted())

    assert refresh_due(lease, Instant(1_000))
    assert usable(lease, Instant(1_001)) == FOUR


def test_a_newer_layout_replaces_the_known_one() -> None:
    eight = attrs.evolve(FOUR, shard_count=8, layout_version=LayoutVersion(4))

    lease, problem = adopt(adopted(), eight, Instant(2_000), Instant(2_000), 0.5)

    assert problem is None
    assert usable(lease, Instant(2_000)) == eight


def test_a_layout_does_not_run_backwards_within_a_lineage() -> None:
    older = attrs.evolve(FOUR, shard_count=2, layout_version=LayoutVersion(2))

    lease, problem = adopt(adopted(), older, Instant(2_000), Instant(2_000), 0.5)

    assert lease == adopted()
    assert problem == "the layout of orders/billing ran backwards: 3 to 2"


def test_another_lineage_may_begin_lower() -> None:
    reborn = attrs.evolve(FOUR, shard_count=2, layout_version=LayoutVersion(1), lineage=Lineage("b"))

    lease, problem = adopt(adopted(), reborn, Instant(2_000), Instant(2_000), 0.5)

    assert (lease.routing, problem) == (reborn, None)


def test_one_version_stands_for_one_layout() -> None:
    other = attrs.evolve(FOUR, shard_count=5)

    lease, problem = adopt(adopted(), other, Instant(2_000), Instant(2_000), 0.5)

    assert (lease, problem) == (adopted(), "two layouts of orders/billing under one version, 3")


@pytest.mark.parametrize("count", [-1, 16_385])
def test_a_shard_count_out_of_range_is_refused(count: int) -> None:
    _, problem = adopt(EMPTY, attrs.evolve(FOUR, shard_count=count), Instant(0), Instant(0), 0.5)

    assert problem == f"the routing of orders/billing has {count} shards: must be between 0 and 16384"


def test_a_count_that_the_protocol_can_not_route_over_is_refused() -> None:
    vast = attrs.evolve(FOUR, protocol="ring-v1", shard_count=1_025)

    _, problem = adopt(EMPTY, vast, Instant(0), Instant(0), 0.5)

    assert problem == (
        "the routing of orders/billing can't be used here: "
        "shardCount: ring-v1 can't route over 1025 shards, it takes 1 to 1024"
    )


def test_a_drained_stream_has_a_routing_without_shards() -> None:
    lease = adopted(attrs.evolve(FOUR, shard_count=0))

    assert usable(lease, Instant(1_000)).shard_count == 0


def test_the_answer_for_another_group_is_refused() -> None:
    stranger = attrs.evolve(FOUR, key=GroupKey(StreamPrefix("orders"), GroupName("mail")))

    _, problem = adopt(EMPTY, stranger, Instant(0), Instant(0), 0.5)

    assert problem == "asked for the routing of orders/billing, got that of orders/mail"
