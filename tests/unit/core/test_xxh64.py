"""The hash agrees with its author's library, whatever the length."""

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from streamshard.core.xxh64 import xxh64


@pytest.mark.parametrize(
    ("data", "hashed"),
    [(b"", 0xEF46DB3751D8E999), (b"a", 0xD24EC4F1A98C6E5B), (b"abc", 0x44BC2CF5AD770999)],
)
def test_a_published_hash_is_met(data: bytes, hashed: int) -> None:
    assert xxh64(data) == hashed


@given(st.binary(max_size=200))
def test_it_is_the_hash_of_the_library(data: bytes) -> None:
    assert xxh64(data) == xxhash.xxh64_intdigest(data)


@pytest.mark.parametrize("length", range(100))
def test_every_length_has_its_tail(length: int) -> None:
    data = bytes(range(255, 255 - length, -1))

    assert xxh64(data) == xxhash.xxh64_intdigest(data)
