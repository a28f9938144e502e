"""Heartbeats that repeat themselves: what was decided of one that changed nothing holds for the next like it.

Deciding and answering are pure. While stream and group are the very objects they were, and an instance says
word for word what it said before, only its number, the request's id and what it tells for display can differ.
None of these can lead to another decision, as long as it lists exactly what it holds on record: then nothing
is released, adopted or raised, whatever its number, the time and the fences known to be raised.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import attrs

from streamshard.core.commands import Heartbeat
from streamshard.core.group import GroupRecord
from streamshard.core.handover import listed
from streamshard.core.ids import InstanceId
from streamshard.core.outcome import Accepted, Standing
from streamshard.core.ports import GroupChange
from streamshard.core.replies import HeartbeatReply, Likeness
from streamshard.core.stream import StreamRecord

TOLD_ANEW = frozenset({"seq", "request_id", "available", "progress", "late"})
"""What a heartbeat may say differently; the first two come back in its answer, the others stand in its row."""

_words: Callable[[Heartbeat], Any] = attrgetter(*(f.name for f in attrs.fields(Heartbeat) if f.name not in TOLD_ANEW))


@attrs.frozen
class Remembered:
    """A heartbeat that changed nothing, and how it was answered."""

    words: Any
    standing: Standing
    _reply: HeartbeatReply

    def answer(self, beat: Heartbeat) -> HeartbeatReply:
        """The same answer, to another attempt."""
        return self._reply.again(beat.seq, beat.request_id)


@attrs.define
class Routine:
    """What instances said of one state of their group; forgotten as soon as that is another one."""

    stream: StreamRecord
    record: GroupRecord
    same: tuple[GroupChange, ...]
    """What a commit compares so that it goes through beside this very state alone."""
    _said: dict[InstanceId, Remembered] = attrs.field(factory=dict)

    @classmethod
    def on(cls, stream: StreamRecord, record: GroupRecord) -> "Routine":
        """Nothing said yet of this state."""
        return cls(stream, record, (GroupChange(record.key, record.version),))

    def recall(self, stream: StreamRecord, record: GroupRecord, beat: Heartbeat) -> Remembered | None:
        """What deciding ``beat`` on this state would come to, if that is known."""
        if record is not self.record or stream is not self.stream or beat.instance is None:
            return None
        before = self._said.get(beat.instance)
        return before if before is not None and before.words == _words(beat) else None

    def remember(self, beat: Heartbeat, decision: Accepted, reply: HeartbeatReply) -> None:
        """Keep what was decided of ``beat`` on this state; what may come out otherwise next time is passed over."""
        if _repeatable(self.record, beat, decision):
            alike = attrs.evolve(reply, likeness=Likeness())
            self._said[decision.instance] = Remembered(_words(beat), decision.standing, alike)


def _repeatable(record: GroupRecord, beat: Heartbeat, decision: Accepted) -> bool:
    if decision.record is not record or decision.row is None or beat.legacy:
        return False
    return listed(beat).keys() == {(shard, h.token) for shard, h in record.held_by(decision.instance).items()}
