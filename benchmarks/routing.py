"""Routing a key, against uhashring's ring in the same run.

    python benchmarks/routing.py [--keys 100000] [--rounds 7] [--shards 4 16 64 1024]

Keys are text, as applications have them: each contender also makes bytes of it. The contenders take turns within each
round, and the best round of each counts, in processor time: other programs of the machine then have little say.
Beside it: how long a ring takes to make, once per process and count of shards.
"""

import argparse
import time
from collections.abc import Callable, Sequence

from measuring import goal
from uhashring import HashRing

from streamshard.adapters.hashing import placing, route
from streamshard.core.routing import DEFAULT_PROTOCOL

WANTED = 5.0
HELD = ("jump-v1", "ring-v1")

Find = Callable[[str], object]


def by_protocol(protocol: str, shards: int) -> Find:
    """As a producer routes many records of one batch."""
    place = placing(protocol, shards)
    return lambda key: place(key.encode())


def by_function(protocol: str, shards: int) -> Find:
    """As `streamshard.route` routes one key."""
    return lambda key: route(protocol, key.encode(), shards)


def contenders(shards: int) -> dict[str, Find]:
    """Who routes, by name."""
    ours = {name: by_protocol(name, shards) for name in (DEFAULT_PROTOCOL, *HELD)}
    single = {f"route({name!r}, …)": by_function(name, shards) for name in HELD}
    return {**ours, **single, "uhashring": HashRing(nodes=[f"orders:{index}" for index in range(shards)]).get_node}


def seconds(find: Find, keys: Sequence[str]) -> float:
    """Processor time for all of them."""
    began = time.process_time()
    for key in keys:
        find(key)
    return time.process_time() - began


def best(finds: dict[str, Find], keys: Sequence[str], rounds: int) -> dict[str, float]:
    """Nanoseconds a key in each one's best round."""
    taken: dict[str, float] = {}
    for _ in range(rounds):
        for name, find in finds.items():
            taken[name] = min(taken.get(name, float("inf")), seconds(find, keys) / len(keys) * 1e9)
    return taken


def making(shards: int) -> tuple[float, float]:
    """Milliseconds that our ring and uhashring's take to make."""
    placing.cache_clear()
    began = time.process_time()
    placing("ring-v1", shards)
    made = time.process_time()
    HashRing(nodes=[f"orders:{index}" for index in range(shards)])
    return (made - began) * 1e3, (time.process_time() - made) * 1e3


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shards", type=int, nargs="+", default=[4, 16, 64, 1_024])
    asked = parser.parse_args()
    keys = [f"order-{number}" for number in range(asked.keys)]
    for shards in asked.shards:
        ours, theirs = making(shards)
        print(f"{shards} shards; making the ring took {ours:.1f} ms, uhashring {theirs:.1f} ms")
        taken = best(contenders(shards), keys, asked.rounds)
        for name, nanoseconds in taken.items():
            print(f"  {name:28} {1e9 / nanoseconds:12,.0f} routes/s   {nanoseconds:7.0f} ns")
        for name in HELD:
            goal(f"  routes/s of {name} to uhashring's", taken["uhashring"] / taken[name], WANTED)


if __name__ == "__main__":
    main()
