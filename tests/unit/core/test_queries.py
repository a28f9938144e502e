"""A group's state says how far holdings are from targets; health says what was measured."""

import attrs
import pytest

from streamshard.core.group import GroupRecord, Holding, Member, MemberState
from streamshard.core.ids import (
    Epoch,
    Generation,
    GroupKey,
    GroupName,
    InstanceId,
    LayoutVersion,
    Lineage,
    MemberId,
    Nonce,
    Seq,
    ShardIndex,
    StreamPrefix,
    Token,
    Version,
    WallMillis,
)
from streamshard.core.queries import Exclusivity, GroupState, GroupView, Health
from streamshard.core.stream import StreamRecord, StreamState

A = MemberId("a")
SHARD = ShardIndex(0)
VERSION = Version(Lineage("l1"), 1, Nonce("n1"))

STREAM = StreamRecord(
    prefix=StreamPrefix("orders"),
    version=VERSION,
    ring=(),
    store="memory",
    mac_key="00",
    state=StreamState.ACTIVE,
    routed_count=1,
    layout_version=LayoutVersion(1),
    shards={},
    groups={},
    routing_protocol="murmur3-v1",
    created_at=WallMillis(0),
)
MEMBER = Member(
    id=A,
    name="a",
    instance=InstanceId("i1"),
    epoch=Epoch(1),
    state=MemberState.ACTIVE,
    joined_at=WallMillis(0),
)
HOLDING = Holding(
    member=A,
    instance=InstanceId("i1"),
    generation=Generation(1),
    token=Token(1),
    floor=Token(0),
    seq=Seq(1),
    listed=True,
)
SETTLED = GroupRecord(
    key=GroupKey(StreamPrefix("orders"), GroupName("billing")),
    version=VERSION,
    ring=(),
    store="memory",
    layout_version=LayoutVersion(1),
    layout={SHARD: Generation(1)},
    members={A: MEMBER},
    targets={SHARD: A},
    holdings={SHARD: HOLDING},
)


def state_of(record: GroupRecord) -> GroupState:
    return GroupView(STREAM, record, {}).state


def test_a_group_is_stable_when_targets_hold_and_report_their_shards() -> None:
    assert state_of(SETTLED) is GroupState.STABLE


@pytest.mark.parametrize("ended", [MemberState.LEAVING, MemberState.EXPIRED, MemberState.FENCED])
def test_a_group_without_a_live_member_is_empty(ended: MemberState) -> None:
    assert state_of(attrs.evolve(SETTLED, members={A: attrs.evolve(MEMBER, state=ended)})) is GroupState.EMPTY
    assert state_of(attrs.evolve(SETTLED, members={})) is GroupState.EMPTY


def test_a_group_whose_targets_are_of_an_older_epoch_is_assigning() -> None:
    assert state_of(attrs.evolve(SETTLED, group_epoch=Epoch(2))) is GroupState.ASSIGNING


def test_a_group_with_a_shard_without_target_is_assigning() -> None:
    wider = attrs.evolve(SETTLED, layout={SHARD: Generation(1), ShardIndex(1): Generation(1)})

    assert state_of(wider) is GroupState.ASSIGNING


@pytest.mark.parametrize(
    "holding",
    [
        attrs.evolve(HOLDING, member=MemberId("b")),
        attrs.evolve(HOLDING, listed=False),
        attrs.evolve(HOLDING, lapsed=True),
        attrs.evolve(HOLDING, instance=InstanceId("i0")),
    ],
    ids=["held by another", "not reported yet", "lapsed", "held by an earlier instance"],
)
def test_a_group_whose_holdings_are_not_its_targets_yet_is_reconciling(holding: Holding) -> None:
    assert state_of(attrs.evolve(SETTLED, holdings={SHARD: holding})) is GroupState.RECONCILING


@pytest.mark.parametrize(
    ("store", "redis", "loop", "violations", "status"),
    [
        ("UP", "UP", "UP", (), "UP"),
        ("UP", "NOT_CONFIGURED", "UP", (), "UP"),
        ("UP", "DOWN", "UP", (), "DEGRADED"),
        ("UP", "UP", "UP", ("two readers",), "DEGRADED"),
        ("DOWN", "UP", "UP", (), "DOWN"),
        ("READ_ONLY", "UP", "UP", (), "DEGRADED"),
        ("READ_ONLY", "UP", "STALLED", (), "DOWN"),
        ("UP", "UP", "STALLED", (), "DOWN"),
    ],
)
def test_health_is_down_without_store_or_loop_and_degraded_without_redis_or_after_a_violation(
    store: str, redis: str, loop: str, violations: tuple[str, ...], status: str
) -> None:
    assert Health("c1", store, redis, loop, violations).status == status


def test_one_group_of_trusted_clients_is_told_and_is_no_ailment() -> None:
    health = Health("c1", "UP", "UP", "UP", cooperative_groups=("orders/billing",))

    assert (health.status, health.exclusivity) == ("UP", Exclusivity.COOPERATIVE)
