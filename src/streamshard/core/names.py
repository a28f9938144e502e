"""Which names streams, groups and members may have, and what is wrong with the others.

The rules keep a name safe as part of a Redis key, of a URL path and of a log line. No message repeats
the name: it may carry what a terminal would obey.
"""

import unicodedata

from streamshard.core.ids import GroupName, MemberId, StreamPrefix
from streamshard.errors import InvalidRequest

MAX_BYTES = 200


def name_problem(name: str) -> str | None:
    """Why a group or a member can't be called ``name``, and what to do; None if it can."""
    return _size_problem(name) or _character_problem(name, "/") or _shape_problem(name)


def prefix_problem(name: str) -> str | None:
    """Why a stream can't be called ``name``, and what to do; None if it can.

    Braces are out because Redis Cluster would hash all shards of the stream into one slot.
    """
    return _size_problem(name) or _character_problem(name, "/{}") or _shape_problem(name)


def check_prefix(name: str, field: str = "streamPrefix") -> StreamPrefix:
    """``name`` as a stream's prefix; raises `InvalidRequest` naming ``field``."""
    _refuse(field, prefix_problem(name))
    return StreamPrefix(name)


def check_group(name: str, field: str = "consumerGroup") -> GroupName:
    """``name`` as a group's name; raises `InvalidRequest` naming ``field``."""
    _refuse(field, name_problem(name))
    return GroupName(name)


def check_member(name: str, field: str = "memberId") -> MemberId:
    """``name`` as a member's id; raises `InvalidRequest` naming ``field``."""
    _refuse(field, name_problem(name))
    return MemberId(name)


def _refuse(field: str, problem: str | None) -> None:
    if problem is not None:
        raise InvalidRequest(f"{field}: {problem}")


def _size_problem(name: str) -> str | None:
    size = len(name.encode("utf-8", "surrogatepass"))
    if size == 0:
        return f"is empty: choose a name of 1 to {MAX_BYTES} bytes"
    if size > MAX_BYTES:
        return f"is {size} bytes of UTF-8 long: shorten it to {MAX_BYTES} or fewer"
    return None


def _character_problem(name: str, forbidden: str) -> str | None:
    for position, character in enumerate(name):
        where = f"at position {position}: take it out"
        if character in forbidden:
            return f"has a {character!r} {where}"
        match unicodedata.category(character):
            case "Cc":
                return f"has the control character U+{ord(character):04X} {where}"
            case "Cs":
                return f"has the lone surrogate U+{ord(character):04X} {where}"
    return None


def _shape_problem(name: str) -> str | None:
    if name != name.strip():
        return "begins or ends with a space: take it away"
    if name in {".", ".."}:
        return f"is {name!r}, which means a directory in a URL: choose another name"
    return None
