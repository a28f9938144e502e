"""The names and numbers everything else is made of."""

from typing import NewType

import attrs

StreamPrefix = NewType("StreamPrefix", str)
GroupName = NewType("GroupName", str)
MemberId = NewType("MemberId", str)
InstanceId = NewType("InstanceId", str)
"""One process's life under a member name: 128 random bits, in hex."""

ShardIndex = NewType("ShardIndex", int)
Generation = NewType("Generation", int)
"""Counts the lives of one shard's key, from 1."""

Token = NewType("Token", int)
"""A fencing token; below 2**53, so that JSON and Lua keep it whole."""

Epoch = NewType("Epoch", int)
Seq = NewType("Seq", int)
LayoutVersion = NewType("LayoutVersion", int)

Lineage = NewType("Lineage", str)
Nonce = NewType("Nonce", str)
ReshardingId = NewType("ReshardingId", str)
View = NewType("View", str)
"""An opaque, MACed name of one committed version of a group."""

RecordId = NewType("RecordId", str)
"""A Redis stream id, ``<ms>-<seq>``."""

Millis = NewType("Millis", int)
"""A duration."""

Instant = NewType("Instant", int)
"""Milliseconds on one process's boot clock; it never crosses a host."""

WallMillis = NewType("WallMillis", int)
"""Unix time in milliseconds: for display and for tokens, never for leases."""


@attrs.frozen(order=True, cache_hash=True)
class GroupKey:
    """A consumer group of a stream."""

    prefix: StreamPrefix
    group: GroupName

    def __str__(self) -> str:
        return f"{self.prefix}/{self.group}"


@attrs.frozen
class Version:
    """One committed state of a record; compared whole by every commit."""

    lineage: Lineage
    revision: int
    nonce: Nonce


RING_SIZE = 64
"""How many commits back a nonce is remembered, to tell "older" from "another timeline"."""

LINEAGES_KEPT = 64
"""How many ended lineages a group remembers.

To remember one is to let whoever comes with a view of it catch up. One that was forgotten reads as never seen:
its view is then proof of a loss, which costs the group a quarantine, never a second reader.
"""


def next_version(version: Version, nonce: Nonce) -> Version:
    """The version after ``version`` in the same lineage."""
    return Version(version.lineage, version.revision + 1, nonce)


def extend_ring(ring: tuple[Nonce, ...], nonce: Nonce) -> tuple[Nonce, ...]:
    """``ring`` with ``nonce`` as its newest entry."""
    return (*ring[-(RING_SIZE - 1) :], nonce)


def remember_lineages(past: tuple[Lineage, ...], *ended: Lineage) -> tuple[Lineage, ...]:
    """``past`` with what has ended as its newest entries, each once."""
    return tuple(dict.fromkeys((*past, *ended)))[-LINEAGES_KEPT:]


def stream_key(prefix: StreamPrefix, shard: ShardIndex) -> str:
    """The Redis key of a shard."""
    return f"{prefix}:{shard}"
