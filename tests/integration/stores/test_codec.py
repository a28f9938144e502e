"""Every record survives the codec, and nothing but what was written is ever read."""

import hashlib
import json

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamshard.adapters.stores import codec
from streamshard.core.group import GroupRecord, GroupTombstone, Holding, Member, MemberState, Row, ShardProgress
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
    Seq,
    ShardIndex,
    StreamPrefix,
    Token,
    Version,
    WallMillis,
)
from streamshard.core.stream import StreamRecord, StreamTombstone
from streamshard.errors import InvalidRequest, MetadataCorrupt, UnsupportedSchema
from streamshard.testing import strategies

KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
HOLDING = Holding(MemberId("m0"), InstanceId("a" * 32), Generation(1), Token(7), Token(6), Seq(3))
GROUP = GroupRecord(
    key=KEY,
    version=Version(Lineage("l"), 4, Nonce("n")),
    ring=(Nonce("n"),),
    store="memory:1",
    layout_version=LayoutVersion(1),
    layout={ShardIndex(0): Generation(1)},
    holdings={ShardIndex(0): HOLDING},
)
ROW = Row(InstanceId("a" * 32), Seq(3), Nonce("b" * 32), Millis(15_000))


def _sealed(text: str) -> bytes:
    """A record whose checksum is right, whatever it says."""
    tail = text.encode()
    seal = hashlib.blake2b(b"1," + tail, digest_size=16).hexdigest()
    return b'{"schema":1,"sum":"%b",%b' % (seal.encode(), tail)


HEAD = len('{"schema":1,"sum":"",') + 32


def _group_text() -> str:
    return codec.dump_group(GROUP).decode()[HEAD:]


@given(strategies.streams | strategies.stream_tombstones)
def test_every_stream_record_comes_back_equal(record: StreamRecord | StreamTombstone) -> None:
    assert codec.load_stream(codec.dump_stream(record), record.prefix) == record


@given(strategies.groups | strategies.group_tombstones)
def test_every_group_record_comes_back_equal(record: GroupRecord | GroupTombstone) -> None:
    assert codec.load_group(codec.dump_group(record), record.key) == record


@given(strategies.rows, strategies.keys)
def test_every_row_comes_back_equal(row: Row, key: GroupKey) -> None:
    assert codec.load_row(codec.dump_row(row), key, row.instance) == row


@given(strategies.groups)
def test_a_record_is_one_json_document_that_other_tools_can_read(record: GroupRecord) -> None:
    document = json.loads(codec.dump_group(record))

    plain = all(member.principal is None for member in record.members.values())
    assert (document["schema"], document["kind"]) == (codec.FIRST_SCHEMA if plain else codec.SCHEMA, "group")
    assert document["body"]["key"] == {"prefix": record.key.prefix, "group": record.key.group}


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80, 0xFF])
def test_no_flipped_byte_is_ever_read_as_a_record(mask: int) -> None:
    whole = codec.dump_group(GROUP)

    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= mask
        with pytest.raises(MetadataCorrupt):
            codec.load_group(bytes(flipped), KEY)


@settings(max_examples=200)
@given(strategies.groups, st.data())
def test_no_damaged_record_is_ever_read_as_another(record: GroupRecord, data: st.DataObject) -> None:
    whole = codec.dump_group(record)
    start = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:start] + data.draw(st.binary(max_size=6)) + whole[start + data.draw(st.integers(0, 6)) :]

    if damaged == whole:
        assert codec.load_group(damaged, record.key) == record
    else:
        with pytest.raises(MetadataCorrupt):
            codec.load_group(damaged, record.key)


def test_a_record_of_a_newer_schema_asks_for_an_upgrade() -> None:
    newer = codec.dump_group(GROUP).replace(b'"schema":1', b'"schema":3')

    with pytest.raises(UnsupportedSchema, match="'orders/billing'.*schema 3.*upgrade"):
        codec.load_group(newer, KEY)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('"token":7', '"token":7,"colour":{"deep":[1.5,null]}', "holdings.0.colour"),
        ('"allow_legacy":false', '"allow_legacy":false,"colour":1', "colour"),
    ],
)
def test_a_field_that_this_version_does_not_know_asks_for_an_upgrade(old: str, new: str, where: str) -> None:
    extended = _group_text().replace(old, new)

    with pytest.raises(UnsupportedSchema, match=rf"'orders/billing'.*{where}: a field.*upgrade"):
        codec.load_group(_sealed(extended), KEY)


def test_what_a_row_only_shows_may_be_more_than_this_version_knows() -> None:
    text = codec.dump_row(attrs.evolve(ROW, progress=(ShardProgress(ShardIndex(0)),))).decode()[HEAD:]
    extended = text.replace('"pending":0', '"pending":0,"mood":"fine"').replace('"seq":3', '"seq":3,"colour":1')

    row = codec.load_row(_sealed(extended), KEY, ROW.instance)

    assert row == attrs.evolve(ROW, progress=(ShardProgress(ShardIndex(0)),))


@pytest.mark.parametrize("field", [field.name for field in attrs.fields(GroupRecord)])
def test_a_record_that_lacks_a_field_is_corrupt(field: str) -> None:
    document = json.loads(codec.dump_group(GROUP))
    del document["body"][field]
    text = json.dumps({"kind": "group", "body": document["body"]})[1:]

    with pytest.raises(MetadataCorrupt, match=f"'orders/billing'.*{field}: missing"):
        codec.load_group(_sealed(text), KEY)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"token":7', '"token":7.0', "holdings.0.token: not a whole number"),
        ('"token":7', '"token":true', "holdings.0.token: not a whole number"),
        ('"token":7', '"token":"7"', "holdings.0.token: not a whole number"),
        ('"token":7', '"token":NaN', "NaN is no number"),
        ('"token":7', '"token":-Infinity', "-Infinity is no number"),
        ('"token":7', '"token":9007199254740992', "holdings.0.token: not a whole number"),
        ('"token":7', '"token":' + "9" * 5000, "can't be trusted"),
        ('"token":7', '"token":7,"token":8', "there twice"),
        ('"draining":false', '"draining":0', "holdings.0.draining: neither true nor false"),
        ('"member":"m0"', '"member":"\\ud800"', "holdings.0.member: not valid Unicode"),
        ('"member":"m0"', '"member":null', "holdings.0.member: not text"),
        ('"holdings":{"0":', '"holdings":{"00":', "holdings.00: a key is not a whole number"),
        ('"holdings":{"0":', '"holdings":{"zero":', "holdings.zero: a key is not a whole number"),
        ('"targets":{}', '"targets":[]', "targets: not an object"),
        ('"ring":["n"]', '"ring":"n"', "ring: not a list"),
        ('"quarantine":null', '"quarantine":{}', "quarantine.reason: missing"),
        ('"kind":"group"', '"kind":"row"', "another kind"),
        ('"kind":"group"', '"kind":["group"]', "another kind"),
        ('"kind":"group"', '"kind":"group","deep":' + "[" * 100_000 + "]" * 100_000, "recursion"),
        ('"group":"billing"', '"group":"shipping"', "record of group 'orders/shipping'"),
    ],
)
def test_a_malformed_record_is_corrupt_even_under_a_right_checksum(old: str, new: str, why: str) -> None:
    text = _group_text()
    assert old in text

    with pytest.raises(MetadataCorrupt, match=r"'orders/billing'") as caught:
        codec.load_group(_sealed(text.replace(old, new, 1)), KEY)

    assert why in str(caught.value)


@pytest.mark.parametrize("data", [None, "text", 7, b"", b"{}", b"\x00" * 64])
def test_what_never_was_a_record_is_corrupt(data: object) -> None:
    with pytest.raises(MetadataCorrupt, match="stream 'orders'"):
        codec.load_stream(data, StreamPrefix("orders"))


def test_an_entry_under_another_name_is_corrupt() -> None:
    member = Member(MemberId("m0"), "", InstanceId("i"), Epoch(1), MemberState.ACTIVE, WallMillis(1))
    record = attrs.evolve(GROUP, members={MemberId("m1"): member})

    with pytest.raises(MetadataCorrupt, match="'m1' calls itself 'm0'"):
        codec.load_group(codec.dump_group(record), KEY)


def test_a_row_of_another_instance_is_corrupt() -> None:
    with pytest.raises(MetadataCorrupt, match="row of instance 'other' in group 'orders/billing'"):
        codec.load_row(codec.dump_row(ROW), KEY, InstanceId("other"))


@pytest.mark.parametrize(
    "row",
    [attrs.evolve(ROW, seq=Seq(2**53)), attrs.evolve(ROW, mark=Nonce("\udfff"))],
)
def test_what_could_not_be_read_back_is_never_written(row: Row) -> None:
    with pytest.raises(InvalidRequest, match="can't be stored"):
        codec.dump_row(row)


def test_an_epoch_below_zero_comes_back() -> None:
    record = attrs.evolve(GROUP, group_epoch=Epoch(-1))

    assert codec.load_group(codec.dump_group(record), KEY) == record


@given(strategies.rows)
def test_a_row_is_written_like_every_other_record(row: Row) -> None:
    assert codec.dump_row(row) == codec._dump(row, "row")
