"""What was found, and what to do about it."""

from enum import Enum

import attrs


class Level(Enum):
    """How bad it is."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@attrs.frozen
class Finding:
    """One line."""

    level: Level
    check: str
    where: str
    found: str
    remedy: str = ""


@attrs.frozen
class Place:
    """Makes the findings of one place."""

    where: str

    def ok(self, check: str, found: str) -> Finding:
        """Nothing to do."""
        return Finding(Level.OK, check, self.where, found)

    def warn(self, check: str, found: str, remedy: str) -> Finding:
        """It works, and may not for ever."""
        return Finding(Level.WARN, check, self.where, found, remedy)

    def fail(self, check: str, found: str, remedy: str) -> Finding:
        """It does not work, or loses what it should keep."""
        return Finding(Level.FAIL, check, self.where, found, remedy)
