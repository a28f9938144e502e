"""Writing a record's own time line: what changed between two versions, and whose time with a shard ended."""

from collections.abc import Iterator

import attrs

from streamshard.core import chronicle
from streamshard.core.chronicle import Event
from streamshard.core.group import GroupRecord, Holding, MemberState
from streamshard.core.ids import MemberId, ShardIndex, WallMillis
from streamshard.core.stream import StreamRecord
from streamshard.core.timeline import Happening, Span, held, remembered

SHARDS_NAMED = 8
"""How many of the shards of one move an event names."""


def told(before: GroupRecord | None, after: GroupRecord, at: WallMillis) -> GroupRecord:
    """``after`` with what is new in it added to its time line."""
    changes = [_happening(e, at) for e in chronicle.group_events(before, after) if e.shard is None]
    moves = [] if before is None else _moves(before, after, at)
    ended = [] if before is None else list(_ended(before, after, at))
    if not (changes or moves or ended):
        return after
    return attrs.evolve(after, events=remembered(after.events, (*changes, *moves)), spans=held(after.spans, ended))


def told_stream(
    before: StreamRecord | None, after: StreamRecord, at: WallMillis, lost: str | None = None
) -> StreamRecord:
    """The same of a stream; ``lost`` says why a new lineage was started."""
    changes = [_happening(event, at) for event in chronicle.stream_events(before, after)]
    if lost is not None:
        changes.append(Happening(at, "stream-lineage", lost))
    return attrs.evolve(after, events=remembered(after.events, changes)) if changes else after


def _happening(event: Event, at: WallMillis) -> Happening:
    shards = () if event.shard is None else (event.shard,)
    return Happening(at, event.kind, event.text, shards=shards)


def _moves(before: GroupRecord, after: GroupRecord, at: WallMillis) -> list[Happening]:
    """One event for all shards that the same thing happened to at once."""
    found: dict[tuple[str, MemberId, str], list[ShardIndex]] = {}
    for shard, kind, member, why in _changes(before, after):
        found.setdefault((kind, member, why), []).append(shard)
    return [
        Happening(at, kind, f"{_count(shards)}: {why}", member, tuple(shards[:SHARDS_NAMED]))
        for (kind, member, why), shards in found.items()
    ]


def _count(shards: list[ShardIndex]) -> str:
    return f"shard {shards[0]}" if len(shards) == 1 else f"{len(shards)} shards"


def _changes(before: GroupRecord, after: GroupRecord) -> Iterator[tuple[ShardIndex, str, MemberId, str]]:
    for shard in sorted({*before.holdings, *after.holdings}):
        was, now = before.holdings.get(shard), after.holdings.get(shard)
        if was is now:
            continue
        if was is not None and _is_over(was, now):
            yield shard, "released", was.member, _cause(after, was)
        if now is not None and (was is None or _is_over(was, now)):
            yield shard, "granted", now.member, "adopted from its holder's report" if now.draining else "its turn"
        elif now is not None and was is not None and now.lapsed and not was.lapsed:
            yield shard, "lapsed", now.member, "not given up in time"


def _is_over(was: Holding, now: Holding | None) -> bool:
    return now is None or now.token != was.token


def _cause(after: GroupRecord, was: Holding) -> str:
    member = after.members.get(was.member)
    if member is not None and member.instance == was.instance and member.state is MemberState.EXPIRED:
        return "silent for a whole lease"
    return "a lease after it had lapsed, or let go late" if was.lapsed else "let go"


def _ended(before: GroupRecord, after: GroupRecord, at: WallMillis) -> Iterator[Span]:
    for shard, was in before.holdings.items():
        if _is_over(was, after.holdings.get(shard)):
            yield Span(shard, was.member, was.token, was.since, at)
