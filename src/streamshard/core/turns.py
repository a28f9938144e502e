"""Turns of the heartbeats that one coordinator decides: nobody has to lose a race against a neighbour.

They are a courtesy within a process. What keeps decisions apart is the comparison in every commit.
"""

from typing import Protocol

from streamshard.core.ids import GroupKey


class Turns(Protocol):
    """Lets the renewals of a group pass together and the changes of its record one by one, in alternation."""

    async def share(self, key: GroupKey) -> bool:
        """Enter together with others who share; True if that took a wait."""
        ...

    def stop_sharing(self, key: GroupKey) -> None:
        """Leave."""
        ...

    async def be_alone(self, key: GroupKey) -> bool:
        """Enter once everybody who came earlier has left; True if that took a wait."""
        ...

    def stop_being_alone(self, key: GroupKey) -> None:
        """Leave."""
        ...


class NoTurns:
    """Everybody enters at once, and the store says who was first."""

    async def share(self, key: GroupKey) -> bool:
        """Enter."""
        return False

    def stop_sharing(self, key: GroupKey) -> None:
        """Leave."""

    async def be_alone(self, key: GroupKey) -> bool:
        """Enter."""
        return False

    def stop_being_alone(self, key: GroupKey) -> None:
        """Leave."""


class Turn:
    """One heartbeat's own turn."""

    def __init__(self, turns: Turns, key: GroupKey) -> None:
        self._turns = turns
        self._key = key
        self._sharing = False
        self._alone = False

    async def take(self, *, alone: bool) -> bool:
        """Have a turn, of one's own if ``alone``; True if time has passed, so that things may have changed."""
        if self._alone or (self._sharing and not alone):
            return False
        self.end()
        if alone:
            waited = await self._turns.be_alone(self._key)
            self._alone = True
        else:
            waited = await self._turns.share(self._key)
            self._sharing = True
        return waited

    def end(self) -> None:
        """Leave; idempotent."""
        if self._alone:
            self._turns.stop_being_alone(self._key)
        elif self._sharing:
            self._turns.stop_sharing(self._key)
        self._alone = self._sharing = False
