"""The routing protocols over hash functions in C: the same shards as the core's, several times as fast."""

from collections.abc import Iterable
from functools import lru_cache

from jump import hash as jump
from xxhash import xxh64_intdigest

from streamshard.core import nodes, routing
from streamshard.core.ids import ShardIndex
from streamshard.core.nodes import Node, NodeRing
from streamshard.core.routing import Hashes, Place

FAST = Hashes(xxh64_intdigest, jump)
KEPT = 32


def route(protocol: str, key: bytes, shard_count: int) -> ShardIndex:
    """The shard of ``key`` among ``shard_count`` shards, for good.

    Raises `InvalidRequest` for a protocol this version does not know, and for a count that no key can
    be routed over.
    """
    return placing(protocol, shard_count)(key)


@lru_cache(maxsize=KEPT)
def placing(protocol: str, shard_count: int) -> Place:
    """How ``protocol`` finds the shard of a key; raises as `route` does. The rings used last are kept."""
    return routing.placing(protocol, shard_count, FAST)


def node_ring(protocol: str, members: Iterable[Node], minimum_ring_size: int = nodes.MINIMUM_RING_SIZE) -> NodeRing:
    """A ring over named nodes by ``ring-v1`` or ``envoy-ring-v1``; raises as `streamshard.core.nodes.node_ring`."""
    return nodes.node_ring(protocol, members, minimum_ring_size, FAST.xxh64)
