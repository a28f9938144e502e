"""What one coordinator has done and met since it began, counted: for metrics, and for no decision."""

import enum
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from streamshard.core.chronicle import Event
from streamshard.core.group import GroupRecord, Member, MemberState
from streamshard.core.ids import GroupKey, Instant, MemberId
from streamshard.core.membership import MAX_IGNORED_CLAIMS
from streamshard.core.outcome import Fence
from streamshard.core.queries import GroupState, group_state

FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds in seconds for what is over in no time, unless something is wrong."""

SLOW = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds in seconds for what takes a while also when all is well."""


class Histogram:
    """How long something took, each time."""

    __slots__ = ("bounds", "counts", "seconds")

    def __init__(self, bounds: Sequence[float] = FAST) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """How often it took at most each bound, and more than the bound before; the last is beyond all."""
        self.seconds = 0.0

    def note(self, took: float) -> None:
        """It took so many seconds."""
        self.counts[bisect_left(self.bounds, took)] += 1
        self.seconds += took


class Cause(enum.Enum):
    """Why shards were meant for other members than before; if for several reasons, the first of these."""

    RESHARDING = "resharding"
    EXPIRY = "expiry"
    FENCE = "fence"
    LEAVE = "leave"
    JOIN = "join"
    OTHER = "other"


class Tally:
    """Plain numbers that only grow, and since when groups have been on their way to rest."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        """By the kind of an `Event`."""
        self.fenced: Counter[Fence] = Counter()
        self.rebalances: Counter[Cause] = Counter()
        self.moves = 0
        """Shards that were meant for one member and then for another."""
        self.conflicts = 0
        """Commits that lost to another one."""
        self.rebalancing = Histogram(SLOW)
        """How long groups took to come to rest, where it was a commit from here that brought them there."""
        self._restless: dict[GroupKey, Instant] = {}

    def hear(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Count events; returns them."""
        heard = tuple(events)
        self.events.update(event.kind for event in heard)
        return heard

    def committed(self, before: GroupRecord, after: GroupRecord, now: Instant) -> None:
        """This coordinator has replaced the one by the other."""
        if after is before:
            return
        self.fenced[Fence.OVERDUE] += sum(_fenced_by_time(before, member) for member in after.members.values())
        if before.targets != after.targets:
            self.rebalances[cause(before, after)] += 1
            self.moves += moves(before, after)
        since = self._restless.get(after.key)
        if self._look(after, now) and since is not None:
            self.rebalancing.note(max(0, now - since) / 1000)

    def seen(self, record: GroupRecord, now: Instant) -> None:
        """Another coordinator has committed this one, or it was there before."""
        self._look(record, now)

    def forget(self, keys: Iterable[GroupKey]) -> None:
        """These groups are gone."""
        for key in keys:
            self._restless.pop(key, None)

    def _look(self, record: GroupRecord, now: Instant) -> bool:
        """Whether the group is at rest."""
        if at_rest(record):
            self._restless.pop(record.key, None)
            return True
        self._restless.setdefault(record.key, now)
        return False


def at_rest(record: GroupRecord) -> bool:
    """Nothing is on its way from one member to another; so is a group without members."""
    # Counting comes first: it is cheap, and tells of most records that are not.
    if record.targets and len(record.holdings) != len(record.targets):
        return False
    return group_state(record) in (GroupState.STABLE, GroupState.EMPTY)


def moves(before: GroupRecord, after: GroupRecord) -> int:
    """How many shards were meant for one member and are meant for another now."""
    return sum(shard in after.targets and after.targets[shard] != was for shard, was in before.targets.items())


def cause(before: GroupRecord, after: GroupRecord) -> Cause:
    """Why the targets are others now."""
    if before.layout_version != after.layout_version:
        return Cause.RESHARDING
    found = {_what_became(before.members.get(name), after.members.get(name)) for name in _names(before, after)}
    return next((each for each in Cause if each in found), Cause.OTHER)


def _names(before: GroupRecord, after: GroupRecord) -> list[MemberId]:
    return [*before.members, *(name for name in after.members if name not in before.members)]


_ENDS = {MemberState.EXPIRED: Cause.EXPIRY, MemberState.FENCED: Cause.FENCE, MemberState.LEAVING: Cause.LEAVE}


def _what_became(was: Member | None, now: Member | None) -> Cause | None:
    if now is not None and now.live:
        return Cause.JOIN if was is None or not was.live or was.instance != now.instance else None
    if was is None or not was.live:
        return None
    return Cause.LEAVE if now is None else _ENDS[now.state]


def _fenced_by_time(before: GroupRecord, member: Member) -> bool:
    """Fenced by no answer: those count when they are given."""
    if member.state is not MemberState.FENCED or member.ignored_claims >= MAX_IGNORED_CLAIMS:
        return False
    was = before.members.get(member.id)
    return was is not None and was.live and was.instance == member.instance
