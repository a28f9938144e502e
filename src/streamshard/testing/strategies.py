"""Hypothesis strategies for every durable record, read off the types; needs the extra ``testing``."""

import enum
import functools
import types
import typing
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

import attrs
from hypothesis import strategies as st

from streamshard.core.group import GroupRecord, GroupTombstone, Holding, Member, Row, ShardProgress
from streamshard.core.ids import (
    GroupKey,
    GroupName,
    InstanceId,
    Lineage,
    MemberId,
    Nonce,
    RecordId,
    ShardIndex,
    Version,
)
from streamshard.core.ids import StreamPrefix as Prefix
from streamshard.core.stream import GroupEntry, Resharding, Shard, StreamRecord, StreamTombstone

T = TypeVar("T")

texts = st.text(st.characters(codec="utf-8"), max_size=8)
"""Any text that UTF-8 can say, the awkward kinds included."""

names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=8)
"""What streams, groups and members may be called, and some names that the edges refuse."""

counts = st.integers(0, 2**53 - 1)
"""Every number that may be stored."""

_random_bits = st.integers(0, 2**128 - 1).map(lambda bits: f"{bits:032x}")
_MOST = 3

_CHOSEN: dict[Hashable, st.SearchStrategy[Any]] = {
    int: counts,
    str: texts,
    bool: st.booleans(),
    Prefix: names,
    GroupName: names,
    MemberId: names,
    InstanceId: _random_bits,
    Nonce: _random_bits,
    Lineage: _random_bits,
    ShardIndex: st.integers(0, 40),
    RecordId: st.tuples(counts, counts).map(lambda parts: f"{parts[0]}-{parts[1]}"),
}


@functools.cache
def values(kind: Hashable) -> st.SearchStrategy[Any]:
    """Every value of an attrs class, enum, id, number, text, tuple, mapping or optional of those."""
    if kind in _CHOSEN:
        return _CHOSEN[kind]
    if isinstance(kind, typing.NewType):
        return values(kind.__supertype__)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    if isinstance(kind, type) and attrs.has(kind):
        return built(kind)
    return _composed(typing.get_origin(kind), typing.get_args(kind))


def _composed(origin: Any, parts: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if origin is tuple:
        return st.lists(values(parts[0]), max_size=_MOST).map(tuple)
    if origin in (types.UnionType, typing.Union):
        return st.none() | st.one_of(*(values(part) for part in parts if part is not types.NoneType))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(values(parts[0]), values(parts[1]), max_size=_MOST)
    raise TypeError(f"no strategy for {origin}")


def built(kind: type[T], **chosen: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Instances of an attrs class with every field drawn, those with a default included."""
    hints = typing.get_type_hints(kind)
    fields = [field.name for field in attrs.fields(typing.cast(Any, kind))]
    return st.builds(kind, **{name: values(hints[name]) for name in fields if name not in chosen}, **chosen)


def _named(kind: Hashable, field: str) -> st.SearchStrategy[dict[Any, Any]]:
    listed = st.lists(values(kind), max_size=_MOST)
    return listed.map(lambda found: {getattr(value, field): value for value in found})


prefixes: st.SearchStrategy[Prefix] = values(Prefix)
group_names: st.SearchStrategy[GroupName] = values(GroupName)
member_ids: st.SearchStrategy[MemberId] = values(MemberId)
instances: st.SearchStrategy[InstanceId] = values(InstanceId)
keys = built(GroupKey)
versions = built(Version)
shards = built(Shard)
reshardings = built(Resharding)
members = built(Member)
holdings = built(Holding)
progress = built(ShardProgress)
rows = built(Row)
streams = built(StreamRecord, shards=_named(Shard, "index"), groups=_named(GroupEntry, "name"))
stream_tombstones = built(StreamTombstone)
groups = built(GroupRecord, members=_named(Member, "id"))
group_tombstones = built(GroupTombstone)
