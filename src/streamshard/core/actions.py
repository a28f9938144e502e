"""What the member's session asks of the runtime that drives it."""

from typing import TypeAlias

import attrs

from streamshard.core.ids import Generation, Millis, ShardIndex, Token


@attrs.frozen
class Start:
    """Begin a run: everything pending first, then new records."""

    shard: ShardIndex
    token: Token
    generation: Generation


@attrs.frozen
class Drain:
    """Stop reading, let the handlers under way finish and acknowledge, then report `finished`."""

    shard: ShardIndex
    token: Token


@attrs.frozen
class Drop:
    """The right is gone: no read, handler or acknowledgement any more; report `finished` when quiet.

    ``fenced``: not for want of a lease, but because the coordinator or the shard's fence said so.
    """

    shard: ShardIndex
    token: Token
    fenced: bool = False


@attrs.frozen
class BeatNow:
    """Send the next heartbeat at once."""


@attrs.frozen
class BeatAfter:
    """Send the next heartbeat after so long, jittered by the runtime."""

    ms: Millis


@attrs.frozen
class NameHeld:
    """Another instance lives under this name; ``proven`` if it has renewed since we first asked."""

    message: str
    proven: bool


@attrs.frozen
class Rejoin:
    """The old instance is gone: go on with `rejoin` and a fresh instance id."""


@attrs.frozen
class Reject:
    """The coordinator will never serve this client: stop for good."""

    message: str


Action: TypeAlias = Start | Drain | Drop | BeatNow | BeatAfter | NameHeld | Rejoin | Reject
