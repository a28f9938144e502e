"""What members ask of a shard's log, and what it answers: every order carries its fencing token."""

import enum
from collections.abc import Mapping

import attrs

from streamshard.core.ids import Generation, GroupName, RecordId, ShardIndex, StreamPrefix, Token


@attrs.frozen
class ShardAccess:
    """The grant under which a member touches a shard, and the consumer name it does it by."""

    prefix: StreamPrefix
    shard: ShardIndex
    group: GroupName
    consumer: str
    generation: Generation
    token: Token


@attrs.frozen(slots=False)  # with slots, making one costs three times as much
class Record:
    """One entry of a shard. ``fields`` is None for an entry that was trimmed or deleted while pending."""

    id: RecordId
    fields: Mapping[bytes, bytes] | None
    deliveries: int = 1


class Access(enum.Enum):
    """Whether the fence let the order through."""

    OK = "OK"
    FENCED = "FENCED"  # a higher token was seen: somebody else was granted the shard
    SEALED = "SEALED"  # this generation is retired: let it go
    MISSING = "MISSING"  # no key, or no group on it: report it


@attrs.frozen
class ReadReply:
    """New records, in id order, and the group's position after them."""

    access: Access
    records: tuple[Record, ...] = ()
    last_delivered: RecordId | None = None


@attrs.frozen
class ClaimReply:
    """Pending records taken over in id order; ``cursor`` is None when the page was the last."""

    access: Access
    records: tuple[Record, ...] = ()
    cursor: RecordId | None = None
    last_delivered: RecordId | None = None


@attrs.frozen(slots=False)  # with slots, making one costs three times as much
class Append:
    """A record to add to an existing key, encoded already; ``max_len`` trims the key, about or ``exact``-ly.

    ``once``: a producer's name, and the record's number there. A server that can (Redis 8.6) takes it once.
    """

    key: str
    fields: Mapping[bytes, bytes]
    max_len: int | None = None
    exact: bool = False
    once: tuple[str, int] | None = None


@attrs.frozen
class DeliveryReply:
    """How often each record was handed out by now; one that is not pending any more is left out."""

    access: Access
    deliveries: Mapping[RecordId, int] = attrs.field(factory=dict)


@attrs.frozen
class Abilities:
    """What the server of the shards can do; ``server``: its name and version, as people call it."""

    server: str
    deletes_acknowledged: bool = False
    """It has XACKDEL."""
    gives_back: bool = False
    """It has XNACK."""


class AckMode(enum.Enum):
    """``ACK_DEL`` deletes the record once every group has acknowledged it (where the server can)."""

    ACK = "ACK"
    ACK_DEL = "ACK_DEL"


@attrs.frozen
class AckReply:
    """How many of the ids were pending and are acknowledged now."""

    access: Access
    acknowledged: int = 0
