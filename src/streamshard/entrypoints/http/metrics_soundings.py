"""What Redis last showed of the shards: asked for in few and large questions, and never by every scrape anew."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from streamshard.core.ids import GroupKey, ShardIndex
from streamshard.core.inspection import ShardLook, StreamInspector
from streamshard.entrypoints.http.metrics_recorder import now
from streamshard.errors import StreamUnavailable

AT_ONCE = 256
"""Shards in one question."""

YOUNG_S = 5.0
"""What is younger is not asked for again."""

SHARE = 20
"""Nor is what took long to ask, before so many times as long has passed: Redis has other things to do."""

OLD_S = 60.0
"""What has been due for so long is not shown any more."""

WAIT_S = 2.0
"""How long a scrape waits for Redis; after that it shows what there is."""

Wanted = Mapping[GroupKey, Sequence[ShardIndex]]


@attrs.frozen
class Sounding:
    """What is shown of one shard; None is unknown."""

    lag: int | None
    pending: int | None
    length: int | None
    oldest_unacked_ms: int | None


Soundings = Mapping[ShardIndex, Sounding]


class Sounder:
    """Asks when it is wanted and due, one question after the other, in a task of its own."""

    def __init__(self, inspector: StreamInspector, clock: Callable[[], float] = now) -> None:
        self._inspector = inspector
        self._clock = clock
        self.wait_s = WAIT_S
        self._found: dict[GroupKey, tuple[float, Soundings]] = {}
        self._ended = float("-inf")
        self._took = 0.0
        self._asking: asyncio.Task[None] | None = None

    async def look(self, wanted: Wanted) -> Mapping[GroupKey, Soundings]:
        """The latest of each of these groups, if it is not too old to be shown."""
        if self._asking is None and self._clock() - self._ended > self._pause:
            self._asking = asyncio.create_task(self._ask(wanted), name="streamshard-soundings")
        if self._asking is not None:
            done, _ = await asyncio.wait({self._asking}, timeout=self.wait_s)
            for task in done:
                self._asking = None
                if not task.cancelled():
                    task.result()
        oldest = self._clock() - self._pause - OLD_S
        return {key: self._found[key][1] for key in wanted if key in self._found and self._found[key][0] >= oldest}

    def stop(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()

    @property
    def _pause(self) -> float:
        return max(YOUNG_S, SHARE * self._took)

    async def _ask(self, wanted: Wanted) -> None:
        began = self._clock()
        self._found = {key: found for key, found in self._found.items() if key in wanted}
        try:
            for key, shards in wanted.items():
                looks = {look.shard: _sounding(look) for part in _parts(shards) for look in await self._part(key, part)}
                self._found[key] = (self._clock(), looks)
        except StreamUnavailable:
            return  # what was seen before is shown until it is too old
        finally:
            self._ended = self._clock()
            self._took = self._ended - began

    async def _part(self, key: GroupKey, shards: Sequence[ShardIndex]) -> Sequence[ShardLook]:
        await asyncio.sleep(0)  # others have their turn, also where an answer is here at once
        return await self._inspector.look(key.prefix, shards, key.group)


def _sounding(look: ShardLook) -> Sounding:
    return Sounding(look.lag, look.pending, look.length if look.exists else None, look.oldest_unacked_ms)


def _parts(shards: Sequence[ShardIndex]) -> Iterator[Sequence[ShardIndex]]:
    return (shards[start : start + AT_ONCE] for start in range(0, len(shards), AT_ONCE))
