"""Which versions of the coordination protocol this software speaks, since when, and how long it will."""

import enum

import attrs

from streamshard.core.commands import PROTOCOL_VERSION
from streamshard.core.ids import Millis
from streamshard.core.timing import Timing

OLDEST = PROTOCOL_VERSION
NEWEST = PROTOCOL_VERSION


@attrs.frozen
class Release:
    """A release of this software."""

    major: int
    minor: int
    patch: int
    qualifier: str | None = None

    @property
    def version(self) -> str:
        """As it is written on packages."""
        plain = f"{self.major}.{self.minor}.{self.patch}"
        return plain if self.qualifier is None else f"{plain}-{self.qualifier}"


class Support(enum.Enum):
    """Where a protocol version is in its life."""

    ACTIVE = "ACTIVE"
    DEPRECATED = "DEPRECATED"
    REMOVED = "REMOVED"


@attrs.frozen
class ProtocolVersion:
    """One version of the protocol. A release that is None has not been decided on."""

    version: int
    status: Support
    introduced_in: Release
    minimum_supported_until: Release
    """No release before this one drops it."""
    timing: Timing
    """What coordinators answer members with unless they are set otherwise."""
    deprecated_in: Release | None = None
    removed_in: Release | None = None


VERSIONS = (ProtocolVersion(1, Support.ACTIVE, Release(0, 1, 0), Release(1, 0, 0), Timing()),)
"""Every version that there ever was, oldest first. It is code that speaks a version, never a setting."""


def iso_duration(length: Millis) -> str:
    """ISO 8601, in hours, minutes and seconds: ``PT3S``, ``PT1M``, ``PT1M0.5S``."""
    minutes, rest = divmod(length, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
    said = f"{hours}H" * bool(hours) + f"{minutes}M" * bool(minutes) + f"{seconds}S" * bool(rest)
    return f"PT{said or '0S'}"
