"""How long a record takes from its publisher to its handler, and what a member costs that has nothing to read.

    python benchmarks/latency.py [--rounds 5] [--seconds 8] [--shards 16] [--rate 200] [--idle 15]

One real server, a coordinator and each reader in a process of its own. Records of 200 bytes are published at random
moments, to the shards at random. The reader to compare with is a blocking loop written by hand on redis-py: one
XREADGROUP over all shards, one XACK for each shard's records. Both read the same, in turn within each round.
"""

import argparse
import random
import statistics
import time
from functools import partial

from measuring import goal, server_seconds
from readers import STREAM, Place, Reader, place, publish, shares
from redis import Redis

WHO = {"by-hand": "redis-py loop by hand", "ours": "ours"}


def idle_shares(where: Place, seconds: float) -> dict[str, tuple[float, float]]:
    """Of each reader over empty shards: its processor time and the server's, in percent of a core."""
    found = {}
    for who in WHO:
        reader = Reader(who, f"idle-{who}", where)
        time.sleep(2)
        reader.ask()
        server, began = server_seconds(where.pid), time.monotonic()
        time.sleep(seconds)
        cpu, took = reader.ask().cpu_s, time.monotonic() - began
        found[who] = 100 * cpu / took, 100 * (server_seconds(where.pid) - server) / took
        reader.end()
    return found


def one_round(where: Place, turn: int, options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Median and 99th percentile of each reader."""
    found = {}
    with Redis.from_url(where.redis) as redis:
        pick = partial(random.Random(turn).randrange, where.shards)
        for who in WHO:
            for shard in range(where.shards):
                redis.xtrim(f"{STREAM}:{shard}", maxlen=0)  # or the reader would begin with what others have read
            reader = Reader(who, f"{who}-{turn}", where)
            publish(redis, 1.0, options.rate, pick)
            reader.ask()
            publish(redis, options.seconds, options.rate, pick)
            time.sleep(0.5)
            found[who] = shares(reader.ask().ages_ms)
            reader.end()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--idle", type=float, default=15)
    options = parser.parse_args()
    with place(options.shards) as where:
        names = [f"{who}-{turn}" for who in WHO for turn in range(options.rounds)]
        where.create([*names, *(f"idle-{who}" for who in WHO)])
        idle = idle_shares(where, options.idle)
        rounds = [one_round(where, turn, options) for turn in range(options.rounds)]
    p50, p99 = ({who: statistics.median(found[who][n] for found in rounds) for who in WHO} for n in (0, 1))
    for who, name in WHO.items():
        cpu, server = idle[who]
        line = f"p50 {p50[who]:6.2f} ms   p99 {p99[who]:6.2f} ms   idle: {cpu:4.1f} % of a core, server {server:4.1f} %"
        print(f"{name:24} {line}")
    print()
    goal("p50, ours to the loop by hand", p50["ours"] / p50["by-hand"], 2, at_most=True)
    goal("p99, ours to the loop by hand", p99["ours"] / p99["by-hand"], 3, at_most=True)
    goal(f"percent of a core, idle member with {options.shards} shards", idle["ours"][0], 3, at_most=True)


if __name__ == "__main__":
    main()
