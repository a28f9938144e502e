"""The dead-letter stream of a prefix, for those who look after it: see, publish again, drop."""

from collections.abc import Sequence
from typing import Any

import attrs

from streamshard.adapters.streams.connections import DEFAULT_TIMEOUT, value
from streamshard.adapters.streams.opening import link
from streamshard.core.dead_letters import DeadLetter, dead_letter_key, read_back
from streamshard.core.ids import Millis, RecordId, ShardIndex, StreamPrefix, stream_key
from streamshard.errors import Conflict, NotFound


@attrs.frozen
class KeptLetter:
    """A dead letter and the id of its entry."""

    id: RecordId
    letter: DeadLetter


class RedisDeadLetters:
    """What was given up of one stream, in Redis or Valkey; every order raises `StreamUnavailable`.

    Entries that the library did not write are left alone.
    """

    def __init__(self, url: str, prefix: StreamPrefix, *, timeout: Millis = DEFAULT_TIMEOUT) -> None:
        self._prefix = prefix
        self._key = dead_letter_key(prefix)
        self._connections = link(url, limit=1, timeout=timeout)

    async def page(self, after: RecordId | None, count: int) -> tuple[KeptLetter, ...]:
        """At most ``count`` letters behind ``after``, oldest first."""
        while True:
            start = "-" if after is None else f"({after}"
            rows = await self._ask("XRANGE", self._key, start, "+", "COUNT", count)
            if (found := _letters(rows)) or len(rows) < count:
                return found
            after = RecordId(rows[-1][0].decode())

    async def size(self) -> int:
        """How many there are."""
        return int(await self._ask("XLEN", self._key))

    async def get(self, entry: RecordId) -> KeptLetter:
        """One letter; raises `NotFound`."""
        for kept in _letters(await self._ask("XRANGE", self._key, entry, entry)):
            return kept
        raise NotFound(f"{self._key}: there is no dead letter {entry}")

    async def redrive(self, kept: KeptLetter, shard: ShardIndex | None = None) -> RecordId:
        """Publish its original fields again, to its shard or to ``shard``, and only then drop it.

        Every group of the stream gets to see the record. Raises `Conflict` if there is no such shard
        any more. If the drop fails, the letter stays and may be published twice.
        """
        there = stream_key(self._prefix, kept.letter.shard if shard is None else shard)
        words = [word for pair in kept.letter.fields.items() for word in pair]
        written = await self._ask("XADD", there, "NOMKSTREAM", "*", *words)
        if written is None:
            raise Conflict(f"{there}: there is no such shard any more, so {kept.id} stays: name another shard")
        await self.drop([kept.id])
        return RecordId(written.decode())

    async def drop(self, entries: Sequence[RecordId]) -> int:
        """Delete letters for good; how many there were."""
        return int(await self._ask("XDEL", self._key, *entries)) if entries else 0

    async def close(self) -> None:
        """Let go of the connection; idempotent."""
        await self._connections.close()

    async def _ask(self, *words: str | bytes | int) -> Any:
        (outcome,) = await self._connections.exchange([words])
        return value(outcome)


def _letters(rows: Any) -> tuple[KeptLetter, ...]:
    found = ((raw, read_back(dict(zip(flat[::2], flat[1::2], strict=True)))) for raw, flat in rows)
    return tuple(KeptLetter(RecordId(raw.decode()), letter) for raw, letter in found if letter is not None)
