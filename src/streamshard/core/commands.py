"""What can happen to a group: a heartbeat, or time passing."""

import enum

import attrs

from streamshard.core.group import ShardProgress
from streamshard.core.ids import (
    Epoch,
    GroupKey,
    InstanceId,
    LayoutVersion,
    Lineage,
    MemberId,
    Seq,
    ShardIndex,
    StreamPrefix,
    Token,
    View,
)

PROTOCOL_VERSION = 1
"""The one coordination version this module speaks."""


class Intent(enum.Enum):
    """What a heartbeat asks for; on the wire the epochs 0, positive and -1."""

    JOIN = "JOIN"
    STAY = "STAY"
    LEAVE = "LEAVE"


@attrs.frozen
class Hold:
    """A shard the sender may still be reading or handling."""

    shard: ShardIndex
    token: Token
    draining: bool = False


@attrs.frozen
class Heartbeat:
    """One attempt of one instance to renew, with everything it may still be reading."""

    member: MemberId
    intent: Intent
    epoch: Epoch
    """As sent; the identity of the life that ``STAY`` and ``LEAVE`` speak for."""
    instance: InstanceId | None
    """None for a client of the older contract."""
    seq: Seq
    holds: tuple[Hold, ...] = ()
    view: View | None = None
    metadata_version: int = 0
    member_name: str = ""
    request_id: str = ""
    protocol_version: int = PROTOCOL_VERSION
    max_concurrency: int = 1
    available: int = 0
    owned: tuple[ShardIndex, ...] = ()
    """For display, and for clients without ``holds``."""
    revoking: tuple[ShardIndex, ...] = ()
    revoked: tuple[ShardIndex, ...] = ()
    """Of clients without ``holds``: those of ``revoking`` that they say they have finished with."""
    progress: tuple[ShardProgress, ...] = ()
    advertised_url: str | None = None
    client_version: str | None = None
    legacy: bool = False
    """Set by the coordinator for a client without an instance, once it has been given one."""


@attrs.frozen
class GroupWatch:
    """ "Tell me of a commit of this group that is newer than my view"."""

    key: GroupKey
    view: View | None = None
    """None: whatever there is, is news."""
    members: tuple[MemberId, ...] | None = None
    """Only of commits after which a heartbeat of one of these would do something; None: of every commit."""

    @property
    def prefix(self) -> StreamPrefix:
        """The stream that the group belongs to."""
        return self.key.prefix

    @property
    def watched(self) -> GroupKey:
        """The key of the record that is watched."""
        return self.key


@attrs.frozen
class LayoutWatch:
    """ "Tell me when producers route by another layout than the one I hold"."""

    prefix: StreamPrefix
    version: LayoutVersion
    lineage: Lineage | None = None
    """None: the number alone is compared."""

    @property
    def watched(self) -> StreamPrefix:
        """The key of the record that is watched."""
        return self.prefix
