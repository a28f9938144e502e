"""What reads foreign bytes, each as a function of bytes: it may refuse in the ways that it says, and in no other."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs

from streamshard.adapters import redis_url
from streamshard.adapters.client import wire
from streamshard.adapters.client.answer import _json
from streamshard.adapters.stores import codec
from streamshard.core import views
from streamshard.core.ids import GroupKey, GroupName, InstanceId, MemberId, StreamPrefix, View
from streamshard.core.names import check_group, check_member, check_prefix
from streamshard.core.timing import Timing
from streamshard.entrypoints.http.batches import _decode as decode_batch
from streamshard.entrypoints.http.batches import _understood as understand_item
from streamshard.entrypoints.http.exchange import percent_decoded
from streamshard.entrypoints.http.heartbeats import Refused, decode_heartbeat, encode_reply, rejected
from streamshard.entrypoints.security.roles import Caller
from streamshard.entrypoints.settings import duration
from streamshard.errors import (
    CoordinatorUnreachable,
    Forbidden,
    InvalidRequest,
    MetadataCorrupt,
    StreamshardError,
    StreamUnavailable,
    UnsupportedSchema,
)
from tests.fuzz import replies

KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
MEMBER = MemberId("web-m0")
INSTANCE = InstanceId("a" * 32)
MAC_KEY = "k" * 32

Reads: TypeAlias = Callable[[bytes], object]


@attrs.frozen
class Target:
    """One reader. ``refuses``: the errors that may come out of it."""

    reads: Reads
    refuses: tuple[type[Exception], ...]

    def __call__(self, data: bytes) -> None:
        """Raise whatever the reader must not raise."""
        try:
            self.reads(data)
        except self.refuses:
            return


def _stream_record(data: bytes) -> None:
    record = codec.load_stream(codec._sealed(codec.SCHEMA, data), KEY.prefix)
    assert codec.load_stream(codec.dump_stream(record), KEY.prefix) == record


def _group_record(data: bytes) -> None:
    record = codec.load_group(codec._sealed(codec.SCHEMA, data), KEY)
    assert codec.load_group(codec.dump_group(record), KEY) == record


def _row(data: bytes) -> None:
    row = codec.load_row(codec._sealed(codec.FIRST_SCHEMA, data), KEY, INSTANCE)
    assert codec.load_row(codec.dump_row(row), KEY, INSTANCE) == row


def _unsealed(data: bytes) -> None:
    codec.load_group(data, KEY)


def _heartbeat(data: bytes) -> None:
    body = decode_heartbeat(data)
    body.complete()
    command = body.command(MEMBER)
    if isinstance(command, Refused):
        json.loads(encode_reply(rejected(body, MEMBER, command, Timing())))


def _batch(data: bytes) -> None:
    for item in decode_batch(data).heartbeats:
        understand_item(bytes(item), Timing(), Caller(None, frozenset()))


def _batch_item(data: bytes) -> None:
    found = understand_item(data, Timing(), Caller(None, frozenset()))
    if not hasattr(found, "beat"):
        json.loads(encode_reply(found))


def _view(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    assert views.read(MAC_KEY, KEY, View(text)) is None, "nobody makes a view without the key"


def _name(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    for check in (check_prefix, check_group, check_member):
        try:
            check(text)
        except InvalidRequest as refusal:
            refusal.message.encode()
        else:
            assert codec.checked(text) == text


def _path_segment(data: bytes) -> None:
    check_member(percent_decoded(data.decode("latin-1"), "memberId")).encode()


def _redis_url(data: bytes) -> None:
    redis_url.read(data.decode(errors="surrogateescape"))


def _duration(data: bytes) -> None:
    assert duration(data.decode(errors="surrogateescape")) >= 1


def _answer(read: Callable[[Any], object]) -> Reads:
    """Of JSON that came over HTTP; what is none never gets as far as the reader."""

    def reads(data: bytes) -> None:
        body = _json(data)
        if isinstance(body, dict):
            read(body)

    return reads


def _routing(body: Any) -> None:
    routing = wire.routing_of(KEY, body, '"lineage-1"')
    hash((routing.lineage, routing.protocol, routing.key))


def _news(body: Any) -> None:
    news = wire.news_of(body)
    hash((news.lineage, news.view, news.members))


def _heartbeat_answer(body: Any) -> None:
    hash(wire.reply_of(body).message)


def _error(body: Any) -> None:
    error = wire.error_of(409, body)
    assert error is None or isinstance(error, StreamshardError)
    str(error).encode(errors="replace")


def _batch_answer(body: Any) -> None:
    wire.batch_of(body, 2)


CORRUPT = (MetadataCorrupt, UnsupportedSchema)

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "stream-record": Target(_stream_record, CORRUPT),
        "group-record": Target(_group_record, CORRUPT),
        "row": Target(_row, CORRUPT),
        "unsealed-record": Target(_unsealed, CORRUPT),
        "heartbeat": Target(_heartbeat, (InvalidRequest,)),
        "batch": Target(_batch, (InvalidRequest, Forbidden)),
        "batch-item": Target(_batch_item, (Forbidden,)),
        "view": Target(_view, ()),
        "name": Target(_name, ()),
        "path-segment": Target(_path_segment, (InvalidRequest,)),
        "redis-url": Target(_redis_url, (ValueError,)),
        "duration": Target(_duration, (ValueError,)),
        "heartbeat-answer": Target(_answer(_heartbeat_answer), (CoordinatorUnreachable,)),
        "batch-answer": Target(_answer(_batch_answer), (CoordinatorUnreachable,)),
        "routing-answer": Target(_answer(_routing), (CoordinatorUnreachable,)),
        "news-answer": Target(_answer(_news), (CoordinatorUnreachable,)),
        "error-answer": Target(_answer(_error), ()),
        "member-replies": Target(replies.to_a_member, (StreamUnavailable,)),
        "coordinator-replies": Target(replies.to_a_coordinator, (StreamUnavailable,)),
        "inspector-replies": Target(replies.to_an_inspector, (StreamUnavailable,)),
    }
)
"""Every reader of foreign bytes."""
