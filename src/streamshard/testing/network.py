"""Heartbeats and their answers on their way: lost, repeated, late, and in any order."""

import enum
from collections import deque

import attrs

from streamshard.core.commands import Heartbeat
from streamshard.core.ids import InstanceId, MemberId
from streamshard.core.replies import HeartbeatReply
from streamshard.testing.processes import Consumer


class Fate(enum.Enum):
    """What becomes of a heartbeat."""

    GOOD = "GOOD"
    LOSE_REQUEST = "LOSE_REQUEST"
    LOSE_REPLY = "LOSE_REPLY"
    REPEAT = "REPEAT"  # a copy of the request stays in the network
    DELAY_REQUEST = "DELAY_REQUEST"  # until somebody lets it go
    DELAY_REPLY = "DELAY_REPLY"
    HOLD = "HOLD"  # the coordinator is stopped while it answers


NOT_ARRIVING = frozenset({Fate.LOSE_REQUEST, Fate.DELAY_REQUEST, Fate.HOLD})
"""After which nothing may have been renewed."""


@attrs.define(eq=False)
class Letter:
    """A heartbeat on its way."""

    sender: Consumer
    beat: Heartbeat
    fate: Fate = Fate.GOOD


@attrs.define(eq=False)
class Reply:
    """An answer on its way."""

    to: Consumer
    instance: InstanceId
    answer: HeartbeatReply
    late: bool = False
    """It stays on its way until somebody lets it arrive."""

    def arrive(self) -> None:
        """Reach the instance that asked, if it still lives; a stopped process finds it when it wakes."""
        if not self.to.ended and self.to.session.instance == self.instance:
            self.to.hear(self.answer)


@attrs.define
class Network:
    """Everything that was sent and has not arrived. ``weather``: the fates of the next heartbeats, then all is good."""

    weather: deque[Fate] = attrs.field(factory=deque)
    letters: list[Letter] = attrs.field(factory=list)
    """Delayed or repeated requests."""
    replies: list[Reply] = attrs.field(factory=list)
    """Delayed answers, and those to stopped processes."""
    at_most_lost: int | None = None
    """After so many heartbeats of one sender that did not arrive, the next one does."""
    _lost: dict[MemberId, int] = attrs.field(factory=dict)

    def next_fate(self, sender: MemberId) -> Fate:
        """What becomes of a heartbeat sent now."""
        fate = self.weather.popleft() if self.weather else Fate.GOOD
        if fate in NOT_ARRIVING and self._lost.get(sender, 0) == self.at_most_lost:
            fate = Fate.GOOD
        self._lost[sender] = self._lost.get(sender, 0) + 1 if fate in NOT_ARRIVING else 0
        return fate

    def calm(self) -> None:
        """Nothing is lost or late any more; what was under way never arrives."""
        self.weather.clear()
        self.letters.clear()
        self.replies.clear()

    def arrive(self) -> None:
        """Hand out the answers that waited for a process to wake."""
        for reply in [reply for reply in self.replies if not (reply.late or reply.to.asleep)]:
            self.replies.remove(reply)
            reply.arrive()
