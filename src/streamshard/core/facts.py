"""What an operator is told of a stream or a group; of a deleted one it is what was, kept for whoever asks again."""

import json
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs

from streamshard.core.ids import GroupKey, GroupName, MemberId, StreamPrefix
from streamshard.core.queries import Exclusivity, GroupState, GroupView, exclusivity
from streamshard.core.stream import StreamRecord


def _counts(counts: Mapping[MemberId, int]) -> Mapping[MemberId, int]:
    return MappingProxyType(dict(sorted(counts.items())))


@attrs.frozen
class StreamFacts:
    """A stream in three words."""

    prefix: StreamPrefix
    shard_count: int
    metadata_version: int


@attrs.frozen
class GroupFacts:
    """A group without its members' particulars."""

    key: GroupKey
    state: GroupState
    group_epoch: int
    assignment_epoch: int
    metadata_version: int
    shard_count: int
    targets: Mapping[MemberId, int] = attrs.field(converter=_counts)
    """How many shards are meant for each live member."""
    holdings: Mapping[MemberId, int] = attrs.field(converter=_counts)
    """How many shards each member holds."""
    quarantine: str | None = None
    exclusivity: Exclusivity = Exclusivity.FENCED


def stream_facts(record: StreamRecord) -> StreamFacts:
    """What there is to say about a stream."""
    return StreamFacts(record.prefix, record.routed_count, record.version.revision)


def group_facts(view: GroupView) -> GroupFacts:
    """What there is to say about a group."""
    record = view.record
    idle = {member.id: 0 for member in record.members.values() if member.live}
    return GroupFacts(
        key=record.key,
        state=view.state,
        group_epoch=record.group_epoch,
        assignment_epoch=record.assignment_epoch,
        metadata_version=record.metadata_version,
        shard_count=view.stream.routed_count,
        targets={**idle, **Counter(record.targets.values())},
        holdings=Counter(holding.member for holding in record.holdings.values()),
        quarantine=None if record.quarantine is None else record.quarantine.reason,
        exclusivity=exclusivity(record),
    )


def group_text(facts: GroupFacts) -> str:
    """The facts as they are kept."""
    said = attrs.asdict(facts, value_serializer=lambda _, __, value: _plain(value))
    return json.dumps(said, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, GroupState | Exclusivity):
        return value.value
    return dict(value) if isinstance(value, Mapping) else value


def group_of_text(text: str) -> GroupFacts:
    """The facts that were kept."""
    said = json.loads(text)
    key = GroupKey(StreamPrefix(said["key"]["prefix"]), GroupName(said["key"]["group"]))
    kinds = {"state": GroupState(said["state"]), "exclusivity": Exclusivity(said.get("exclusivity", "fenced"))}
    known = {field.name for field in attrs.fields(GroupFacts)}  # a newer coordinator may have said more
    return GroupFacts(**{**{name: said[name] for name in said if name in known}, "key": key, **kinds})
