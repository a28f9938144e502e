"""What may stand in a record."""

import enum
from typing import Any

import pytest

from streamshard.core.values import MOST_BYTES, encode_fields
from streamshard.errors import InvalidRequest


class Colour(enum.IntEnum):
    RED = 3


class Word(enum.StrEnum):
    HI = "hi"


class Shy(float):
    def __repr__(self) -> str:
        return "Shy"


def test_every_kind_of_value_is_stored_as_its_text_or_its_bytes() -> None:
    every_byte = bytes(range(256))

    stored = encode_fields({"text": "주문", b"raw": every_byte, "n": -7, "x": 0.1, "big": 2**80, "e": ""})

    assert stored == {
        b"text": "주문".encode(),
        b"raw": every_byte,
        b"n": b"-7",
        b"x": b"0.1",
        b"big": b"1208925819614629174706176",
        b"e": b"",
    }


def test_of_a_number_that_shows_itself_by_a_name_the_number_is_stored() -> None:
    assert encode_fields({"a": Colour.RED, "b": Shy(1.5), "c": Word.HI}) == {b"a": b"3", b"b": b"1.5", b"c": b"hi"}


def test_floats_that_are_no_numbers_are_stored_as_python_writes_them() -> None:
    assert encode_fields({"a": float("inf"), "b": float("nan")}) == {b"a": b"inf", b"b": b"nan"}


@pytest.mark.parametrize("value", [None, True, [1], {"a": 1}, object(), bytearray(b"x"), memoryview(b"x"), 1j])
def test_another_type_is_refused_by_the_name_of_its_field(value: Any) -> None:
    kind = type(value).__name__

    with pytest.raises(TypeError, match=rf"field 'n': the value must be str, bytes, int or float, not {kind}"):
        encode_fields({"fine": 1, "n": value})


@pytest.mark.parametrize("name", [None, 7, True, ("a",)])
def test_a_name_is_text_or_bytes(name: Any) -> None:
    with pytest.raises(TypeError, match=r"the name must be str or bytes"):
        encode_fields({name: 1})


@pytest.mark.parametrize("fields", [None, [("a", 1)], "a", 3])
def test_fields_are_a_mapping(fields: Any) -> None:
    with pytest.raises(TypeError, match=r"fields: must be a mapping"):
        encode_fields(fields)


def test_a_record_has_at_least_one_field() -> None:
    with pytest.raises(InvalidRequest, match=r"fields: a record needs at least one field"):
        encode_fields({})


def test_one_name_in_two_types_is_refused_instead_of_losing_a_value() -> None:
    with pytest.raises(InvalidRequest, match=r"two names are the same bytes"):
        encode_fields({"a": 1, b"a": 2})


@pytest.mark.parametrize("fields", [{"a": "x\ud800"}, {"\ud800": "x"}])
def test_text_without_utf_8_is_refused(fields: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"lone surrogate at position"):
        encode_fields(fields)


def test_a_number_of_too_many_digits_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"field 'n': the number has too many digits"):
        encode_fields({"n": 10**5000})


def test_a_record_has_a_largest_size() -> None:
    half = bytes(MOST_BYTES // 2)

    assert len(encode_fields({"": half, b"b": half[:-1]})) == 2
    with pytest.raises(InvalidRequest, match=rf"fields: {MOST_BYTES + 1} bytes in one record, the most is"):
        encode_fields({"": half, "b": half})
