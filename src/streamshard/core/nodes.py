"""Which of several named nodes a key belongs to: gateways, pods, the hosts behind a proxy."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import attrs

from streamshard.core.ring import Hash64, Ring, virtual_points
from streamshard.core.routing import POINTS
from streamshard.core.xxh64 import xxh64
from streamshard.errors import InvalidRequest

MINIMUM_RING_SIZE = 1_024
MOST_POINTS = 2**20
"""Of one ring; some tens of megabytes."""


@attrs.frozen
class Node:
    """One place on the ring; twice the weight is twice the keys. To Envoy the name is ``ADDRESS:PORT``."""

    name: str
    weight: int = 1


class NodeRing:
    """Where keys belong among nodes."""

    def __init__(self, names: Sequence[str], ring: Ring, hashed: Hash64) -> None:
        self.names = tuple(names)
        self.ring = ring
        self._find = ring.finder(hashed)

    def node(self, key: bytes) -> str:
        """The name of the node that ``key`` belongs to."""
        return self.names[self._find(key)]


def node_ring(
    protocol: str, nodes: Iterable[Node], minimum_ring_size: int = MINIMUM_RING_SIZE, hashed: Hash64 = xxh64
) -> NodeRing:
    """The ring of ``nodes``; ``minimum_ring_size`` is Envoy's setting and no other protocol's.

    Raises `InvalidRequest` for an unknown protocol, and for nodes that make no ring.
    """
    if protocol not in NODE_PROTOCOLS:
        known = ", ".join(sorted(NODE_PROTOCOLS))
        raise InvalidRequest(f"protocol: {protocol!r} is unknown for nodes, use one of: {known}")
    given = tuple(nodes)
    _check(given)
    members, points = NODE_PROTOCOLS[protocol](given, minimum_ring_size)
    if sum(points) > MOST_POINTS:
        raise InvalidRequest(f"nodes: take {sum(points)} points on the ring, at most {MOST_POINTS}: use lower weights")
    names = [node.name for node in members]
    ring = Ring(virtual_points((name.encode() for name in names), points, hashed))
    return NodeRing(names, ring, hashed)


def _check(nodes: Sequence[Node]) -> None:
    if not nodes:
        raise InvalidRequest("nodes: there is none: name one or more")
    if len({node.name for node in nodes}) < len(nodes):
        raise InvalidRequest("nodes: one is named twice: name each once, with a weight if it should have more keys")
    for node in nodes:
        if not node.name or not node.name.isprintable():
            raise InvalidRequest(f"nodes: {node.name!r} is no name: it takes printable text")
        if node.weight < 1:
            raise InvalidRequest(f"nodes: the weight of {node.name} must be 1 or more, not {node.weight}")


_Parts = tuple[Sequence[Node], Sequence[int]]


def _ring_v1(nodes: Sequence[Node], minimum_ring_size: int) -> _Parts:
    # Sorted, so that the order in which somebody lists the nodes has no say even where hashes meet.
    members = sorted(nodes, key=lambda node: node.name)
    return members, [POINTS * node.weight for node in members]


def _envoy_ring_v1(nodes: Sequence[Node], minimum_ring_size: int) -> _Parts:
    """As Envoy's ``RING_HASH`` with ``XX_HASH``: the least weight gets a whole number of points.

    Source: https://github.com/envoyproxy/envoy, ring_hash_lb.cc. Envoy adds up floating point numbers host by host,
    so with weights the order of the hosts can matter by one point, and is kept.
    """
    if not 1 <= minimum_ring_size <= MOST_POINTS:
        raise InvalidRequest(f"minimum ring size: must be from 1 to {MOST_POINTS}, not {minimum_ring_size}")
    total = sum(node.weight for node in nodes)
    least = min(node.weight / total for node in nodes)
    scale = math.ceil(least * minimum_ring_size) / least
    points, made, wanted = [], 0, 0.0
    for node in nodes:
        wanted += scale * (node.weight / total)
        points.append(max(0, math.ceil(wanted) - made))
        made += points[-1]
    return nodes, points


NODE_PROTOCOLS: Mapping[str, Callable[[Sequence[Node], int], _Parts]] = MappingProxyType(
    {"envoy-ring-v1": _envoy_ring_v1, "ring-v1": _ring_v1}
)
"""Every protocol that routes over named nodes, by name."""
