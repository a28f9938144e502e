"""Slots are those of Redis Cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from streamshard.core.slots import SLOT_COUNT, hash_slot


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        ("orders:0", 8578),
        ("orders:1", 12707),
        ("orders:2", 448),
        ("create-order:4", 9068),
        ("invoices:0", 13385),
        ("invoices:1", 9320),
        ("123456789", 0x31C3),
        ("", 0),
    ],
)
def test_a_known_key_has_its_known_slot(key: str, slot: int) -> None:
    assert hash_slot(key) == slot


def test_text_and_its_bytes_have_one_slot() -> None:
    assert hash_slot("주문:0") == hash_slot("주문:0".encode())


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("{orders:3}:fence", "orders:3"),
        ("a{b}c{d}", "b"),
        ("a{{b}}", "{b"),
        ("}a{b}", "b"),
    ],
)
def test_only_the_first_hash_tag_counts(key: str, hashed: str) -> None:
    assert hash_slot(key) == hash_slot(hashed)


@pytest.mark.parametrize(
    ("key", "slot"),
    [("a{}{b}", 15033), ("a{b", 13340), ("a}b", 7866), ("b", 3300)],
)
def test_a_key_without_a_filled_tag_is_hashed_whole(key: str, slot: int) -> None:
    assert hash_slot(key) == slot


@given(st.text("{}ab:\0é"))
def test_the_cluster_client_puts_every_key_into_the_same_slot(key: str) -> None:
    assert hash_slot(key) == key_slot(key.encode())


@given(st.binary())
def test_every_key_has_a_slot_in_range(key: bytes) -> None:
    assert 0 <= hash_slot(key) < SLOT_COUNT
