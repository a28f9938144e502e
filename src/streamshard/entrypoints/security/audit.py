"""The record of who tried to change what: one for each attempt, refused ones too."""

import datetime
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs
import msgspec

logger = logging.getLogger("streamshard.audit")

LONGEST_TEXT = 200
"""Characters of a text that a caller has sent."""

_MOST_LISTED = 20
_SUMMARISED = (
    "initialShardCount",
    "targetShardCount",
    "consumerGroups",
    "routingProtocol",
    "startFrom",
    "adopt",
    "allowLegacyMembers",
    "retention",
    "ignoreForeignGroups",
    "stopProducers",
    "deprecatedAfter",
    "force",
    "keepRedisGroups",
    "dropData",
)
"""Fields of bodies that are told; whatever else somebody sends stays out."""

_OUTCOMES: Mapping[int, str] = {401: "UNAUTHORIZED", 403: "FORBIDDEN"}
_FIRST_FAILURE, _FIRST_FAULT = 400, 500


@attrs.frozen(kw_only=True)
class AuditRecord:
    """One attempt."""

    timestamp: str
    coordinator_id: str
    action: str
    outcome: str
    status: int
    principal: str | None
    roles: tuple[str, ...]
    method: str
    route: str
    path: str
    stream_prefix: str | None
    consumer_group: str | None
    resharding_id: str | None
    request_id: str
    requested_by: str | None
    reason: str | None
    client_address: str | None
    user_agent: str | None
    duration_ms: int
    request_body_sha256: str | None
    request_summary: Mapping[str, Any]

    def json(self) -> str:
        """One line of ASCII: whatever could begin another line, or mean something to a terminal, is escaped."""
        told = {_camel(name): value for name, value in attrs.asdict(self, recurse=False).items()}
        told["requestSummary"] = dict(self.request_summary)
        return json.dumps(told, ensure_ascii=True, separators=(",", ":")).replace("\x7f", "\\u007f")


Sink: TypeAlias = Callable[[AuditRecord], None]


def to_log(record: AuditRecord) -> None:
    """Log it, as one JSON object."""
    logger.info("%s", record.json())


def outcome_of(status: int) -> str:
    """What a status means to who reads the record."""
    if status < _FIRST_FAILURE:
        return "SUCCESS"
    return _OUTCOMES.get(status, "ERROR" if status >= _FIRST_FAULT else "FAILED")


def short(text: object) -> str | None:
    """A text of a caller's, as far as it is told; None for what is none."""
    return text[:LONGEST_TEXT] if isinstance(text, str) else None


def understood(body: bytes) -> dict[str, Any]:
    """The fields of a body; none if it has none."""
    try:
        found = msgspec.json.decode(body, strict=True)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def summary(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What of a body is told besides who and why."""
    return {name: _told(fields[name]) for name in _SUMMARISED if name in fields}


def digest(body: bytes) -> str:
    """Of the whole body."""
    return hashlib.sha256(body).hexdigest()


def timestamp(wall_ms: int) -> str:
    """ISO-8601 in UTC."""
    moment = datetime.datetime.fromtimestamp(wall_ms / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _told(value: object) -> object:
    if isinstance(value, list):
        return [_told(each) for each in value[:_MOST_LISTED] if not isinstance(each, list)]
    if isinstance(value, bool | int | None):
        return value
    return short(value)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
