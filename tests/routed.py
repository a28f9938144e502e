"""The routing vectors of `tests/vectors/routing.json`, for every side that routes."""

import json
from pathlib import Path
from typing import Any

import attrs

from streamshard.core.nodes import Node

_FILE: dict[str, Any] = json.loads((Path(__file__).parent / "vectors" / "routing.json").read_text(encoding="utf-8"))


@attrs.frozen
class Vector:
    """Where a key belongs among so many shards."""

    protocol: str
    key: bytes
    shards: int
    shard: int


@attrs.frozen
class NodeVector:
    """Where a key belongs among nodes."""

    protocol: str
    key: bytes
    nodes: tuple[Node, ...]
    ring_size: int
    node: str


VECTORS = [
    Vector(protocol, bytes.fromhex(row["key"]), row["shards"], row["shard"])
    for protocol, rows in _FILE.items()
    if protocol != "nodes"
    for row in rows
]

NODE_VECTORS = [
    NodeVector(
        protocol,
        bytes.fromhex(row["key"]),
        tuple(Node(*node) for node in row["nodes"]),
        row.get("minimumRingSize", 1_024),
        row["node"],
    )
    for protocol, rows in _FILE["nodes"].items()
    for row in rows
]
