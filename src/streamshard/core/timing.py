"""Lease lengths: what a client may use, and what a coordinator must wait."""

import attrs

from streamshard.core.ids import Millis

CLOCK_DRIFT_PERCENT = 1
"""The most that two clocks' *rates* may differ (their values are never compared)."""


SHORT_LEASE_MS = 3_000
"""Below this the margin is relative: half a second would eat the lease."""


def client_lease_ms(lease: Millis) -> Millis:
    """How long a client may go on after *sending* the heartbeat that was answered."""
    if lease >= SHORT_LEASE_MS:
        margin = max(500, lease * 5 // 100)
    else:
        margin = -(-lease * 15 // 100)
    return Millis(lease * (100 - CLOCK_DRIFT_PERCENT) // 100 - margin)


def expiry_wait_ms(lease: Millis) -> Millis:
    """How long a coordinator must see a renewal row unchanged before it may expire it."""
    return Millis(-(-lease * (100 + CLOCK_DRIFT_PERCENT) // 100))


@attrs.frozen
class Timing:
    """The durations a coordinator works with, in milliseconds; answered to clients as such."""

    lease_ms: Millis = Millis(15_000)
    heartbeat_ms: Millis = Millis(3_000)
    tick_ms: Millis = Millis(1_000)
    rebalance_timeout_ms: Millis = Millis(60_000)
    routing_lease_ms: Millis = Millis(60_000)
    terminal_ms: Millis = Millis(600_000)

    def problems(self) -> tuple[str, ...]:
        """What is wrong with these durations, each as "option: why and what to do"."""
        found = [f"{name}: must be at least 1 ms" for name, value in attrs.asdict(self).items() if value < 1]
        if client_lease_ms(self.lease_ms) < 3 * self.heartbeat_ms:
            usable = client_lease_ms(self.lease_ms)
            found.append(
                f"lease_ms: leaves clients {usable} ms, which must be at least three heartbeats "
                f"of {self.heartbeat_ms} ms: lengthen lease_ms or shorten heartbeat_ms"
            )
        return tuple(found)
