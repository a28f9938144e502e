"""Bodies that a member sends again and again: read by what differs, once the rest was understood.

Of a heartbeat that repeats itself only five values differ from the one before: the request's id, the free
workers, the progress, the number and the lateness. A `Refrain` is a body with gaps for these. A body that is
the same byte for byte outside of the gaps, and has one whole JSON value of the right kind in each, says the
same but for these values, as JSON gives a value its meaning by its place alone. That the gaps are the places
these values are read from is seen when a refrain is made: with others in the gaps, others are read, and
nothing else.
"""

import re

import attrs
import msgspec

from streamshard.core.commands import Heartbeat
from streamshard.core.group import ShardProgress
from streamshard.core.ids import GroupKey, Millis, Seq
from streamshard.entrypoints.http.decoding import INT_LIMIT
from streamshard.entrypoints.http.heartbeats import Progress, decode_heartbeat, progress_of, progress_problem
from streamshard.errors import InvalidRequest

LONGEST = 4_096
"""Bytes: longer bodies are read as a whole each time, so that what is kept stays small."""

MOST = 8_192
"""Members whose refrain is kept; the one known longest makes room for another."""

_FIELDS = re.compile(
    rb'(.*?"requestId"\s*:\s*")([^"\\]*)'
    rb'(".*?"availableConcurrency"\s*:\s*)([0-9]+)'
    rb'([^0-9].*?"shardProgress"\s*:\s*)(\[[^\]]*\])'
    rb'(.*?"seq"\s*:\s*)([0-9]+)([^0-9].*)',
    re.DOTALL,
)
"""In the order in which the contract lists them; a body in another order is read as a whole each time."""
_LATENESS = re.compile(rb'(.*?"latenessMs"\s*:\s*)([0-9]+)([^0-9].*)', re.DOTALL)
"""Looked for in what follows: not everybody tells it."""

_PLAIN_ID = re.compile(rb"[A-Za-z0-9._:-]{1,200}").fullmatch
_DIGITS = len(str(INT_LIMIT))
_EMPTY = b"[]"
_decode_progress = msgspec.json.Decoder(Progress).decode

_TRIALS = ((b"a", b"0", _EMPTY, b"1", b"3"), (b"b", b"1", b'[{"shard":{"shardIndex":1}}]', b"2", b"4"))


@attrs.frozen(slots=False)  # looked at for every heartbeat: faster without
class Refrain:
    """What stays the same of a member's bodies, and a heartbeat that was said with it."""

    head: bytes
    """Up to the request's id."""
    capacity: bytes
    """From there up to the free workers."""
    shards: bytes
    """From there up to the progress."""
    holds: bytes
    """From there up to the number."""
    tail: bytes
    """From there up to the lateness, or to the end."""
    end: bytes
    """What follows the lateness; empty where it is not told."""
    key: GroupKey
    said: Heartbeat

    def read(self, body: bytes) -> Heartbeat | None:
        """The heartbeat that ``body`` says; None if that can't be told in this way."""
        if not body.startswith(self.head):
            return None
        start = len(self.head)
        end = body.find(b'"', start)
        request_id = body[start:end]
        if not (body.startswith(self.capacity, end) and _PLAIN_ID(request_id)):
            return None
        start = end + len(self.capacity)
        end = body.find(self.shards[:1], start)
        available = _whole(body[start:end])
        if available is None or not body.startswith(self.shards, end):
            return None
        start = end + len(self.shards)
        if body.startswith(_EMPTY, start):
            return self._read_on(body, start + len(_EMPTY), request_id, available, ())
        end = body.find(self.holds, start)
        progress = _progress(body[start:end])
        return None if progress is None else self._read_on(body, end, request_id, available, progress)

    def _read_on(
        self, body: bytes, end: int, request_id: bytes, available: int, progress: tuple[ShardProgress, ...]
    ) -> Heartbeat | None:
        start = end + len(self.holds)
        told_to = body.find(self.tail[:1], start)
        seq = _whole(body[start:told_to])
        if seq is None or not (body.startswith(self.holds, end) and body.startswith(self.tail, told_to)):
            return None
        start, late = told_to + len(self.tail), None
        if self.end:
            told_to = len(body) - len(self.end)
            late = _whole(body[start:told_to])
            if late is None or not body.endswith(self.end):
                return None
        elif start != len(body):
            return None
        return self.said.again(
            Seq(seq), request_id.decode(), available, progress, None if late is None else Millis(late)
        )

    def filled(self, trial: tuple[bytes, ...]) -> bytes:
        """A body with these values in its gaps."""
        parts = (self.head, self.capacity, self.shards, self.holds, self.tail, self.end)
        gaps = trial if self.end else (*trial[:4], b"")
        return b"".join(piece for pair in zip(parts, (*gaps, b""), strict=True) for piece in pair)


def _whole(digits: bytes) -> int | None:
    """The number, as JSON spells it."""
    if not digits.isdigit() or len(digits) > _DIGITS or (digits.startswith(b"0") and len(digits) > 1):
        return None
    number = int(digits)
    return number if number <= INT_LIMIT else None


def _progress(text: bytes) -> tuple[ShardProgress, ...] | None:
    if not text.isascii():  # the decoder does not look inside what it skips
        return None
    try:
        parts = _decode_progress(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if progress_problem(parts) else progress_of(parts)


def refrain_of(body: bytes, key: GroupKey, said: Heartbeat) -> Refrain | None:
    """The refrain of ``body``, which says ``said``; None if there is no telling where its values stand."""
    found = _FIELDS.fullmatch(body) if len(body) <= LONGEST else None
    if found is None or said.instance is None:
        return None
    head, capacity, shards, holds, tail = found.group(1, 3, 5, 7, 9)
    late = _LATENESS.fullmatch(tail)
    tail, end = (tail, b"") if late is None else late.group(1, 3)
    made = Refrain(head, capacity, shards, holds, tail, end, key, said)
    return made if all(_understood(made, trial) for trial in _TRIALS) else None


def _understood(refrain: Refrain, trial: tuple[bytes, ...]) -> bool:
    body = refrain.filled(trial)
    try:
        read = decode_heartbeat(body).command(refrain.said.member)
    except InvalidRequest:
        return False
    return read == refrain.read(body)


@attrs.frozen(slots=False)  # looked at for every heartbeat: faster without
class _Kept:
    said: Heartbeat
    refrain: Refrain | None
    """None: this instance's bodies can't be read in this way."""


class Refrains:
    """What members say again and again, each under a name of its own."""

    def __init__(self, most: int = MOST) -> None:
        self._kept: dict[str, _Kept] = {}
        self._most = most

    def of(self, name: str) -> Refrain | None:
        """What ``name`` says again and again, as far as that is known."""
        kept = self._kept.get(name)
        return None if kept is None else kept.refrain

    def learn(self, name: str, body: bytes, key: GroupKey, said: Heartbeat) -> None:
        """Keep what is likely to come again of a body that had to be read as a whole."""
        before = self._kept.pop(name, None)
        if len(self._kept) >= self._most:
            del self._kept[next(iter(self._kept))]
        in_vain = before is not None and _in_vain(before, body, said)
        self._kept[name] = _Kept(said, None if in_vain else refrain_of(body, key, said))


def _in_vain(before: _Kept, body: bytes, said: Heartbeat) -> bool:
    """An instance whose bodies differ elsewhere, too, though they say the same, is not worth the trouble again."""
    if before.refrain is None or before.said.instance != said.instance:
        return before.said.instance == said.instance
    again = before.said.again(said.seq, said.request_id, said.available, said.progress, said.late)
    return again == said and before.refrain.read(body) is None
