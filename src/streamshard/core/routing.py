"""Which shard a key belongs to. Server, producers and gateways all ask here, so that they agree."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import mmh3

from streamshard.core.ids import ShardIndex
from streamshard.errors import InvalidRequest

HASH_SPACE = 2**32
DEFAULT_PROTOCOL = "murmur3-v1"


def key_bytes(key: str | bytes) -> bytes:
    """The bytes that are hashed: text as UTF-8, bytes as they are; anything else is a `TypeError`.

    Raises `InvalidRequest` for text with a lone surrogate, which has no UTF-8.
    """
    if isinstance(key, bytes):
        return key
    if not isinstance(key, str):
        raise TypeError(
            f"key: must be str or bytes, not {type(key).__name__}: encode it, so that every producer hashes the same"
        )
    try:
        return key.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"key: has a lone surrogate at position {error.start} and so no UTF-8: mend the text or pass bytes"
        ) from error


def route(protocol: str, key: bytes, shard_count: int) -> ShardIndex:
    """The shard of ``key`` among ``shard_count`` shards, for good.

    Raises `InvalidRequest` for a protocol this version does not know, and for a count that no key can
    be routed over.
    """
    return ShardIndex(placing(protocol, shard_count)(key, shard_count))


def placing(protocol: str, shard_count: int) -> Callable[[bytes, int], int]:
    """How ``protocol`` finds the shard of a key, for who has many keys to route; raises as `route` does."""
    place = PROTOCOLS.get(protocol)
    if place is None:
        known = ", ".join(sorted(PROTOCOLS))
        raise InvalidRequest(f"routingProtocol: {protocol!r} is unknown, use one of: {known}; or upgrade streamshard")
    if not 1 <= shard_count <= HASH_SPACE:
        raise InvalidRequest(f"shardCount: no key can be routed over {shard_count} shards, it takes 1 to {HASH_SPACE}")
    return place


def _murmur3_v1(key: bytes, shard_count: int) -> int:
    # The hashes above the last whole multiple would favour the low shards: they are drawn again.
    fair = HASH_SPACE - HASH_SPACE % shard_count
    drawn = mmh3.hash(key, 0, signed=False)
    attempt = 0
    while drawn >= fair:
        attempt += 1
        seed = mmh3.hash(attempt.to_bytes(4, "little"), 0, signed=False)
        drawn = mmh3.hash(key, seed, signed=False)
    return drawn % shard_count


PROTOCOLS: Mapping[str, Callable[[bytes, int], int]] = MappingProxyType({"murmur3-v1": _murmur3_v1})
"""Every routing protocol by the name that travels with the metadata; a name never changes its meaning."""
