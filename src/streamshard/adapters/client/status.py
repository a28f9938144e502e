"""What a member knows of its own work at one moment: for metrics, logs and health checks of the application."""

import attrs

from streamshard.core.group import ShardProgress
from streamshard.core.ids import GroupKey, MemberId, Millis, Token

UNREAD_LEASES = 2


@attrs.frozen
class ShardStatus:
    """One shard that is read. ``read_ago``: since Redis last answered a read; ``handling_for``: the handler runs."""

    token: Token
    progress: ShardProgress
    read_ago: Millis
    handling_for: Millis | None = None
    skipped: int = 0
    """Records that were trimmed or deleted while pending."""
    unread: bool = False
    """It is ours, no handler of it runs, and it was not read for two leases."""


@attrs.frozen
class MemberStatus:
    """One member. ``heartbeat_late``: by how much the last heartbeat left after its time."""

    key: GroupKey
    member: MemberId
    heartbeat_late: Millis
    shards: tuple[ShardStatus, ...] = ()
