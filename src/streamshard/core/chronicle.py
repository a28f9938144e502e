"""What changed between two committed versions, in words: for logs, time lines and alerts."""

from collections.abc import Iterator

import attrs

from streamshard.core.group import GroupRecord, Member, MemberState
from streamshard.core.ids import GroupName, ShardIndex, StreamPrefix
from streamshard.core.stream import Resharding, ShardPhase, StreamRecord
from streamshard.core.stream_events import StreamOutcome

TRIMMED_UNREAD = "trimmed-unread"
"""The kind of an event that tells of records which a group never got to read."""


@attrs.frozen
class Event:
    """One change of state, and why."""

    kind: str
    prefix: StreamPrefix
    text: str
    group: GroupName | None = None
    shard: ShardIndex | None = None


def group_events(before: GroupRecord | None, after: GroupRecord) -> tuple[Event, ...]:
    """The changes of a group: members, grants, releases, lapses, lineages."""
    if before is None:
        return (_event(after, "group-created", f"{len(after.layout)} shards"),)
    if before is after:
        return ()
    return (*_lineage(before, after), *_members(before, after), *_holdings(before, after))


def _event(record: GroupRecord, kind: str, text: str, shard: ShardIndex | None = None) -> Event:
    return Event(kind, record.key.prefix, text, record.key.group, shard)


def _lineage(before: GroupRecord, after: GroupRecord) -> Iterator[Event]:
    if before.lineage != after.lineage and after.quarantine is not None:
        yield _event(after, "quarantine", after.quarantine.reason)
    if before.quarantine is not None and after.quarantine is None:
        yield _event(after, "quarantine-over", "a whole lease has passed without anything left to fear")


def _members(before: GroupRecord, after: GroupRecord) -> Iterator[Event]:
    for name in sorted({*before.members, *after.members}):
        was, now = before.members.get(name), after.members.get(name)
        if was is None or (now is not None and now.instance != was.instance):
            yield _event(after, "member-joined", f"{name}")
        elif now is None and was.live:
            yield _event(after, "member-left", f"{name}")
        elif now is not None and now.state is not was.state:
            yield from _turned(after, now)


def _turned(after: GroupRecord, member: Member) -> Iterator[Event]:
    words = {
        MemberState.EXPIRED: ("member-expired", "silent for a whole lease"),
        MemberState.FENCED: ("member-fenced", "broke the protocol"),
        MemberState.LEAVING: ("member-leaving", "said goodbye, finishing what it has"),
    }
    if member.state in words:
        kind, why = words[member.state]
        yield _event(after, kind, f"{member.id}: {why}")


def _holdings(before: GroupRecord, after: GroupRecord) -> Iterator[Event]:
    for shard in sorted({*before.holdings, *after.holdings}):
        was, now = before.holdings.get(shard), after.holdings.get(shard)
        if was is not None and (now is None or now.token != was.token):
            yield _event(after, "released", f"by {was.member}", shard)
        if now is not None and (was is None or now.token != was.token):
            yield _event(after, "granted", f"to {now.member} under token {now.token}", shard)
        elif now is not None and was is not None and now.lapsed and not was.lapsed:
            yield _event(after, "lapsed", f"{now.member} did not give it up in time", shard)


def stream_events(before: StreamRecord | None, after: StreamRecord) -> tuple[Event, ...]:
    """The changes of a stream: its state, its routing, its shards, its resharding."""
    return tuple(_stream_events(before, after))


def _stream_events(before: StreamRecord | None, after: StreamRecord) -> Iterator[Event]:
    if before is None or before.state is not after.state:
        yield Event("stream-" + after.state.value.lower(), after.prefix, f"{after.routed_count} shards")
    if before is None:
        return
    if before.routed_count != after.routed_count:
        yield Event("routing", after.prefix, f"{before.routed_count} -> {after.routed_count} shards")
    if before.retention is not after.retention:
        yield Event("retention", after.prefix, f"{before.retention.value} -> {after.retention.value}")
    for shard in after.shards.values():
        known = before.shards.get(shard.index)
        if shard.phase is ShardPhase.SEALED and (known is None or known.phase is not ShardPhase.SEALED):
            yield Event("sealed", after.prefix, "proven empty, its key is gone", shard=shard.index)
    old, new = _latest(before), _latest(after)
    if new is not None and (old is None or old.id != new.id or old.state is not new.state):
        text = f"{new.from_count} -> {new.to_count}: {new.state.value} ({new.id})"
        yield Event("resharding", after.prefix, text)


def gone(prefix: StreamPrefix, group: GroupName | None = None) -> Event:
    """A stream, or one group of it, was deleted."""
    return Event("stream-deleted" if group is None else "group-deleted", prefix, "its numbers are kept", group)


def alarms(prefix: StreamPrefix, outcome: StreamOutcome) -> tuple[Event, ...]:
    """What an operator has to hear of at once: retired keys that came back, and writes that the store lost."""
    back = [Event("revived", prefix, "a retired key came back: it is drained again", shard=s) for s in outcome.revived]
    if outcome.discontinuity is None:
        return tuple(back)
    return (*back, Event("stream-lineage", prefix, outcome.discontinuity))


def _latest(record: StreamRecord) -> Resharding | None:
    if record.resharding is not None:
        return record.resharding
    return record.history[-1] if record.history else None
