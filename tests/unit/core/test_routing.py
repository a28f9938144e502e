"""Routing agrees with the published vectors, spreads evenly, and refuses what it can't route."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamshard.core.routing import DEFAULT_PROTOCOL, HASH_SPACE, PROTOCOLS, key_bytes, route
from streamshard.errors import InvalidRequest

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "routing.json").read_text(encoding="utf-8"))


def test_every_protocol_has_vectors() -> None:
    assert sorted(VECTORS) == sorted(PROTOCOLS)
    assert DEFAULT_PROTOCOL in PROTOCOLS


@pytest.mark.parametrize(
    ("protocol", "vector"),
    [(protocol, vector) for protocol, vectors in VECTORS.items() for vector in vectors],
)
def test_a_vector_is_met(protocol: str, vector: dict[str, Any]) -> None:
    assert route(protocol, bytes.fromhex(vector["key"]), vector["shards"]) == vector["shard"]


@given(st.binary(), st.integers(1, HASH_SPACE))
def test_a_key_always_lands_on_one_of_the_shards(key: bytes, count: int) -> None:
    assert 0 <= route(DEFAULT_PROTOCOL, key, count) < count


@pytest.mark.parametrize(("count", "critical"), [(4, 16.27), (12, 31.26), (60, 99.61)])
def test_keys_are_spread_evenly(count: int, critical: float) -> None:
    """Chi-squared with ``count - 1`` degrees of freedom; beyond ``critical`` with probability 0.001."""
    keys = 60_000

    counts = Counter(route(DEFAULT_PROTOCOL, f"order-{number}".encode(), count) for number in range(keys))

    expected = keys / count
    assert len(counts) == count
    assert sum((drawn - expected) ** 2 / expected for drawn in counts.values()) < critical


@pytest.mark.parametrize("count", [0, -1, HASH_SPACE + 1])
def test_a_count_that_no_key_can_be_routed_over_is_refused(count: int) -> None:
    with pytest.raises(InvalidRequest, match=f"shardCount: no key can be routed over {count} shards"):
        route(DEFAULT_PROTOCOL, b"order-1", count)


def test_an_unknown_protocol_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match="routingProtocol: 'crc32' is unknown, use one of: murmur3-v1"):
        route("crc32", b"order-1", 4)


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
