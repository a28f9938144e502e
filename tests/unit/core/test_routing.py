"""Routing agrees with the published vectors, spreads evenly, and refuses what it can't route."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamshard.core.ring import Ring, virtual_points
from streamshard.core.routing import (
    DEFAULT_PROTOCOL,
    HASH_SPACE,
    POINTS,
    PROTOCOLS,
    jump,
    key_bytes,
    placing,
    route,
)
from streamshard.core.xxh64 import xxh64
from streamshard.errors import InvalidRequest
from tests.routed import VECTORS, Vector

KEYS = 20_000
EVEN = [(4, 16.27), (12, 31.26), (60, 99.61)]
"""Counts of shards with what chi-squared of one degree of freedom less exceeds with probability 0.001."""


def test_every_protocol_has_vectors() -> None:
    assert {vector.protocol for vector in VECTORS} == set(PROTOCOLS)
    assert DEFAULT_PROTOCOL in PROTOCOLS


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v.protocol}-{v.key.hex()[:24]}-{v.shards}")
def test_a_vector_is_met(vector: Vector) -> None:
    assert route(vector.protocol, vector.key, vector.shards) == vector.shard


@given(st.binary(), st.integers(1, HASH_SPACE))
def test_a_key_always_lands_on_one_of_the_shards(key: bytes, count: int) -> None:
    assert 0 <= route(DEFAULT_PROTOCOL, key, count) < count


@given(st.binary(), st.integers(1, 2**31 - 1))
def test_a_key_jumps_to_one_of_the_shards(key: bytes, count: int) -> None:
    assert 0 <= route("jump-v1", key, count) < count


@given(st.integers(0, 2**64 - 1), st.integers(1, 2_000))
def test_one_more_bucket_moves_a_key_to_itself_or_not_at_all(drawn: int, buckets: int) -> None:
    assert jump(drawn, buckets + 1) in (jump(drawn, buckets), buckets)


def spread(protocol: str, count: int, keys: int) -> Counter[int]:
    place = placing(protocol, count)
    return Counter(place(f"order-{number}".encode()) for number in range(keys))


@pytest.mark.parametrize(("count", "critical"), EVEN)
def test_keys_are_spread_evenly(count: int, critical: float) -> None:
    expected = 60_000 / count

    counts = spread(DEFAULT_PROTOCOL, count, 60_000)

    assert len(counts) == count
    assert sum((drawn - expected) ** 2 / expected for drawn in counts.values()) < critical


@pytest.mark.parametrize(("count", "critical"), EVEN)
def test_keys_jump_evenly(count: int, critical: float) -> None:
    expected = KEYS / count

    counts = spread("jump-v1", count, KEYS)

    assert len(counts) == count
    assert sum((drawn - expected) ** 2 / expected for drawn in counts.values()) < critical


@pytest.mark.parametrize(("count", "critical"), EVEN)
def test_keys_fall_on_the_ring_as_its_arcs_are_long(count: int, critical: float) -> None:
    ring = Ring(virtual_points((b"%d" % index for index in range(count)), [POINTS] * count, xxh64))
    expected = {shard: share * KEYS for shard, share in ring.shares().items()}

    counts = spread("ring-v1", count, KEYS)

    assert len(counts) == count
    assert sum((counts[shard] - hits) ** 2 / hits for shard, hits in expected.items()) < critical


@pytest.mark.parametrize("count", [2, 4, 12, 60])
def test_no_arc_of_the_ring_is_much_longer_than_its_fair_share(count: int) -> None:
    ring = Ring(virtual_points((b"%d" % index for index in range(count)), [POINTS] * count, xxh64))

    shares = ring.shares().values()

    assert max(shares) * count < 1.3
    assert min(shares) * count > 0.7


@pytest.mark.parametrize(
    ("protocol", "before", "after", "least", "most"),
    [
        ("murmur3-v1", 4, 5, 0.78, 0.82),
        ("murmur3-v1", 4, 8, 0.48, 0.52),
        ("jump-v1", 4, 5, 0.18, 0.22),
        ("jump-v1", 4, 8, 0.48, 0.52),
        ("ring-v1", 4, 5, 0.15, 0.25),
        ("ring-v1", 4, 8, 0.45, 0.55),
    ],
)
def test_so_many_keys_move(protocol: str, before: int, after: int, least: float, most: float) -> None:
    old, new = placing(protocol, before), placing(protocol, after)

    moved = sum(old(key) != new(key) for key in (f"order-{number}".encode() for number in range(KEYS)))

    assert least < moved / KEYS < most


@pytest.mark.parametrize("protocol", ["jump-v1", "ring-v1"])
def test_keys_that_move_go_to_the_new_shard_only(protocol: str) -> None:
    old, new = placing(protocol, 4), placing(protocol, 5)
    keys = [f"order-{number}".encode() for number in range(5_000)]

    assert {new(key) for key in keys if old(key) != new(key)} == {4}


@pytest.mark.parametrize(
    ("protocol", "count", "most"),
    [
        ("murmur3-v1", 0, HASH_SPACE),
        ("murmur3-v1", -1, HASH_SPACE),
        ("murmur3-v1", HASH_SPACE + 1, HASH_SPACE),
        ("jump-v1", 2**31, 2**31 - 1),
        ("ring-v1", 0, 1_024),
        ("ring-v1", 1_025, 1_024),
    ],
)
def test_a_count_that_no_key_can_be_routed_over_is_refused(protocol: str, count: int, most: int) -> None:
    text = f"shardCount: {protocol} can't route over {count} shards, it takes 1 to {most}"

    with pytest.raises(InvalidRequest, match=text):
        route(protocol, b"order-1", count)


@pytest.mark.parametrize("name", ["crc32", "", "MURMUR3-V1", "envoy-ring-v1"])
def test_an_unknown_protocol_is_refused_with_the_known_ones(name: str) -> None:
    text = f"routingProtocol: {name!r} is unknown, use one of: jump-v1, murmur3-v1, ring-v1"

    with pytest.raises(InvalidRequest, match=text):
        route(name, b"order-1", 4)


def test_text_is_routed_as_utf_8_and_bytes_as_they_are() -> None:
    assert key_bytes("주문-42") == bytes.fromhex("eca3bcebacb82d3432")
    assert key_bytes(b"\xff\x00") == b"\xff\x00"
    assert key_bytes("") == b""


@pytest.mark.parametrize("key", [None, 7, 1.5, True, bytearray(b"a"), ["a"]])
def test_a_key_of_another_type_is_refused(key: Any) -> None:
    with pytest.raises(TypeError, match=f"key: must be str or bytes, not {type(key).__name__}"):
        key_bytes(key)


def test_text_without_utf_8_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="key: has a lone surrogate at position 1"):
        key_bytes("a\ud800")
