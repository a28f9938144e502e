"""What callers put behind the question mark, each value read with its limits."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

import attrs

from streamshard.core.ids import GroupKey, RecordId, ShardIndex
from streamshard.core.inspection import Direction, Wanted
from streamshard.core.names import check_group, check_prefix
from streamshard.core.settings import MAX_SHARDS
from streamshard.entrypoints.http.exchange import Request
from streamshard.errors import InvalidRequest

MOST_MESSAGES = 1_000
DEFAULT_MESSAGES = 25

_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
_RECORD_ID = re.compile(r"([0-9]{1,20})-([0-9]{1,20})", re.ASCII)
_ID_LIMIT = 2**64


@attrs.frozen
class Question:
    """A query string; names that nobody asks for are ignored."""

    given: Mapping[str, str]

    def text(self, name: str) -> str:
        """Raise `InvalidRequest` if it is missing."""
        if name not in self.given:
            raise InvalidRequest(f"{name}: is missing: add ?{name}=")
        return self.given[name]

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number within bounds; raises `InvalidRequest` for anything else."""
        if name not in self.given:
            return default
        value = self.given[name]
        if not _WHOLE.fullmatch(value) or not low <= int(value) <= high:
            raise InvalidRequest(f"{name}: must be a whole number from {low} to {high}")
        return int(value)

    def key(self) -> GroupKey:
        """The group that ``streamPrefix`` and ``consumerGroup`` name."""
        return GroupKey(check_prefix(self.text("streamPrefix")), check_group(self.text("consumerGroup")))

    def page(self) -> Wanted:
        """``direction``, ``limit`` and ``cursor`` of a page of records."""
        direction = self.given.get("direction", Direction.BACKWARD.value)
        if direction not in {each.value for each in Direction}:
            raise InvalidRequest("direction: must be BACKWARD or FORWARD")
        limit = self.whole("limit", DEFAULT_MESSAGES, 1, MOST_MESSAGES)
        return Wanted(Direction(direction), limit, self.record_id("cursor"))

    def record_id(self, name: str) -> RecordId | None:
        """A record's id, or None if it was left out or left empty."""
        value = self.given.get(name) or None
        if value is None:
            return None
        found = _RECORD_ID.fullmatch(value)
        if found is None or any(int(part) >= _ID_LIMIT for part in found.groups()):
            raise InvalidRequest(f"{name}: must be a record id such as 1799960412345-0, as nextCursor gives it")
        return RecordId(f"{int(found[1])}-{int(found[2])}")


def question(request: Request) -> Question:
    """Raise `InvalidRequest` unless the query string is percent-encoded UTF-8."""
    raw: bytes = request.scope["query_string"]
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=16)
    except ValueError:
        raise InvalidRequest("query: can't be read: percent-encode its UTF-8 bytes") from None
    return Question(dict(pairs))


def shard_index(text: str, field: str = "shard") -> ShardIndex:
    """A shard's index; raises `InvalidRequest` if it can't be one."""
    if not _WHOLE.fullmatch(text) or int(text) >= MAX_SHARDS:
        raise InvalidRequest(f"{field}: must be a whole number from 0 to {MAX_SHARDS - 1}")
    return ShardIndex(int(text))
