"""What is kept of a record that was given up."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from streamshard.core.dead_letters import DeadLetter, dead_letter_key, read_back, written
from streamshard.core.ids import GroupName, RecordId, ShardIndex, StreamPrefix

NAMES = st.binary() | st.sampled_from(
    [b"streamshard:", b"streamshard:id", b"streamshard:field:", b"streamshard:field:streamshard:id"]
)
LETTER = DeadLetter("no such customer: Zoë", 3, GroupName("billing"), ShardIndex(4), RecordId("5-1"), {b"a": b"\x00"})


def test_the_stream_of_the_dead_is_no_shard() -> None:
    assert dead_letter_key(StreamPrefix("orders")) == "orders:dlq"


def test_an_entry_says_why_and_where_from_beside_the_original_fields() -> None:
    assert written(LETTER) == {
        b"streamshard:reason": "no such customer: Zoë".encode(),
        b"streamshard:deliveries": b"3",
        b"streamshard:group": b"billing",
        b"streamshard:shard": b"4",
        b"streamshard:id": b"5-1",
        b"a": b"\x00",
    }


@given(st.dictionaries(NAMES, st.binary()))
def test_whatever_a_record_was_made_of_comes_back(fields: dict[bytes, bytes]) -> None:
    letter = attrs.evolve(LETTER, fields=fields)

    assert read_back(written(letter)) == letter


def test_a_stranger_s_entry_is_no_letter() -> None:
    assert read_back({b"a": b"1"}) is None
    assert read_back({**written(LETTER), b"streamshard:shard": b"none"}) is None
