"""Who should read which shard: balanced, sticky, and the same whatever the order of the arguments."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from streamshard.core.ids import MemberId, ShardIndex
from streamshard.errors import InvalidRequest


@attrs.frozen
class _Share:
    """What proportion allows a member: ``floor`` shards, and one more where the division leaves a rest."""

    member: MemberId
    weight: int
    floor: int
    rest: int
    load: int

    @property
    def saves_a_move(self) -> bool:
        return self.rest > 0 and self.load > self.floor


def assign(
    previous: Mapping[ShardIndex, MemberId],
    members: Iterable[MemberId],
    shards: Iterable[ShardIndex],
    weights: Mapping[MemberId, int] | None = None,
) -> dict[ShardIndex, MemberId]:
    """Give every shard one target, moving the fewest shards that proportion allows.

    Each member gets its proportional share, rounded down or up: without ``weights`` the counts differ
    by at most one. Members without a weight count 1. Whoever had more than it may keep gives up its
    highest indexes; free shards are dealt in index order to whoever has least, so that the counts stay
    even when the highest shards are removed later. Empty if there is no member.

    Raises `InvalidRequest` for a weight below 1. Takes ``O((S + M) log M)`` beyond sorting.
    """
    wanted = sorted(set(shards))
    shares = _shares(previous, members, wanted, weights or {})
    if not shares:
        return {}

    quotas = _quotas(shares, len(wanted))
    kept, free = _keep(previous, wanted, quotas)
    dealt = _deal(free, Counter(kept.values()), quotas, shares)
    return dict(sorted({**kept, **dealt}.items()))


def moves(previous: Mapping[ShardIndex, MemberId], targets: Mapping[ShardIndex, MemberId]) -> int:
    """How many shards of both have another member in ``targets`` than in ``previous``."""
    return sum(1 for shard, member in targets.items() if previous.get(shard, member) != member)


def fewest_moves(
    previous: Mapping[ShardIndex, MemberId],
    members: Iterable[MemberId],
    shards: Iterable[ShardIndex],
    weights: Mapping[MemberId, int] | None = None,
) -> int:
    """The least `moves` of any proportional assignment; found by counting, without making one."""
    wanted = sorted(set(shards))
    shares = _shares(previous, members, wanted, weights or {})
    if not shares:
        return 0

    spare = len(wanted) - sum(share.floor for share in shares)
    keepable = sum(min(share.load, share.floor) for share in shares)
    keepable += min(spare, sum(1 for share in shares if share.saves_a_move))
    return sum(1 for shard in wanted if shard in previous) - keepable


def _shares(
    previous: Mapping[ShardIndex, MemberId],
    members: Iterable[MemberId],
    wanted: list[ShardIndex],
    weights: Mapping[MemberId, int],
) -> list[_Share]:
    load = Counter(previous[shard] for shard in wanted if shard in previous)
    weighted = {member: _weight(member, weights) for member in sorted(set(members))}
    total = sum(weighted.values())
    return [
        _Share(member, weight, *divmod(len(wanted) * weight, total), load=load[member])
        for member, weight in weighted.items()
    ]


def _weight(member: MemberId, weights: Mapping[MemberId, int]) -> int:
    weight = weights.get(member, 1)
    if weight < 1:
        raise InvalidRequest(f"weight: member {member!r} has {weight}, give it 1 or more")
    return weight


def _quotas(shares: list[_Share], count: int) -> dict[MemberId, int]:
    """Round up where that saves a move, then where the rest is largest, then by member id."""
    spare = count - sum(share.floor for share in shares)
    ranked = sorted(shares, key=lambda share: (not share.saves_a_move, -share.rest, share.member))
    rounded_up = {share.member for share in ranked[:spare]}
    return {share.member: share.floor + (share.member in rounded_up) for share in shares}


def _keep(
    previous: Mapping[ShardIndex, MemberId], wanted: list[ShardIndex], quotas: Mapping[MemberId, int]
) -> tuple[dict[ShardIndex, MemberId], list[ShardIndex]]:
    kept: dict[ShardIndex, MemberId] = {}
    free: list[ShardIndex] = []
    counts: Counter[MemberId] = Counter()
    for shard in wanted:
        member = previous.get(shard)
        if member is not None and counts[member] < quotas.get(member, 0):
            kept[shard] = member
            counts[member] += 1
        else:
            free.append(shard)
    return kept, free


def _deal(
    free: list[ShardIndex], counts: Counter[MemberId], quotas: Mapping[MemberId, int], shares: list[_Share]
) -> dict[ShardIndex, MemberId]:
    weights = {share.member: share.weight for share in shares}
    hungry = [(counts[member] / weights[member], member) for member, quota in quotas.items() if counts[member] < quota]
    heapq.heapify(hungry)
    dealt: dict[ShardIndex, MemberId] = {}
    for shard in free:
        _, member = heapq.heappop(hungry)
        dealt[shard] = member
        counts[member] += 1
        if counts[member] < quotas[member]:
            heapq.heappush(hungry, (counts[member] / weights[member], member))
    return dealt
