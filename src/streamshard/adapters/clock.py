"""The time of this process, on a boot clock that counts suspend where the system has one."""

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from functools import partial

from streamshard.core.ids import Instant, Millis, WallMillis

_LOG = logging.getLogger(__name__)
_NANOS = 1_000_000
_BOOT_CLOCKS = {"linux": "CLOCK_BOOTTIME", "darwin": "CLOCK_MONOTONIC_RAW"}
_COUNTS_SUSPEND_ANYWAY = ("win32",)


class SystemClock:
    """The `Clock` port over the operating system's clocks.

    Linux: ``CLOCK_BOOTTIME``; macOS: ``CLOCK_MONOTONIC_RAW``; Windows: ``time.monotonic``. Elsewhere
    ``time.monotonic`` may stand still while the machine sleeps, which is logged once.
    """

    def __init__(self, platform: str = sys.platform) -> None:
        self._boot_ns = _boot_source(platform)

    def boot(self) -> Instant:
        """Milliseconds since some point at or after the start of the machine; never steps."""
        return Instant(self._boot_ns() // _NANOS)

    def boot_ns(self) -> int:
        """`boot` in nanoseconds, to put events of several processes of one host in order."""
        return self._boot_ns()

    def wall(self) -> WallMillis:
        """Unix time in milliseconds; may step."""
        return WallMillis(time.time_ns() // _NANOS)

    async def sleep(self, duration: Millis) -> None:
        """Wait at least so many milliseconds, on the event loop."""
        await asyncio.sleep(duration / 1000)


def _boot_source(platform: str) -> Callable[[], int]:
    clock_id: int | None = getattr(time, _BOOT_CLOCKS.get(platform, ""), None)
    if clock_id is not None:
        return partial(time.clock_gettime_ns, clock_id)
    if platform not in _COUNTS_SUSPEND_ANYWAY:
        _LOG.warning(
            "no clock on %s is known to count suspend: after a sleep of this machine, leases here end late", platform
        )
    return time.monotonic_ns
