"""How long records of other shards wait while one shard works off a backlog.

    python benchmarks/many_shards.py [--shards 64] [--backlog 100000] [--rate 400] [--rounds 3] [--longest 15]

One real server, a coordinator, and one member with all shards in a process of its own. Shard 0 has the backlog; the
others get records of 200 bytes at random moments while it lasts, but for the first half second, in which the member
still takes its shards over, and for no longer than ``--longest`` seconds. Handlers that only acknowledge: one by one,
one by one with ``ack="on_success"``, and batches of 100. First without a backlog: what the machine adds.
"""

import argparse
import random

from measuring import PAYLOAD, goal
from readers import STREAM, Place, Reader, place, publish, shares
from redis import Redis

SLICE_S = 0.5
CALM = "no backlog"
WAYS = (CALM, "one", "on_success", "batch")


def fill(redis: "Redis", records: int) -> None:
    """Put the backlog into shard 0."""
    for _ in range(0, records, 1_000):
        with redis.pipeline(transaction=False) as pipe:
            for _ in range(1_000):
                pipe.xadd(f"{STREAM}:0", {"payload": PAYLOAD})
            pipe.execute()


def run(where: Place, how: str, options: argparse.Namespace) -> tuple[list[float], float]:
    """The ages of the others' records while the backlog lasted, and how much of that went in a second."""
    chance, ages, left, slices = random.Random(3), list[float](), options.backlog * (how != CALM), 0
    with Redis.from_url(where.redis) as redis:
        reader = Reader("ours", how, where, "one" if how == CALM else how)
        while (left > 0 or how == CALM) and slices * SLICE_S < options.longest:
            publish(redis, SLICE_S, options.rate, lambda: chance.randrange(1, where.shards))
            told = reader.ask()
            left -= told.count - len(told.ages_ms)
            slices += 1
            ages += told.ages_ms if slices > 1 else []
        reader.end()
    return ages, max(0, options.backlog - left) / (slices * SLICE_S) * (how != CALM)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--backlog", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--longest", type=float, default=15)
    options = parser.parse_args()
    found: dict[str, list[float]] = {how: [] for how in WAYS}
    speed = dict.fromkeys(WAYS, 0.0)
    for how in WAYS * options.rounds:
        with place(options.shards) as where, Redis.from_url(where.redis) as redis:
            where.create([how])
            fill(redis, options.backlog * (how != CALM))
            ages, speed[how] = run(where, how, options)
            found[how] += ages
    for how, ages in found.items():
        p50, p99 = shares(ages)
        gone = f"backlog {speed[how]:6,.0f} records/s"
        print(f"{how:12} {gone}   others: {len(ages)} records, p50 {p50:6.2f} ms   p99 {p99:6.2f} ms")
    print()
    for how in WAYS[1:]:
        goal(f"ms, p99 of the other {options.shards - 1} shards, {how}", shares(found[how])[1], 50, at_most=True)


if __name__ == "__main__":
    main()
