"""What a run of chaos plays with: names, sizes, timings and bounds."""

from typing import Final

import attrs

from tests.ledger.timings import Bounds

STREAM: Final = "orders"
GROUP: Final = "billing"
BATCH: Final = 64
MEMBERS_A_CONSUMER: Final = 2
MOST_SHARDS: Final = 16
MOST_IN_CHAOS: Final = 8
FIRST_SHARDS: Final = 6
LAST_SHARDS: Final = 4
LEAST_RATE: Final = 500.0

LEASE_S: Final = 3.0
HEARTBEAT_S: Final = 0.5
LEAST_LEASE_S: Final = LEASE_S * 0.99 - 0.5
"""What a client makes of a lease."""

TIMING: Final = {
    "lease": "3s",
    "heartbeat": "500ms",
    "tick": "200ms",
    "routing-lease": "4s",
    "rebalance-timeout": "10s",
}
BOUNDS: Final = Bounds(
    crash_ms=LEASE_S * 1010 + 2 * HEARTBEAT_S * 1000 + 500,
    handoff_ms=2 * HEARTBEAT_S * 1000 + 300,
)

SETTINGS: Final = ("sqlite", "redis", "cluster")
"""Where metadata and shards are: a file and a server; two servers; a cluster for both."""


@attrs.frozen
class Plan:
    """One run. ``seconds`` of it are chaos; ``longest_stop``: for how many seconds a process stands still at most;
    ``rounds``: how often each nemesis has to come."""

    setting: str = "sqlite"
    seconds: float = 100.0
    seed: int = 1
    coordinators: int = 2
    consumers: int = 4
    producers: int = 2
    rate: int = 400
    longest_stop: float = 10.0
    at_once: int = 3
    """How many nemeses work at the same time at most."""

    probes: int = 3
    rounds: int = 3
    timed: bool = True
    """Failovers and handoffs have to be measured; what was measured has to be quick in any case."""

    nemeses: tuple[str, ...] = ()
    """Those to be enabled; all that the setting has, if none is named."""

    @property
    def members(self) -> int:
        """All of them; with so many shards each has one to lose."""
        return self.consumers * MEMBERS_A_CONSUMER
