"""What a member tells of its reading with each heartbeat.

Ages are rounded down so far that a member to which nothing happens says the same again: what stays the same
is cheap to send, to read and to store.
"""

from collections.abc import Mapping

import attrs

from streamshard.adapters.client.status import ShardStatus
from streamshard.core.group import ShardProgress
from streamshard.core.ids import Instant, Millis, ShardIndex, Token
from streamshard.core.session import Held, Use

STEP_MS = 1_000
LEAST_MS = 2 * STEP_MS
"""What is not older counts as now: an idle reader reads an empty shard about once a second."""

LATE_STEP_MS = 100


def rounded(age: Millis) -> Millis:
    """An age in whole seconds; 0 below two of them."""
    return Millis(age - age % STEP_MS) if age >= LEAST_MS else Millis(0)


def rounded_lateness(late: Millis) -> Millis:
    """In tenths of a second."""
    return Millis(late - late % LATE_STEP_MS)


def told(status: ShardStatus) -> ShardProgress:
    """How far a shard has got, when it was read, and how long its handler runs."""
    handling = None if status.handling_for is None else rounded(status.handling_for)
    return attrs.evolve(status.progress, read_ago=rounded(status.read_ago), handling_for=handling or None)


class Unbegun:
    """Since when shards have been held that nothing has begun to read: an event loop that is blocked can't begin."""

    def __init__(self) -> None:
        self._since: dict[tuple[ShardIndex, Token], Instant] = {}

    def beside(
        self, progress: tuple[ShardProgress, ...], held: Mapping[ShardIndex, Held], now: Instant
    ) -> tuple[ShardProgress, ...]:
        """``progress``, which tells of what is read, with a row for every shard that ought to be read too."""
        begun = {row.shard for row in progress}
        waiting = [(s, h.token) for s, h in held.items() if s not in begun and h.use is not Use.DRAINING]
        self._since = {grant: self._since.get(grant, now) for grant in waiting}
        rows = [ShardProgress(grant[0], read_ago=rounded(Millis(now - since))) for grant, since in self._since.items()]
        return tuple(sorted((*progress, *rows), key=lambda row: row.shard)) if rows else progress
