"""How a stream's shards lie in a cluster: pure judgement."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from streamshard.adapters.redis_url import Address, host_and_port
from streamshard.entrypoints.doctor.findings import Finding, Place

UNEVEN = 2.0
"""So many times its fair share of a stream's shards is too much for a master."""

CHANCE = 1.5
"""So many more than its share are nothing to speak of, where there are few."""


def spread(
    streams: Sequence[tuple[str, int]], masters: Sequence[Address], owner: Callable[[str], Address | None]
) -> Iterator[Finding]:
    """One finding for each stream of so many shards; ``owner`` says who serves a key."""
    for prefix, shards in streams:
        yield _stream(Place(prefix), [owner(f"{prefix}:{index}") for index in range(shards)], masters)


def _stream(at: Place, owners: Sequence[Address | None], masters: Sequence[Address]) -> Finding:
    if homeless := [index for index, owner in enumerate(owners) if owner is None]:
        shards = ", ".join(map(str, homeless))
        return at.fail("slots", f"nobody serves shard {shards}", "see CLUSTER INFO: some slots have no master")
    count = Counter(owner for owner in owners if owner is not None)
    shares = [count[master] for master in masters]
    told = ", ".join(f"{host_and_port(master)} {share}" for master, share in zip(masters, shares, strict=True))
    most, fair = max(shares), len(owners) / len(masters)
    if most > max(UNEVEN * fair, fair + CHANCE):
        return at.warn("slots", f"uneven: {told} shards", "move slots, or use more shards than masters by far")
    return at.ok("slots", f"{told} shards")
