"""How small a world is searched, and how many states it has.

A count that falls means that something can't happen any more that could before: the search would go on
saying that all is well of a world in which little happens. So counts are on record, and compared.
"""

import attrs

from streamshard.testing.exhaustive.state import WAIT_MS


@attrs.frozen
class Scope:
    """Members, shards and coordinators, and how often each fault may strike; loss and time have no bound."""

    name: str
    states: int
    """As counted when it was last exhausted."""
    members: int = 2
    shards: int = 1
    coordinators: int = 1
    deaths: int = 0
    """Members that end without a word."""
    twins: int = 0
    """Second instances that are started under a name."""
    leaves: int = 0
    """Members that say goodbye."""
    copies: int = 0
    """Heartbeats that stay in the network after they have arrived, to arrive again."""
    losses: int = 0
    """Times that the store goes back to an earlier commit."""
    crashes: int = 0
    """Coordinators that lose their memory."""
    deaf: int = 0
    """Heartbeats at which Redis does not answer the coordinator."""
    lapsing: bool = False
    """A shard that is not given up in time lapses; otherwise handlers may take for ever."""
    moments: int | None = None
    """How often time may go on; without a number as often as it likes."""
    steps: int = 1
    """In how many steps of time a lease runs out: within one, all that matters is what comes before it ends."""
    nightly: bool = False
    """Too large for every change."""


SCOPES: tuple[Scope, ...] = (
    Scope("2x1", states=22_358),
    Scope("2x2-instant", states=502, shards=2, moments=0),
    Scope("2x2-instant-copy", states=4_990, shards=2, moments=0, copies=1),
    Scope("2x2-instant-leave", states=6_988, shards=2, moments=0, leaves=1),
    Scope("2x2-instant-crash", states=2_136, shards=2, moments=0, crashes=1),
    Scope("2x2-instant-deaf", states=1_402, shards=2, moments=0, deaf=1),
    Scope("2x1-instant-two", states=6_438, moments=0, coordinators=2),
    Scope("2x1-instant-twin", states=614, moments=0, twins=1),
    Scope("2x1-instant-loss", states=5_508, moments=0, losses=1),
    Scope("3x2-instant", states=12_682, members=3, shards=2, moments=0, nightly=True),
    Scope("2x1-instant-loss-crash", states=20_857, moments=0, losses=1, crashes=1, nightly=True),
    Scope("2x1-death", states=34_311, deaths=1, nightly=True),
    Scope("2x1-crash", states=69_153, crashes=1, nightly=True),
    Scope("2x1-leave", states=124_034, leaves=1, nightly=True),
)


def unit_ms(scope: Scope) -> int:
    """How far time goes on at once."""
    return WAIT_MS // scope.steps


def named(name: str) -> Scope:
    """Raise `KeyError` for one that there is not."""
    return {scope.name: scope for scope in SCOPES}[name]
