"""What can happen to a group: a heartbeat, or time passing."""

import enum

import attrs

from streamshard.core.group import ShardProgress
from streamshard.core.ids import Epoch, InstanceId, MemberId, Millis, Seq, ShardIndex, Token, View

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


@attrs.frozen(slots=False)  # made for every heartbeat: faster without
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
    late: Millis | None = None
    """By how much it left after its time; for display."""
    principal: str | None = None
    """The account that speaks; None where nobody asks who it is. Set by the door that it came through."""
    legacy: bool = False
    """Set by the coordinator for a client without an instance, once it has been given one."""

    def spoken_by(self, principal: str) -> "Heartbeat":
        """The same heartbeat, with who says it."""
        other = object.__new__(Heartbeat)
        other.__dict__.update(self.__dict__)
        other.__dict__["principal"] = principal
        return other

    def again(
        self, seq: Seq, request_id: str, available: int, progress: tuple[ShardProgress, ...], late: Millis | None
    ) -> "Heartbeat":
        """The same heartbeat in another attempt, with what each attempt tells anew."""
        other = object.__new__(Heartbeat)  # `attrs.evolve` names all fields one by one: ten times as long
        told = other.__dict__
        told.update(self.__dict__)
        told["seq"], told["request_id"], told["available"] = seq, request_id, available
        told["progress"], told["late"] = progress, late
        return other
