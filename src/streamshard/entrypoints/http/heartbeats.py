"""The heartbeat on the wire: the one body that members send, and its answer."""

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any, Literal

import attrs
import msgspec
from msgspec import Meta

from streamshard.core.commands import PROTOCOL_VERSION, Heartbeat, Hold, Intent
from streamshard.core.group import ShardProgress
from streamshard.core.ids import Epoch, InstanceId, MemberId, Millis, RecordId, Seq, ShardIndex, Token, View
from streamshard.core.replies import Extension, Grant, HeartbeatReply, Status
from streamshard.core.settings import MAX_SHARDS
from streamshard.core.timing import Timing
from streamshard.entrypoints.http import answers
from streamshard.entrypoints.http.decoding import INT_LIMIT, Decoder
from streamshard.entrypoints.http.wire import PLAIN, PLAIN_NOT_BLANK
from streamshard.errors import InvalidRequest

JOIN, LEAVE = 0, -1

Whole = Annotated[int, Meta(ge=-INT_LIMIT, le=INT_LIMIT, description="a whole number")]
Natural = Annotated[int, Meta(ge=0, le=INT_LIMIT, description="a whole number, at least 0")]
Positive = Annotated[int, Meta(ge=1, le=INT_LIMIT, description="a whole number, at least 1")]
OptionalNatural = Annotated[
    Annotated[int, Meta(ge=0, le=INT_LIMIT)] | None, Meta(description="a whole number, at least 0")
]
Plain = Annotated[
    str, Meta(max_length=200, pattern=PLAIN, description="text of at most 200 characters without control characters")
]
Label = Annotated[
    str,
    Meta(
        max_length=200,
        pattern=PLAIN_NOT_BLANK,
        description="text, not blank, of at most 200 characters without control characters",
    ),
]
LongText = Annotated[
    Annotated[str, Meta(max_length=2000, pattern=PLAIN)] | None,
    Meta(description="text of at most 2000 characters without control characters, or null"),
]
Instance = Annotated[
    Annotated[str, Meta(pattern=r"\A[0-9a-fA-F]{32}\Z")] | None, Meta(description="128 random bits as 32 hex digits")
]
Id = Annotated[RecordId, Meta(pattern=r"\A[0-9]{1,20}(-[0-9]{1,20})?\Z", description="a record id")] | None
Age = Annotated[Annotated[Millis, Meta(ge=0, le=INT_LIMIT)] | None, Meta(description="a whole number, at least 0")]


class _Part(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A part of a heartbeat; what is not named here is ignored."""


class ShardPart(_Part, frozen=True, gc=False):
    """``{"shardIndex": 4}``: how a shard is always spelt."""

    shard_index: Annotated[ShardIndex, Meta(ge=-INT_LIMIT, le=INT_LIMIT, description="a whole number")]


class RevokingPart(_Part, frozen=True, gc=False):
    """A shard that the member is giving up; for display, and for older clients."""

    shard: ShardPart
    state: Literal["REVOKING", "DRAINING", "REVOKED"] | None = None
    in_flight: Natural | None = None

    @property
    def finished(self) -> bool:
        """Nothing of the shard is read or handled any more."""
        return self.state == "REVOKED" and not self.in_flight


class HoldPart(_Part, frozen=True, gc=False):
    """A shard that the instance may still be reading or handling."""

    shard_index: Whole
    token: Natural
    draining: bool = False


class CapacityPart(_Part, frozen=True, gc=False):
    """How many workers the member has, and how many are free."""

    runtime_max_concurrency: Positive
    available_concurrency: Natural


class ProgressPart(_Part, frozen=True, gc=False):
    """How far the member has got with a shard."""

    shard: ShardPart
    last_delivered_id: Id = None
    last_acked_id: Id = None
    ack_floor: Id = None
    pending_count: Natural | None = None
    in_flight: Natural | None = None
    read_state: Literal["READING", "IDLE", "DRAINING", "MISSING"] | None = None
    last_read_age_ms: Age = None
    handling_ms: Age = None


Shards = Annotated[tuple[ShardPart, ...], Meta(max_length=MAX_SHARDS, description="a list of {shardIndex}")]
Revoking = Annotated[tuple[RevokingPart, ...], Meta(max_length=MAX_SHARDS, description="a list of {shard, state}")]
Holds = Annotated[
    Annotated[tuple[HoldPart, ...], Meta(max_length=MAX_SHARDS)] | None,
    Meta(description="a list of {shardIndex, token, draining}"),
]
Progress = Annotated[
    tuple[ProgressPart, ...],
    Meta(max_length=MAX_SHARDS, description="a list of {shard, lastDeliveredId, lastAckedId, …}"),
]
Capacity = Annotated[
    CapacityPart, Meta(description="{runtimeMaxConcurrency (at least 1), availableConcurrency (at least 0)}")
]


class HeartbeatBody(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """POST ``…/members/{m}/heartbeat``."""

    protocol_version: Whole
    request_id: Label
    member_id: Plain
    member_name: Plain
    member_epoch: Whole
    metadata_version: Natural
    runtime_consumer_capacity: Capacity
    owned_shards: Shards
    revoking_shards: Revoking
    shard_progress: Progress = ()
    instance_id: Instance = None
    seq: OptionalNatural = None
    holds: Holds = None
    view: LongText = None
    advertised_url: LongText = None
    client_version: LongText = None
    lateness_ms: OptionalNatural = None

    def command(self, member: MemberId) -> "Heartbeat | Refused":
        """What is to be decided, or why a body that can be read is refused all the same."""
        parts = (self.owned_shards, self.revoking_shards, self.holds or ())
        named = remembered_names(*parts) if sum(map(len, parts)) <= FEW else names(*parts)
        return self._refusal(member, named) or self._heartbeat(member, named)

    def _refusal(self, member: MemberId, named: "Named") -> "Refused | None":
        if self.protocol_version != PROTOCOL_VERSION:
            why = f"protocolVersion: this coordinator speaks {PROTOCOL_VERSION} only: use a client that does"
            return Refused(Status.UNSUPPORTED_PROTOCOL, why)
        problem = self._identity_problem(member) or named.problem or progress_problem(self.shard_progress)
        return None if problem is None else Refused(Status.INVALID_REQUEST, problem)

    def _heartbeat(self, member: MemberId, named: "Named") -> Heartbeat:
        legacy = self.instance_id is None
        return Heartbeat(
            member=member,
            intent=_INTENTS.get(self.member_epoch, Intent.STAY),
            epoch=Epoch(self.member_epoch),
            instance=None if self.instance_id is None else InstanceId(self.instance_id.lower()),
            seq=Seq(self.metadata_version if legacy else self.seq or 0),
            holds=named.holds,
            view=None if self.view is None else View(self.view),
            metadata_version=self.metadata_version,
            member_name=self.member_name,
            request_id=self.request_id,
            protocol_version=self.protocol_version,
            max_concurrency=self.runtime_consumer_capacity.runtime_max_concurrency,
            available=self.runtime_consumer_capacity.available_concurrency,
            owned=named.owned,
            revoking=named.revoking,
            revoked=named.revoked,
            progress=progress_of(self.shard_progress),
            advertised_url=self.advertised_url,
            client_version=self.client_version,
            late=None if self.lateness_ms is None else Millis(self.lateness_ms),
        )

    def complete(self) -> "HeartbeatBody":
        """Itself; raises `InvalidRequest` if an instance came without seq and holds, or holds without one.

        A report without ``holds`` would otherwise read as "I have let go of everything".
        """
        if self.instance_id is None:
            if self.holds:
                raise InvalidRequest("instanceId: is missing, though holds are listed: send 32 hex digits")
            return self
        absent = [name for name, value in (("seq", self.seq), ("holds", self.holds)) if value is None]
        if absent:
            raise InvalidRequest("; ".join(f"{name}: is missing: it goes with instanceId" for name in absent))
        return self

    def _identity_problem(self, member: MemberId) -> str | None:
        if self.member_id != member:
            return "memberId: is not the one in the path: send the heartbeat to its member's own path"
        if self.member_epoch < LEAVE:
            return "memberEpoch: must be -1 to leave, 0 to join or the epoch last received"
        return None


@attrs.frozen
class Refused:
    """A body that can be read, and is not decided upon."""

    status: Status
    why: str


@attrs.frozen
class Named:
    """The shards that a body names, in the core's words, and what is wrong with them."""

    problem: str | None
    owned: tuple[ShardIndex, ...]
    revoking: tuple[ShardIndex, ...]
    revoked: tuple[ShardIndex, ...]
    holds: tuple[Hold, ...]


FEW = 32
"""So many shards at most are remembered: what nobody has authorised must not fill the memory."""


def names(owned: tuple[ShardPart, ...], revoking: tuple[RevokingPart, ...], holds: tuple[HoldPart, ...]) -> Named:
    """What the parts say."""
    held = [part.shard_index for part in holds]
    given_up = [part.shard.shard_index for part in revoking]
    owned_shards = [part.shard_index for part in owned]
    return Named(
        problem=_out_of_range("ownedShards", owned_shards)
        or _out_of_range("revokingShards", given_up)
        or _out_of_range("holds", held)
        or ("holds: names a shard twice: name each once" if len(set(held)) < len(held) else None),
        owned=_sorted_shards(owned_shards),
        revoking=_sorted_shards(given_up),
        revoked=_sorted_shards([part.shard.shard_index for part in revoking if part.finished]),
        holds=tuple(Hold(ShardIndex(part.shard_index), Token(part.token), part.draining) for part in holds),
    )


# A member names the same shards again and again.
remembered_names = functools.lru_cache(maxsize=8192)(names)


def _out_of_range(field: str, indexes: Sequence[int]) -> str | None:
    if not indexes or (min(indexes) >= 0 and max(indexes) < MAX_SHARDS):
        return None
    return f"{field}: shardIndex must be from 0 to {MAX_SHARDS - 1}"


def _sorted_shards(indexes: Sequence[int]) -> tuple[ShardIndex, ...]:
    return tuple(map(ShardIndex, sorted(set(indexes))))


_INTENTS = {JOIN: Intent.JOIN, LEAVE: Intent.LEAVE}
_decode = Decoder(HeartbeatBody)


def decode_heartbeat(body: bytes) -> HeartbeatBody:
    """Raise `InvalidRequest` if it can't be decoded or lacks a field."""
    return _decode(body).complete()


def progress_problem(parts: tuple[ProgressPart, ...]) -> str | None:
    """What is wrong with them."""
    return _out_of_range("shardProgress", [part.shard.shard_index for part in parts])


def progress_of(parts: tuple[ProgressPart, ...]) -> tuple[ShardProgress, ...]:
    """How far a member has got, in the core's words."""
    return tuple(map(_progress, parts))


def _progress(part: ProgressPart) -> ShardProgress:
    return ShardProgress(
        part.shard.shard_index,
        part.last_delivered_id,
        part.last_acked_id,
        part.ack_floor,
        part.pending_count or 0,
        part.in_flight or 0,
        part.read_state or "IDLE",
        part.last_read_age_ms,
        part.handling_ms,
    )


def rejected(body: HeartbeatBody, member: MemberId, refused: Refused, timing: Timing) -> HeartbeatReply:
    """An answer of the rejected family: no group values, empty sets, the epoch that was sent."""
    return HeartbeatReply(
        status=refused.status,
        member=member,
        epoch=Epoch(body.member_epoch),
        seq=Seq(body.seq or 0),
        heartbeat_ms=timing.heartbeat_ms,
        rebalance_timeout_ms=timing.rebalance_timeout_ms,
        lease_ms=timing.lease_ms,
        response_to=body.request_id,
        message=refused.why,
    )


_SHARD: Callable[[Grant | Extension], ShardIndex] = attrgetter("shard")
_encode = msgspec.json.Encoder().encode


def encode_reply(reply: HeartbeatReply) -> bytes:
    """The answer's JSON; shards sorted by index. What answers have in common is written once."""
    likeness = reply.likeness
    if likeness is None:
        return _written(reply, reply.response_to, reply.seq)
    if likeness.written is None:
        likeness.written = tuple(_written(reply, _GAP, _GAP).split(_GAP_BYTES))
    before, between, after = likeness.written
    return b"".join((before, _encode(reply.response_to), between, b"%d" % reply.seq, after))


_GAP_BYTES = b"\0"
"""JSON has no such byte: in texts it is escaped."""
_GAP: Any = msgspec.Raw(_GAP_BYTES)


def _written(reply: HeartbeatReply, response_to: str, seq: int) -> bytes:
    return _encode(
        answers.HeartbeatAnswer(
            response_to=response_to,
            status=reply.status,
            member_id=reply.member,
            member_epoch=reply.epoch,
            heartbeat_interval_ms=reply.heartbeat_ms,
            rebalance_timeout_ms=reply.rebalance_timeout_ms,
            group_epoch=reply.group_epoch,
            assignment_epoch=reply.assignment_epoch,
            metadata_version=reply.metadata_version,
            assignment=answers.Assignment(
                assigned_shards=_shard_refs(reply.assigned),
                pending_shards=_shard_refs(reply.pending),
                metadata_version=reply.metadata_version,
            ),
            lease_ms=reply.lease_ms,
            seq=seq,
            view=reply.view,
            grants=[
                answers.Grant(shard_index=grant.shard, token=grant.token, generation=grant.generation)
                for grant in sorted(reply.grants, key=_SHARD)
            ],
            extended=[
                answers.Extension(shard_index=hold.shard, token=hold.token)
                for hold in sorted(reply.extended, key=_SHARD)
            ],
            retry_after_ms=reply.retry_after_ms,
            retry_reason=reply.retry_reason,
            message=reply.message,
        )
    )


def _shard_refs(shards: tuple[ShardIndex, ...]) -> list[answers.ShardRef]:
    return [answers.ShardRef(shard_index=shard) for shard in sorted(shards)]
