"""What operators send, field by field, and the commands it becomes."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from streamshard.core.admin import (
    Amend,
    AmendStream,
    Author,
    CreateGroup,
    CreateStream,
    DeleteGroup,
    DeleteStream,
    GroupSpec,
    Idempotency,
    Rollback,
    Scale,
)
from streamshard.core.ids import GroupKey, GroupName, ReshardingId, StreamPrefix
from streamshard.core.names import check_group
from streamshard.core.routing import PROTOCOLS
from streamshard.core.settings import MAX_SHARDS
from streamshard.core.stream import Retention
from streamshard.entrypoints.http.decoding import INT_LIMIT, SingleKeyDecoder
from streamshard.errors import InvalidRequest

PLAIN = r"\A[^\x00-\x1f\x7f-\x9f]*\Z"
PLAIN_NOT_BLANK = r"\A(?=.*\S)[^\x00-\x1f\x7f-\x9f]*\Z"

Asker = Annotated[
    str,
    Meta(
        max_length=200,
        pattern=PLAIN_NOT_BLANK,
        description="text that says who asks: not blank, at most 200 characters, no control characters",
    ),
]
Why = Annotated[
    str,
    Meta(
        max_length=1000,
        pattern=PLAIN_NOT_BLANK,
        description="text that says why: not blank, at most 1000 characters, no control characters",
    ),
]
OptionalWhy = Annotated[
    Annotated[str, Meta(max_length=1000, pattern=PLAIN)] | None,
    Meta(description="text of at most 1000 characters without control characters, or null"),
]
FirstCount = Annotated[
    Annotated[int, Meta(ge=1, le=INT_LIMIT)] | None,
    Meta(description="a whole number of shards, at least 1, or left out for the default"),
]
TargetCount = Annotated[int, Meta(ge=0, le=INT_LIMIT, description="a whole number of shards, at least 0")]
Names = Annotated[
    list[str], Meta(max_length=MAX_SHARDS, description=f"a list of at most {MAX_SHARDS} consumer group names")
]
Keeping = Annotated[Literal["none", "acknowledged"], Meta(description="none or acknowledged")]
Flag = Annotated[bool, Meta(description="true or false")]
Text = Annotated[
    str, Meta(max_length=200, pattern=PLAIN, description="text of at most 200 characters without control characters")
]
OptionalText = Annotated[
    Annotated[str, Meta(max_length=200, pattern=PLAIN)] | None,
    Meta(description="text of at most 200 characters without control characters, or null"),
]


class _Body(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Fields that are not named here are ignored: newer clients may send more."""


Credential = Annotated[str, Meta(max_length=1024, description="text of at most 1024 characters")]
TokenId = Annotated[
    Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")] | None,
    Meta(description="32 hex digits, or left out for the token that is shown"),
]


class LoginBody(_Body, frozen=True):
    """POST ``/auth/login``."""

    username: Credential
    password: Credential


class RevokeBody(_Body, frozen=True):
    """POST ``/auth/revoke``."""

    token_id: TokenId = None


class CreateStreamBody(_Body, frozen=True):
    """POST ``/streams/{p}``."""

    requested_by: Asker
    reason: OptionalWhy = None
    initial_shard_count: FirstCount = None
    consumer_groups: Names = []
    routing_protocol: Text = "murmur3-v1"
    adopt: Flag = False
    allow_legacy_members: Flag = False
    start_from: Text = "earliest"
    retention: Keeping = "none"

    def command(self, prefix: StreamPrefix, author: Author, default: int, limit: int) -> CreateStream:
        """Raise `InvalidRequest` for what the types alone don't tell."""
        count = default if self.initial_shard_count is None else self.initial_shard_count
        names = group_names("consumerGroups", self.consumer_groups)
        start = start_id(self.start_from)
        return CreateStream(
            prefix=prefix,
            author=author,
            shard_count=bounded("initialShardCount", count, limit),
            groups=tuple(GroupSpec(name, start, self.allow_legacy_members) for name in names),
            routing_protocol=known_protocol(self.routing_protocol),
            adopt=self.adopt,
            retention=Retention(self.retention),
        )


class AmendStreamBody(_Body, frozen=True):
    """PATCH ``/streams/{p}``."""

    retention: Keeping
    requested_by: Asker
    reason: Why

    def command(self, prefix: StreamPrefix, author: Author) -> AmendStream:
        """Nothing is left to check."""
        return AmendStream(prefix, author, Retention(self.retention))


class CreateGroupBody(_Body, frozen=True):
    """POST ``/streams/{p}/groups/{g}``."""

    requested_by: Asker
    reason: OptionalWhy = None
    initial_shard_count: FirstCount = None
    routing_protocol: Text = "murmur3-v1"
    adopt: Flag = False
    allow_legacy_members: Flag = False
    start_from: Text = "earliest"

    def command(self, key: GroupKey, author: Author, limit: int) -> CreateGroup:
        """Raise `InvalidRequest` for what the types alone don't tell."""
        count = self.initial_shard_count
        return CreateGroup(
            key=key,
            author=author,
            spec=GroupSpec(key.group, start_id(self.start_from), self.allow_legacy_members),
            shard_count=None if count is None else bounded("initialShardCount", count, limit),
            routing_protocol=known_protocol(self.routing_protocol),
            adopt=self.adopt,
        )


class ScaleBody(_Body, frozen=True):
    """POST ``…/scale``."""

    target_shard_count: TargetCount
    requested_by: Asker
    reason: Why
    deprecated_after: OptionalText = None
    ignore_foreign_groups: Names = []
    stop_producers: Flag = False

    def command(self, prefix: StreamPrefix, author: Author, resharding: ReshardingId, limit: int) -> Scale:
        """Raise `InvalidRequest` for what the types alone don't tell."""
        return Scale(
            prefix=prefix,
            author=author,
            target=bounded("targetShardCount", self.target_shard_count, limit),
            resharding_id=resharding,
            ignore_foreign_groups=group_names("ignoreForeignGroups", self.ignore_foreign_groups),
            stop_producers=self.stop_producers,
            deprecated_after=self.deprecated_after,
        )


class RollbackBody(_Body, frozen=True):
    """POST ``…/migrations/{id}/rollback``."""

    requested_by: Asker
    reason: Why

    def command(self, prefix: StreamPrefix, author: Author, resharding: ReshardingId) -> Rollback:
        """Nothing is left to check."""
        return Rollback(prefix, author, resharding)


class AmendBody(_Body, frozen=True):
    """POST ``…/migrations/{id}``."""

    ignore_foreign_groups: Names
    requested_by: Asker
    reason: Why

    def command(self, prefix: StreamPrefix, author: Author, resharding: ReshardingId) -> Amend:
        """Raise `InvalidRequest` for a bad name."""
        names = group_names("ignoreForeignGroups", self.ignore_foreign_groups)
        return Amend(prefix, author, resharding, names)


class DeleteBody(_Body, frozen=True):
    """DELETE of a stream or a group."""

    requested_by: Asker
    reason: Why
    force: Flag = False
    keep_redis_groups: Flag = False
    drop_data: Flag = False

    def group_command(self, key: GroupKey, author: Author) -> DeleteGroup:
        """Nothing is left to check."""
        return DeleteGroup(key, author, self.force, self.keep_redis_groups)

    def stream_command(self, prefix: StreamPrefix, author: Author) -> DeleteStream:
        """Nothing is left to check."""
        return DeleteStream(prefix, author, self.force, self.drop_data)


decode_login = SingleKeyDecoder(LoginBody)
decode_revoke = SingleKeyDecoder(RevokeBody)
decode_create_stream = SingleKeyDecoder(CreateStreamBody)
decode_amend_stream = SingleKeyDecoder(AmendStreamBody)
decode_create_group = SingleKeyDecoder(CreateGroupBody)
decode_scale = SingleKeyDecoder(ScaleBody)
decode_rollback = SingleKeyDecoder(RollbackBody)
decode_amend = SingleKeyDecoder(AmendBody)
decode_delete = SingleKeyDecoder(DeleteBody)


def author(
    body: CreateStreamBody | AmendStreamBody | CreateGroupBody | ScaleBody | RollbackBody | AmendBody | DeleteBody,
    idempotency: Idempotency | None,
) -> Author:
    """Who asks, and why, with the caller's key if there is one."""
    return Author(body.requested_by, body.reason or "", idempotency)


def bounded(field: str, count: int, limit: int) -> int:
    """``count``, unless this coordinator allows fewer shards."""
    if count > limit:
        raise InvalidRequest(f"{field}: must be at most {limit}: ask for fewer shards")
    return count


def group_names(field: str, names: Sequence[str]) -> tuple[GroupName, ...]:
    """Checked names in the order given; raises `InvalidRequest` for a bad or a repeated one."""
    checked = tuple(check_group(name, f"{field}[{position}]") for position, name in enumerate(names))
    if len(set(checked)) < len(checked):
        raise InvalidRequest(f"{field}: names a group twice: name each once")
    return checked


def known_protocol(name: str) -> str:
    """``name``, if it is a routing protocol of this version."""
    if name not in PROTOCOLS:
        raise InvalidRequest(f"routingProtocol: is unknown: use one of {', '.join(sorted(PROTOCOLS))}")
    return name


_STARTS = {"earliest": "0", "latest": "$"}
_RECORD_ID = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?")
_ID_LIMIT = 2**64


def start_id(text: str) -> str:
    """``earliest``, ``latest`` or a record id, as Redis spells it."""
    if text in _STARTS:
        return _STARTS[text]
    found = _RECORD_ID.fullmatch(text)
    if found is None or any(int(part) >= _ID_LIMIT for part in found.groups("0")):
        raise InvalidRequest("startFrom: must be earliest, latest or a record id such as 1799960412345-0")
    return f"{int(found[1])}-{int(found[2] or 0)}"
