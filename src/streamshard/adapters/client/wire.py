"""The client's half of the JSON contract ``/coord/v1``: requests out, answers in, errors as our classes."""

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from streamshard import errors
from streamshard.adapters.client.answer import shown
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.group import ShardProgress
from streamshard.core.ids import (
    Epoch,
    Generation,
    GroupKey,
    GroupName,
    LayoutVersion,
    Lineage,
    MemberId,
    Millis,
    Seq,
    ShardIndex,
    StreamPrefix,
    Token,
    View,
    WallMillis,
    stream_key,
)
from streamshard.core.notices import GroupWatch, LayoutWatch
from streamshard.core.replies import Extension, Grant, HeartbeatReply, News, RetryReason, Routing, Status
from streamshard.core.settings import MAX_SHARDS
from streamshard.errors import CoordinatorUnreachable, StreamshardError

Body = dict[str, Any]

LONGEST_MS = 366 * 24 * 3_600_000
MOST_EXACT = 2**53 - 1
"""The greatest whole number that every JSON parser keeps as it is."""

WIRE_EPOCHS = {Intent.JOIN: 0, Intent.LEAVE: -1}


def heartbeat_body(key: GroupKey, beat: Heartbeat, now: WallMillis) -> Body:
    """One attempt as the coordinator expects it; ``now`` is for display only."""
    return {
        "protocolVersion": beat.protocol_version,
        "requestId": beat.request_id or f"{beat.instance or beat.member}-{beat.seq}",
        "memberId": beat.member,
        "memberName": beat.member_name or beat.member,
        "memberEpoch": WIRE_EPOCHS.get(beat.intent, beat.epoch),
        "metadataVersion": beat.metadata_version,
        "runtimeConsumerCapacity": {
            "runtimeMaxConcurrency": beat.max_concurrency,
            "availableConcurrency": beat.available,
        },
        "ownedShards": [_shard(shard) for shard in beat.owned],
        "revokingShards": [_revoking(shard, beat) for shard in beat.revoking],
        "shardProgress": [_progress(key.prefix, row, now) for row in beat.progress],
        "instanceId": beat.instance,
        "seq": beat.seq,
        "holds": [{"shardIndex": h.shard, "token": h.token, "draining": h.draining} for h in beat.holds],
        "view": beat.view,
        "advertisedUrl": beat.advertised_url,
        "clientVersion": beat.client_version,
        "latenessMs": beat.late,
    }


def reply_of(body: Body) -> HeartbeatReply:
    """The answer to an attempt; raises `CoordinatorUnreachable` for one that can't be used."""
    try:
        assignment = body.get("assignment") or {}
        return HeartbeatReply(
            status=Status(body["status"]),
            member=MemberId(_text(body["memberId"])),
            epoch=Epoch(_int(body["memberEpoch"])),
            seq=Seq(_int(body["seq"])),
            heartbeat_ms=_duration(body["heartbeatIntervalMs"]),
            rebalance_timeout_ms=_duration(body["rebalanceTimeoutMs"]),
            lease_ms=_duration(body["leaseMs"]),
            response_to=_text(body.get("responseTo") or ""),
            group_epoch=Epoch(_int(body.get("groupEpoch") or 0)),
            assignment_epoch=Epoch(_int(body.get("assignmentEpoch") or 0)),
            metadata_version=_int(body.get("metadataVersion") or 0),
            assigned=_shards(assignment.get("assignedShards")),
            pending=_shards(assignment.get("pendingShards")),
            grants=tuple(_grant(row) for row in body.get("grants") or ()),
            extended=tuple(_extension(row) for row in body.get("extended") or ()),
            view=None if body.get("view") is None else View(_text(body["view"])),
            retry_after_ms=None if body.get("retryAfterMs") is None else _duration(body["retryAfterMs"]),
            retry_reason=None if body.get("retryReason") is None else RetryReason(body["retryReason"]),
            message=None if body.get("message") is None else shown(_text(body["message"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CoordinatorUnreachable(f"the answer to a heartbeat can't be used: {_why(error)}") from error


def batch_item(key: GroupKey, beat: Heartbeat, now: WallMillis) -> Body:
    """One attempt as it stands in a batch, where no path names its place."""
    return {"streamPrefix": key.prefix, "consumerGroup": key.group, **heartbeat_body(key, beat, now)}


def batch_of(body: Body, size: int) -> tuple[HeartbeatReply | CoordinatorUnreachable, ...]:
    """The answers to a batch, in its order; raises `CoordinatorUnreachable` if they can't be told apart."""
    rows = body.get("replies")
    if not isinstance(rows, list) or len(rows) != size:
        raise CoordinatorUnreachable(f"the answer to {size} heartbeats can't be used: it has no {size} replies")
    return tuple(map(_reply_or_trouble, rows))


def _reply_or_trouble(row: Any) -> HeartbeatReply | CoordinatorUnreachable:
    try:
        return reply_of(row)
    except CoordinatorUnreachable as trouble:
        return trouble


def watch_query(watch: GroupWatch | LayoutWatch, wait: Millis) -> list[tuple[str, str]]:
    """What stands behind the question mark."""
    if isinstance(watch, LayoutWatch):
        held = str(watch.version) if watch.lineage is None else f"{watch.lineage}-{watch.version}"
        return [("layout", held), ("waitMs", str(wait))]
    view = [] if watch.view is None else [("view", str(watch.view))]
    members = [("member", str(member)) for member in watch.members or ()]
    return [("group", watch.key.group), *view, *members, ("waitMs", str(wait))]


def news_of(body: Body) -> News:
    """The answer to a watch; raises `CoordinatorUnreachable` for one that can't be used."""
    try:
        version = _int(body["layoutVersion"])
        members = body.get("members")
        return News(
            changed=body["changed"] is True,
            lineage=_lineage(body.get("layout") or str(version), version),
            layout_version=LayoutVersion(version),
            metadata_version=_int(body["metadataVersion"]),
            view=None if body.get("view") is None else View(str(body["view"])),
            members=None if members is None else tuple(MemberId(str(member)) for member in members),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CoordinatorUnreachable(f"the answer to a watch can't be used: {_why(error)}") from error


def routing_of(key: GroupKey, body: Body, etag: str) -> Routing:
    """A routing answer; where the body names no lineage, it is the ``ETag`` without the layout version."""
    try:
        version = _int(body["layoutVersion"])
        routing = Routing(
            key=GroupKey(StreamPrefix(_text(body["streamPrefix"])), GroupName(_text(body["consumerGroup"]))),
            shard_count=_within(body["shardCount"], MAX_SHARDS),
            layout_version=LayoutVersion(version),
            lineage=Lineage(body["lineage"]) if body.get("lineage") else _lineage(etag, version),
            metadata_version=_int(body["metadataVersion"]),
            protocol=str(body["routingProtocol"]),
            lease_ms=_duration(body["leaseMs"]),
            resharding_active=bool(body.get("reshardingActive", False)),
        )
        listed = [_shard_row(row) for row in body["shards"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CoordinatorUnreachable(f"the routing of {key} can't be used: {_why(error)}") from error

    if listed != [(n, stream_key(routing.key.prefix, ShardIndex(n))) for n in range(routing.shard_count)]:
        raise CoordinatorUnreachable(
            f"the routing of {key} can't be used: it lists {len(listed)} shards that are not "
            f"the {routing.shard_count} of {routing.key.prefix}"
        )
    return routing


def error_of(status: int, body: object) -> StreamshardError | None:
    """The error of an answer in the contract's error shape; None for any other answer."""
    if not isinstance(body, Mapping) or not isinstance(body.get("errorCode"), str):
        return None
    details = body.get("details")
    kind = _BY_CODE.get(body["errorCode"], StreamshardError)
    message = shown(str(body.get("message") or f"the coordinator answered {status} {body['errorCode']}"))
    return kind(message, details if isinstance(details, Mapping) else None)


def _kinds(kind: type[StreamshardError]) -> Iterator[type[StreamshardError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _kinds(child)


_BY_CODE: dict[str, type[StreamshardError]] = {
    **{kind.code: kind for kind in reversed([*_kinds(StreamshardError)]) if "code" in vars(kind)},
    errors.StateConflict.code: errors.StateConflict,
}


def _shard(shard: ShardIndex) -> Body:
    return {"shardIndex": shard}


def _revoking(shard: ShardIndex, beat: Heartbeat) -> Body:
    in_flight = sum(row.in_flight for row in beat.progress if row.shard == shard)
    return {"shard": _shard(shard), "state": "DRAINING", "inFlight": in_flight, "ackedAt": None}


def _progress(prefix: StreamPrefix, row: ShardProgress, now: WallMillis) -> Body:
    return {
        "shard": _shard(row.shard),
        "streamKey": stream_key(prefix, row.shard),
        "lastDeliveredId": row.last_delivered,
        "lastAckedId": row.last_acked,
        "ackFloor": row.ack_floor,
        "pendingCount": row.pending,
        "inFlight": row.in_flight,
        "readState": row.read_state,
        "lastReadAgeMs": row.read_ago,
        "handlingMs": row.handling_for,
        "updatedAt": _iso(now),
    }


def _iso(now: WallMillis) -> str:
    moment = datetime.datetime.fromtimestamp(now / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shards(rows: Any) -> tuple[ShardIndex, ...]:
    return tuple(_index(row) for row in rows or ())


def _shard_row(row: Any) -> tuple[int, str]:
    return _int(row["shardIndex"]), str(row["streamKey"])


def _grant(row: Any) -> Grant:
    return Grant(_index(row), _token(row), Generation(_int(row["generation"])))


def _extension(row: Any) -> Extension:
    return Extension(_index(row), _token(row))


def _lineage(etag: str, version: int) -> Lineage:
    tag = etag.removeprefix("W/").strip('"')
    if not tag.endswith(str(version)):
        raise ValueError(f"ETag {etag!r} does not end in the layout version {version}")
    return Lineage(tag.removesuffix(str(version)).rstrip("-:._/"))


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _within(value: Any, most: int) -> int:
    number = _int(value)
    if not 0 <= number <= most:
        raise ValueError(f"{shown(str(number))} is not from 0 to {most}")
    return number


def _duration(value: Any) -> Millis:
    return Millis(_within(value, LONGEST_MS))


def _index(row: Any) -> ShardIndex:
    return ShardIndex(_within(row["shardIndex"], MAX_SHARDS - 1))


def _token(row: Any) -> Token:
    return Token(_within(row["token"], MOST_EXACT))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _why(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else shown(str(error))
