"""Records as JSON: each with the number of its schema, and a checksum that notices every flipped byte.

A record reads ``{"schema":1,"sum":"<128 bits in hex>","kind":"group","body":{…}}``. The sum covers
the schema's number and everything that follows the sum. A record is of the lowest schema that can say what it
says (see `evolution`), so that versions next to each other can share a store for as long as nothing new is used;
a higher number, or a field that this version does not know, comes from a newer coordinator and is refused.
"""

import functools
import hashlib
import json
import re
import typing
from collections.abc import Hashable
from typing import Any, TypeAlias

from streamshard.adapters.stores.shapes import MAX_WHOLE, Malformed, Newer, Shape, shape_of
from streamshard.core.group import GroupRecord, GroupTombstone, Row, ShardProgress
from streamshard.core.ids import GroupKey, InstanceId, StreamPrefix
from streamshard.core.stream import StreamRecord, StreamTombstone
from streamshard.errors import InvalidRequest, MetadataCorrupt, UnsupportedSchema

FIRST_SCHEMA = 1
"""What says nothing that the first version could not say."""

SCHEMA = 2
"""The highest known; raised when an older version could misread what a newer one writes."""

AnyStream: TypeAlias = StreamRecord | StreamTombstone
AnyGroup: TypeAlias = GroupRecord | GroupTombstone

_KINDS: dict[str, type[Any]] = {
    "stream": StreamRecord,
    "stream-tombstone": StreamTombstone,
    "group": GroupRecord,
    "group-tombstone": GroupTombstone,
    "row": Row,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_SHAPES: dict[str, Shape] = {name: shape_of(typing.cast(Hashable, kind)) for name, kind in _KINDS.items()}

_PROGRESS = shape_of(typing.cast(Hashable, ShardProgress))

_HEAD = re.compile(rb'\{"schema":(0|[1-9][0-9]{0,8}),')
_SUM = re.compile(rb'"sum":"([0-9a-f]{32})",')


def checked(name: str) -> str:
    """``name`` itself; raises `InvalidRequest` if it is not valid Unicode, so that no key can hold it."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"the name {name!r} is not valid Unicode: send it as UTF-8") from error
    return name


def dump_stream(record: AnyStream) -> bytes:
    """Encode a stream's record or tombstone; raises `InvalidRequest` if a value has no encoding."""
    return _dump(record, f"stream {record.prefix!r}")


def dump_group(record: AnyGroup) -> bytes:
    """Encode a group's record or tombstone; raises `InvalidRequest` if a value has no encoding."""
    return _dump(record, f"group {str(record.key)!r}")


def dump_row(row: Row) -> bytes:
    """Encode a renewal row; raises `InvalidRequest` if a value has no encoding."""
    # Written by every heartbeat: what tells one from the next is put around what mostly stays the same.
    # Of numbers joined bit by bit one is negative, or has too many bits, if one of them was or had.
    if not 0 <= row.seq | row.lease_ms | row.available | (row.late or 0) <= MAX_WHOLE:
        return _dump(row, f"row of instance {row.instance!r}")
    try:
        body = _ROW % (
            _quote(row.instance),
            row.seq,
            _quote(row.mark),
            row.lease_ms,
            row.available,
            _progress(row.progress),
            "" if row.late is None else f',"late":{row.late}',
        )
        return _sealed(FIRST_SCHEMA, body.encode())
    except (Malformed, UnicodeEncodeError) as why:
        raise InvalidRequest(f"row of instance {row.instance!r} can't be stored: {why}") from why


_ROW = '"kind":"row","body":{"instance":%s,"seq":%d,"mark":%s,"lease_ms":%d,"available":%d,"progress":%s%s}}'
_quote = json.encoder.encode_basestring


@functools.lru_cache(maxsize=4_096)
def _progress(progress: tuple[ShardProgress, ...]) -> str:
    return _encode([_PROGRESS.dump(part) for part in progress])


def load_stream(data: object, prefix: StreamPrefix) -> AnyStream:
    """Decode what `dump_stream` made; raises `MetadataCorrupt` or `UnsupportedSchema`, naming the stream."""
    name = f"stream {prefix!r}"
    record: AnyStream = _load(data, name, StreamRecord, StreamTombstone)
    if record.prefix != prefix:
        raise _corrupt(name, f"it is the record of stream {record.prefix!r}")
    if isinstance(record, StreamRecord):
        _check_keys(name, {key: shard.index for key, shard in record.shards.items()})
        _check_keys(name, {key: group.name for key, group in record.groups.items()})
    return record


def load_group(data: object, key: GroupKey) -> AnyGroup:
    """Decode what `dump_group` made; raises `MetadataCorrupt` or `UnsupportedSchema`, naming the group."""
    name = f"group {str(key)!r}"
    record: AnyGroup = _load(data, name, GroupRecord, GroupTombstone)
    if record.key != key:
        raise _corrupt(name, f"it is the record of group {str(record.key)!r}")
    if isinstance(record, GroupRecord):
        _check_keys(name, {member: value.id for member, value in record.members.items()})
    return record


def load_row(data: object, key: GroupKey, instance: InstanceId) -> Row:
    """Decode what `dump_row` made; raises `MetadataCorrupt` or `UnsupportedSchema`, naming row and group."""
    name = f"row of instance {instance!r} in group {str(key)!r}"
    row: Row = _load(data, name, Row)
    if row.instance != instance:
        raise _corrupt(name, f"it is the row of instance {row.instance!r}")
    return row


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _dump(record: object, name: str) -> bytes:
    kind = _NAMES[type(record)]
    shape = _SHAPES[kind]
    try:
        body = shape.dump(record)
    except Malformed as why:
        raise InvalidRequest(f"{name} can't be stored: {why}") from why
    schema = SCHEMA if shape.later is not None and shape.later(record) else FIRST_SCHEMA
    return _sealed(schema, _encode({"kind": kind, "body": body})[1:].encode())


def _sealed(schema: int, tail: bytes) -> bytes:
    return b'{"schema":%d,"sum":"%b",%b' % (schema, _digest(schema, tail), tail)


def _load(data: object, name: str, *kinds: type[Any]) -> Any:
    body = _open(data, name)
    kind = body.get("kind")
    if not isinstance(kind, str) or _KINDS.get(kind) not in kinds:
        raise _corrupt(name, "it is a record of another kind")
    try:
        return _SHAPES[kind].load(body.get("body"))
    except Newer as why:
        raise _newer(name, f"says what this version does not know ({why})") from why
    except Malformed as why:
        raise _corrupt(name, str(why)) from why


def _open(data: object, name: str) -> dict[str, Any]:
    head = _HEAD.match(data) if isinstance(data, bytes) else None
    if head is None or not isinstance(data, bytes):
        raise _corrupt(name, "it does not begin like a record")
    schema = int(head[1])
    if schema > SCHEMA:
        raise _newer(name, f"was written in schema {schema}, this version knows up to {SCHEMA}")
    seal = _SUM.match(data, head.end())
    if schema < FIRST_SCHEMA or seal is None or seal[1] != _digest(schema, data[seal.end() :]):
        raise _corrupt(name, "its checksum does not match")
    return _parse(data, name)


def _parse(data: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(data, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _corrupt(name, str(error)) from error
    assert isinstance(found, dict), "the head has matched a brace"
    return found


def _digest(schema: int, tail: bytes) -> bytes:
    return hashlib.blake2b(b"%d," % schema + tail, digest_size=16).hexdigest().encode()


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed("a field is there twice")
    return found


def _refuse_constant(text: str) -> None:
    raise Malformed(f"{text} is no number")


def _check_keys(name: str, named: dict[Any, Any]) -> None:
    for key, own in named.items():
        if key != own:
            raise _corrupt(name, f"entry {key!r} calls itself {own!r}")


def _newer(name: str, what: str) -> UnsupportedSchema:
    return UnsupportedSchema(f"{name} {what}: upgrade this coordinator")


def _corrupt(name: str, why: str) -> MetadataCorrupt:
    return MetadataCorrupt(f"the stored record of {name} can't be trusted: {why}")
