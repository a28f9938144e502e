"""Records as versions of the past wrote them are read for ever; those of the future are refused, each alone.

The files under ``tests/vectors/records`` are never written anew: a change that needs that is the mistake.
"""

import hashlib
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import pytest

from streamshard.adapters.stores import codec
from streamshard.core.group import (
    GroupRecord,
    GroupTombstone,
    Holding,
    Member,
    MemberState,
    Quarantine,
    Row,
    ShardProgress,
)
from streamshard.core.ids import (
    Epoch,
    Generation,
    GroupKey,
    GroupName,
    InstanceId,
    LayoutVersion,
    Lineage,
    MemberId,
    Millis,
    Nonce,
    RecordId,
    ReshardingId,
    Seq,
    ShardIndex,
    StreamPrefix,
    Token,
    Version,
    WallMillis,
)
from streamshard.core.stream import (
    EntryState,
    GroupEntry,
    IdempotentAnswer,
    Resharding,
    ReshardingState,
    Retention,
    Shard,
    ShardPhase,
    StreamRecord,
    StreamState,
    StreamTombstone,
)
from streamshard.core.timeline import Happening, Span
from streamshard.errors import MetadataCorrupt, UnsupportedSchema

AnyRecord: TypeAlias = codec.AnyStream | codec.AnyGroup
RECORDS = Path(__file__).parents[2] / "vectors" / "records"

ORDERS = StreamPrefix("orders")
BILLING = GroupName("billing")
KEY = GroupKey(ORDERS, BILLING)
VERSION = Version(Lineage("second"), 7, Nonce("n7"))
ONE, TWO = InstanceId("1" * 32), InstanceId("2" * 32)
S0, S1 = ShardIndex(0), ShardIndex(1)

ANSWER = IdempotentAnswer("key", "fingerprint", '{"answer":1}', WallMillis(5))
HAPPENED = Happening(WallMillis(6), "joined", "m0 joined", MemberId("m0"), (S0, S1))
SCALE_OUT = Resharding(
    ReshardingId("reshard-1"), 1, 2, ReshardingState.DEPRECATED, WallMillis(2), WallMillis(3), "ops", "more",
    (GroupName("audit"),), stop_producers=True, deprecated_after="2030-01-01T00:00:00Z", any_sealed=True,
)  # fmt: skip
SCALE_IN = Resharding(
    ReshardingId("reshard-2"), 2, 1, ReshardingState.DRAINING, WallMillis(4), WallMillis(5), "ops", "less"
)

STREAM = StreamRecord(
    prefix=ORDERS,
    version=VERSION,
    ring=(Nonce("n6"), Nonce("n7")),
    store="redis:주문",
    mac_key="secret",
    state=StreamState.ACTIVE,
    routed_count=1,
    layout_version=LayoutVersion(3),
    shards={
        S0: Shard(S0, Generation(1), ShardPhase.OPEN),
        S1: Shard(S1, Generation(2), ShardPhase.DRAINING),
    },
    groups={
        BILLING: GroupEntry(BILLING, EntryState.ACTIVE, "earliest", allow_legacy=True, keep_redis_group=True),
        GroupName("audit"): GroupEntry(GroupName("audit"), EntryState.CREATING, "latest"),
    },
    routing_protocol="murmur3-v1",
    created_at=WallMillis(1),
    adopt=True,
    resharding=SCALE_IN,
    history=(SCALE_OUT,),
    idempotency=(ANSWER,),
    drop_data=True,
    events=(HAPPENED,),
)
STREAM_TOMBSTONE = StreamTombstone(ORDERS, VERSION, LayoutVersion(3), {S1: Generation(2)}, WallMillis(9), (ANSWER,))

HELD = Holding(
    MemberId("m0"), ONE, Generation(1), Token(1_700_000_000_001), Token(7), Seq(3),
    draining=True, lapsed=True, listed=True, since=WallMillis(8),
)  # fmt: skip
GRANTED = Holding(MemberId("m1"), TWO, Generation(2), Token(1_700_000_000_002), Token(8), Seq(4))
GONE = Member(
    MemberId("m0"), "first", ONE, Epoch(4), MemberState.EXPIRED, WallMillis(1), 2, 8,
    legacy=True, advertised_url="http://m0", client_version="0.1", ignored_claims=2, ended_at=WallMillis(9),
)  # fmt: skip
LIVE = Member(MemberId("m1"), "second", TWO, Epoch(5), MemberState.ACTIVE, WallMillis(2))

GROUP = GroupRecord(
    key=KEY,
    version=VERSION,
    ring=(Nonce("n6"), Nonce("n7")),
    store="redis:주문",
    layout_version=LayoutVersion(3),
    layout={S0: Generation(1), S1: Generation(2)},
    group_epoch=Epoch(5),
    assignment_epoch=Epoch(4),
    metadata_version=9,
    members={GONE.id: GONE, LIVE.id: LIVE},
    targets={S0: LIVE.id, S1: LIVE.id},
    holdings={S0: HELD, S1: GRANTED},
    last_tokens={S0: HELD.token, S1: GRANTED.token},
    longest_leases={ONE: Millis(15_000), TWO: Millis(20_000)},
    past_lineages=(Lineage("first"),),
    departed=(InstanceId("3" * 32),),
    quarantine=Quarantine("a restore", WallMillis(7)),
    allow_legacy=True,
    events=(HAPPENED,),
    spans=(Span(S0, MemberId("m0"), Token(6), WallMillis(1), WallMillis(2)),),
)
GROUP_TOMBSTONE = GroupTombstone(
    KEY, VERSION, Epoch(5), 9, {S0: HELD}, {S0: HELD.token}, {ONE: Millis(15_000)}, (Lineage("first"),), WallMillis(9)
)

ROW = Row(
    ONE, Seq(12), Nonce("b" * 32), Millis(15_000), 3,
    (ShardProgress(S0, RecordId("5-1"), RecordId("4-0"), RecordId("3-9"), 2, 1, "READING"), ShardProgress(S1)),
)  # fmt: skip


def stored(name: str) -> bytes:
    return (RECORDS / f"{name}.json").read_bytes()


def told(record: AnyRecord) -> dict[str, Any]:
    """Everything a record says, also what does not count when two are compared."""
    return attrs.asdict(record)


@pytest.mark.parametrize(
    ("name", "record"),
    [("1-stream", STREAM), ("1-stream-tombstone", STREAM_TOMBSTONE)],
)
def test_a_stream_of_the_first_schema_is_read_for_ever(name: str, record: codec.AnyStream) -> None:
    found = codec.load_stream(stored(name), ORDERS)

    assert (found, told(found)) == (record, told(record))


@pytest.mark.parametrize(
    ("name", "record"),
    [("1-group", GROUP), ("1-group-tombstone", GROUP_TOMBSTONE)],
)
def test_a_group_of_the_first_schema_is_read_for_ever(name: str, record: codec.AnyGroup) -> None:
    found = codec.load_group(stored(name), KEY)

    assert (found, told(found)) == (record, told(record))


def test_a_row_of_the_first_schema_is_read_for_ever() -> None:
    assert codec.load_row(stored("1-row"), KEY, ONE) == ROW


def test_what_uses_nothing_new_is_written_as_the_first_version_wrote_it() -> None:
    written = {
        "1-stream": codec.dump_stream(STREAM),
        "1-stream-tombstone": codec.dump_stream(STREAM_TOMBSTONE),
        "1-group": codec.dump_group(GROUP),
        "1-group-tombstone": codec.dump_group(GROUP_TOMBSTONE),
        "1-row": codec.dump_row(ROW),
    }

    assert written == {name: stored(name) for name in written}


def test_a_stream_that_says_something_new_is_of_a_later_schema_and_is_read_for_ever() -> None:
    record = attrs.evolve(STREAM, retention=Retention.ACKNOWLEDGED)

    found = codec.load_stream(stored("2-stream-with-retention"), ORDERS)

    assert (found, told(found)) == (record, told(record))
    assert codec.dump_stream(record) == stored("2-stream-with-retention")


@pytest.mark.parametrize("name", ["2-group-with-a-later-field", "3-group"])
def test_a_group_that_a_newer_coordinator_wrote_is_refused_and_nothing_else_is(name: str) -> None:
    with pytest.raises(UnsupportedSchema, match="group 'orders/billing'.*upgrade this coordinator"):
        codec.load_group(stored(name), KEY)

    assert codec.load_stream(stored("1-stream"), ORDERS) == STREAM


@pytest.mark.parametrize("name", ["1-stream", "1-group"])
def test_a_stored_record_with_one_wrong_byte_is_corrupt(name: str) -> None:
    damaged = stored(name).replace(b"second", b"sec0nd", 1)

    with pytest.raises(MetadataCorrupt, match="checksum") as caught:
        codec.load_stream(damaged, ORDERS) if name == "1-stream" else codec.load_group(damaged, KEY)

    assert type(caught.value) is MetadataCorrupt


def test_a_record_of_the_second_schema_that_lost_a_field_of_the_first_is_corrupt() -> None:
    text = stored("1-group").partition(b'"kind"')[2].replace(b'"targets":{"0":"m1","1":"m1"},', b"")
    tail = b'"kind"' + text
    seal = hashlib.blake2b(b"2," + tail, digest_size=16).hexdigest().encode()

    with pytest.raises(MetadataCorrupt, match="targets: missing"):
        codec.load_group(b'{"schema":2,"sum":"%b",%b' % (seal, tail), KEY)
