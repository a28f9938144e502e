"""What becomes of Redis and of the coordinator is outlived by everybody, at little cost and with few words."""

import functools
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.faults.nonsense import NONSENSE
from tests.integration.faults.rig import (
    CURED_WITHIN_S,
    FAULT_S,
    FULL,
    GROUPS,
    LINES_A_MINUTE,
    MOST_CPU,
    Cost,
    Stage,
    stage,
)

SILENCE_S = 20.0 if FULL else 6.0
"""Longer than an answer of Redis is waited for."""

OUTAGE_S = 20.0 if FULL else 5.0
"""Longer than a lease."""


def dear(costs: dict[str, dict[str, Cost]], seconds: float = CURED_WITHIN_S) -> list[str]:
    """Which fault cost whom more than it may."""
    return [
        f"{fault}: {name} {cost}"
        for fault, each in costs.items()
        for name, cost in each.items()
        if cost.cpu > MOST_CPU or cost.recovered_s > seconds
    ]


def chatty(played: Stage) -> dict[str, int]:
    """Who logged too much, and how many lines for one fault: none lasts longer than a minute.

    A coordinator tells what changes in each group.
    """
    most = {"coordinator": LINES_A_MINUTE * len(GROUPS)}
    return {name: lines for name, lines in played.loudest().items() if lines > most.get(name, LINES_A_MINUTE)}


def redis_faults(played: Stage) -> dict[str, tuple[Callable[[], object], Callable[[], object], float]]:
    """Everything that can happen to a server which keeps its data."""
    redis, tell = played.redis, played.command

    def overcrowd() -> None:
        tell("CONFIG", "SET", "maxclients", "1")
        redis.cut()

    return {
        "refusal": (redis.refuse, redis.cure, FAULT_S),
        "silence": (redis.hush, redis.cure, SILENCE_S),
        "read only": (
            lambda: tell("REPLICAOF", "127.0.0.1", "1"),
            lambda: tell("REPLICAOF", "NO", "ONE"),
            FAULT_S,
        ),
        "no connection free": (overcrowd, lambda: tell("CONFIG", "SET", "maxclients", "1000"), FAULT_S),
        "out of memory": (
            lambda: tell("CONFIG", "SET", "maxmemory", "1"),
            lambda: tell("CONFIG", "SET", "maxmemory", "0"),
            FAULT_S,
        ),
        "cut connections": (redis.cut, redis.cure, 0.0),
        "slowness": (lambda: redis.slow(0.15), redis.cure, FAULT_S),
    }


def test_whatever_becomes_of_redis_nothing_is_lost_and_all_go_on_when_it_is_back(tmp_path: Path) -> None:
    with stage(tmp_path) as played:
        played.work()

        costs = {name: played.suffer(*fault) for name, fault in redis_faults(played).items()}
        lines = chatty(played)
        played.finish()

        assert (dear(costs), lines, played.fenced_acks()) == ([], {}, [])


def test_what_redis_lost_is_made_again_and_what_comes_later_is_handled(tmp_path: Path) -> None:
    with stage(tmp_path) as played:
        played.work()
        losses: dict[str, Callable[[], object]] = {
            "one key": functools.partial(played.command, "DEL", "orders:3"),
            "one group": functools.partial(played.command, "XGROUP", "DESTROY", "orders:3", "billing"),
            "everything": functools.partial(played.command, "FLUSHALL"),
            "a restart without persistence": played.restart_redis,
        }

        costs = {name: played.suffer(lambda: None, loss, 0.0, key="orders:3") for name, loss in losses.items()}
        time.sleep(1.0)
        lines = chatty(played)
        played.finish(since=time.monotonic() - 1.0)

        assert (dear(costs), lines, played.fenced_acks()) == ([], {}, [])


def test_whatever_becomes_of_the_coordinator_nothing_is_lost(tmp_path: Path) -> None:
    with stage(tmp_path) as played:
        played.work()
        http, process = played.http, played.coordinator.process
        before = played.owners()

        costs = {
            "stopped": played.suffer(
                lambda: process.send_signal(signal.SIGSTOP), lambda: process.send_signal(signal.SIGCONT), OUTAGE_S
            )
        }
        after = played.owners()
        costs |= {
            "refusal": played.suffer(http.refuse, http.cure, OUTAGE_S),
            "silence": played.suffer(http.hush, http.cure, OUTAGE_S),
            "nonsense": played.suffer(lambda: http.babble(NONSENSE), http.cure, OUTAGE_S),
        }
        lines = chatty(played)
        played.finish()

        assert (dear(costs), lines, played.fenced_acks()) == ([], {}, [])
        assert after == before


@pytest.mark.parametrize("kind", ["silence", "refusal"] if FULL else ["silence"])
def test_a_redis_that_keeps_the_metadata_too_is_outlived_likewise(kind: str, tmp_path: Path) -> None:
    with stage(tmp_path, "redis://127.0.0.1:{port}/1") as played:
        played.work()
        redis = played.redis

        costs = {kind: played.suffer(redis.hush if kind == "silence" else redis.refuse, redis.cure, SILENCE_S)}
        lines = chatty(played)
        played.finish()

        assert (dear(costs), lines, played.fenced_acks()) == ([], {}, [])
