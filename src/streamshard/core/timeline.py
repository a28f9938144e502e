"""What a record remembers of its own past: its last changes, and who held a shard from when to when.

It is part of the record, written in the very commit that it tells of: so every coordinator tells the same
story, no change goes untold, and nothing is told that was lost. An unchanged heartbeat rewrites no record,
hence pays nothing for it. All of it is bounded: a record of many members stays a record, not a log.
Times are wall-clock times of whichever coordinator committed, for people to read and for nothing else.
"""

from collections import Counter
from collections.abc import Iterable

import attrs

from streamshard.core.ids import MemberId, ShardIndex, Token, WallMillis

EVENTS_KEPT = 64
"""How many changes a record remembers."""

SPANS_A_SHARD = 8
"""How many ended times of ownership are remembered of one shard."""

SPANS_KEPT = 256
"""How many of all shards together: the latest."""


@attrs.frozen
class Happening:
    """One change of a record, when it was committed, and why."""

    at: WallMillis
    kind: str
    text: str
    member: MemberId | None = None
    shards: tuple[ShardIndex, ...] = ()
    """The first few of the shards concerned; the text says how many there are."""


@attrs.frozen
class Span:
    """A time in which a member held a shard; ``until`` is when it was known to be over."""

    shard: ShardIndex
    member: MemberId
    token: Token
    since: WallMillis
    until: WallMillis


def remembered(known: tuple[Happening, ...], new: Iterable[Happening]) -> tuple[Happening, ...]:
    """The last changes, oldest first."""
    return (*known, *new)[-EVENTS_KEPT:]


def held(known: tuple[Span, ...], ended: Iterable[Span]) -> tuple[Span, ...]:
    """The last times of ownership, oldest first."""
    seen: Counter[ShardIndex] = Counter()
    kept: list[Span] = []
    for span in reversed((*known, *ended)):
        seen[span.shard] += 1
        if seen[span.shard] <= SPANS_A_SHARD and len(kept) < SPANS_KEPT:
            kept.append(span)
    return tuple(reversed(kept))
