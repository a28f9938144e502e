"""Which shard a key belongs to. Server, producers and gateways all ask here, so that they agree."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, cast

import mmh3

from streamshard.core.ids import ShardIndex
from streamshard.core.ring import Hash64, Ring, virtual_points
from streamshard.core.xxh64 import xxh64
from streamshard.errors import InvalidRequest

HASH_SPACE = 2**32
DEFAULT_PROTOCOL = "murmur3-v1"
POINTS = 160
"""How many points of the ring a shard has, and a node of weight 1."""

Place: TypeAlias = Callable[[bytes], ShardIndex]
"""From a key to its shard, over a fixed number of shards."""


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
    return placing(protocol, shard_count)(key)


class Hashes(NamedTuple):
    """What the protocols are made of; whoever has faster ones with the same results may pass those instead."""

    xxh64: Hash64
    jump: Callable[[int, int], int]


def jump(drawn: int, buckets: int) -> int:
    """The bucket of a 64-bit hash by Lamping and Veach 2014 (https://arxiv.org/abs/1406.2294), figure 1."""
    bucket, landing = -1, 0
    while landing < buckets:
        bucket = landing
        drawn = (drawn * 2862933555777941757 + 1) % 2**64
        landing = int((bucket + 1) * (2.0**31 / ((drawn >> 33) + 1)))
    return bucket


PURE = Hashes(xxh64, jump)

_Find: TypeAlias = Callable[[bytes], int]


def placing(protocol: str, shard_count: int, hashes: Hashes = PURE) -> Place:
    """How ``protocol`` finds the shard of a key, for who has many keys to route; raises as `route` does.

    A ring is computed anew with each call: keep what is returned.
    """
    problem = unroutable(protocol, shard_count)
    if problem is not None:
        raise problem
    return cast("Place", PROTOCOLS[protocol].prepare(shard_count, hashes))


def unroutable(protocol: str, shard_count: int) -> InvalidRequest | None:
    """Why no key can be routed so, if that is the case."""
    known = PROTOCOLS.get(protocol)
    if known is None:
        names = ", ".join(sorted(PROTOCOLS))
        return InvalidRequest(f"routingProtocol: {protocol!r} is unknown, use one of: {names}; or upgrade streamshard")
    if not 1 <= shard_count <= known.most_shards:
        text = f"shardCount: {protocol} can't route over {shard_count} shards, it takes 1 to {known.most_shards}"
        return InvalidRequest(text)
    return None


def _murmur3_v1(shard_count: int, hashes: Hashes) -> _Find:
    # The hashes above the last whole multiple would favour the low shards: they are drawn again.
    fair, murmur3 = HASH_SPACE - HASH_SPACE % shard_count, mmh3.hash

    def place(key: bytes) -> int:
        drawn = murmur3(key, 0, signed=False)
        attempt = 0
        while drawn >= fair:
            attempt += 1
            seed = murmur3(attempt.to_bytes(4, "little"), 0, signed=False)
            drawn = murmur3(key, seed, signed=False)
        return drawn % shard_count

    return place


def _jump_v1(shard_count: int, hashes: Hashes) -> _Find:
    hashed, bucket = hashes
    return lambda key: bucket(hashed(key), shard_count)


def _ring_v1(shard_count: int, hashes: Hashes) -> _Find:
    names = (b"%d" % index for index in range(shard_count))
    return Ring(virtual_points(names, [POINTS] * shard_count, hashes.xxh64)).finder(hashes.xxh64)


class Protocol(NamedTuple):
    """A rule from key to shard, and over how many shards it goes."""

    prepare: Callable[[int, Hashes], _Find]
    most_shards: int


PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        "murmur3-v1": Protocol(_murmur3_v1, HASH_SPACE),
        "jump-v1": Protocol(_jump_v1, 2**31 - 1),
        # 160 points a shard: with more shards than this, making the ring would hold up an event loop.
        "ring-v1": Protocol(_ring_v1, 1_024),
    }
)
"""Every routing protocol by the name that travels with the metadata; a name never changes its meaning."""
