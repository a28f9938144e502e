"""Records that were given up: what is kept of them, and how it is written in a stream of its own.

The stream ``PREFIX:dlq`` holds the original fields as they were, and beside them why and where from. Names
of ours begin with ``streamshard:``; an original field that begins so, too, is kept under a longer name.
"""

from collections.abc import Mapping

import attrs

from streamshard.core.ids import GroupName, RecordId, ShardIndex, StreamPrefix

OURS = b"streamshard:"
THEIRS = OURS + b"field:"

REASON, DELIVERIES, GROUP = OURS + b"reason", OURS + b"deliveries", OURS + b"group"
SHARD, RECORD = OURS + b"shard", OURS + b"id"


@attrs.frozen
class DeadLetter:
    """A record that a group gave up. ``deliveries``: how often it was handed out until then."""

    reason: str
    deliveries: int
    group: GroupName
    shard: ShardIndex
    record: RecordId
    fields: Mapping[bytes, bytes]


def dead_letter_key(prefix: StreamPrefix) -> str:
    """The stream key of what was given up; never the key of a shard, which ends in a number."""
    return f"{prefix}:dlq"


def written(letter: DeadLetter) -> dict[bytes, bytes]:
    """The fields of its entry."""
    return {
        REASON: letter.reason.encode(errors="replace"),
        DELIVERIES: str(letter.deliveries).encode(),
        GROUP: letter.group.encode(),
        SHARD: str(letter.shard).encode(),
        RECORD: letter.record.encode(),
        **{THEIRS + name if name.startswith(OURS) else name: value for name, value in letter.fields.items()},
    }


def read_back(fields: Mapping[bytes, bytes]) -> DeadLetter | None:
    """The letter in an entry; None for one that this library did not write."""
    try:
        return DeadLetter(
            reason=fields[REASON].decode(errors="replace"),
            deliveries=int(fields[DELIVERIES]),
            group=GroupName(fields[GROUP].decode()),
            shard=ShardIndex(int(fields[SHARD])),
            record=RecordId(fields[RECORD].decode()),
            fields={name.removeprefix(THEIRS): value for name, value in fields.items() if _original(name)},
        )
    except (KeyError, ValueError):
        return None


def _original(name: bytes) -> bool:
    return name.startswith(THEIRS) or not name.startswith(OURS)
