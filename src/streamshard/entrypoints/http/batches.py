"""The handler for all logical members of a process in one request."""

import asyncio
from typing import Annotated, Any

import attrs
import msgspec
from msgspec import Meta

from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import Epoch, GroupKey, MemberId, Seq
from streamshard.core.names import check_group, check_member, check_prefix
from streamshard.core.replies import HeartbeatReply, Status
from streamshard.core.timing import Timing
from streamshard.entrypoints.http.decoding import INT_LIMIT, Decoder
from streamshard.entrypoints.http.exchange import Reply, Request
from streamshard.entrypoints.http.heartbeats import HeartbeatBody, Refused, encode_reply, rejected
from streamshard.entrypoints.http.metrics_recorder import HeartbeatRecorder, now
from streamshard.entrypoints.security.roles import Caller
from streamshard.errors import Forbidden, InvalidRequest

MOST_HEARTBEATS = 1_000

Items = Annotated[
    list[msgspec.Raw],
    Meta(max_length=MOST_HEARTBEATS, description=f"a list of at most {MOST_HEARTBEATS} heartbeats"),
]
Name = Annotated[str, Meta(description="text")]


class BatchBody(msgspec.Struct, frozen=True, rename="camel"):
    """POST ``/heartbeats``; what stands in an item is looked at one by one."""

    heartbeats: Items


class ItemBody(HeartbeatBody, frozen=True, rename="camel", kw_only=True):
    """A heartbeat that says itself where it belongs."""

    stream_prefix: Name
    consumer_group: Name


@attrs.frozen
class _Asked:
    """An item that can be decided."""

    key: GroupKey
    beat: Heartbeat


class Batches:
    """Each heartbeat is decided as if it had come alone, and answered in its place."""

    def __init__(self, coordinator: Coordinator, recorder: HeartbeatRecorder) -> None:
        self._coordinator = coordinator
        self._recorder = recorder

    async def heartbeats(self, request: Request) -> Reply:
        """POST ``/heartbeats``."""
        timing, began = self._coordinator.settings.timing, now()
        asked = [_understood(bytes(item), timing, request.caller) for item in _decode(request.body).heartbeats]
        replies = [item if isinstance(item, HeartbeatReply) else None for item in asked]
        waiting = [(position, item) for position, item in enumerate(asked) if isinstance(item, _Asked)]
        # Each join and each goodbye changes the record: at the same time they would only fail for each other.
        turns: dict[GroupKey, list[tuple[int, _Asked]]] = {}
        for position, item in waiting:
            if item.beat.intent is not Intent.STAY:
                turns.setdefault(item.key, []).append((position, item))
        lanes = [*turns.values(), *([each] for each in waiting if each[1].beat.intent is Intent.STAY)]
        for reply in replies:
            if reply is not None:  # not even decided upon
                self._recorder.answered(reply.status, now() - began)
        await asyncio.gather(*(self._lane(lane, replies) for lane in lanes))
        return Reply(200, b'{"replies":[' + b",".join(encode_reply(reply) for reply in replies if reply) + b"]}")

    async def _lane(self, lane: list[tuple[int, _Asked]], replies: list[HeartbeatReply | None]) -> None:
        for position, item in lane:
            began = now()
            reply = replies[position] = await self._coordinator.heartbeat(item.key, item.beat)
            self._recorder.answered(reply.status, now() - began)


_decode = Decoder(BatchBody)
_decode_item = Decoder(ItemBody)


def _understood(item: bytes, timing: Timing, caller: Caller) -> _Asked | HeartbeatReply:
    try:
        body = _decode_item(item)
        body.complete()
        key = GroupKey(check_prefix(body.stream_prefix), check_group(body.consumer_group))
        member = check_member(body.member_id)
    except InvalidRequest as refusal:
        return _spoilt(item, refusal.message, timing)
    if not caller.reaches(key.prefix):
        raise Forbidden(f"account '{caller.name}' is confined to other streams than '{key.prefix}'")
    command = body.command(member)
    if isinstance(command, Refused):
        return rejected(body, member, command, timing)
    return _Asked(key, command if caller.name is None else command.spoken_by(caller.name))


def _spoilt(item: bytes, why: str, timing: Timing) -> HeartbeatReply:
    """The answer to what can't be understood, with as much of its sender as can be made out."""
    try:
        found = msgspec.json.decode(item, strict=True)
    except (msgspec.DecodeError, RecursionError):
        found = None
    told: dict[str, Any] = found if isinstance(found, dict) else {}
    return HeartbeatReply(
        status=Status.INVALID_REQUEST,
        member=MemberId(_text(told.get("memberId"))),
        epoch=Epoch(_whole(told.get("memberEpoch"))),
        seq=Seq(_whole(told.get("seq"))),
        heartbeat_ms=timing.heartbeat_ms,
        rebalance_timeout_ms=timing.rebalance_timeout_ms,
        lease_ms=timing.lease_ms,
        response_to=_text(told.get("requestId")),
        message=why,
    )


def _text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""


def _whole(value: Any) -> int:
    return value if type(value) is int and abs(value) <= INT_LIMIT else 0
