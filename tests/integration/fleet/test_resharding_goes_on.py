"""The coordinator that accepted a resharding dies: whoever is there finishes it, and so does one started later."""

import contextlib
import random
import threading
from pathlib import Path

import httpx
import pytest

from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.entrypoints.demo.plan import STREAM
from tests.integration.fleet.rig import ALWAYS, BY, FULL, Fleet, Json, fleet, sqlite_in

ROUTING_LEASE_S = 8
MOMENTS_S = (0.0, 0.02, 0.1, 0.4, 1.0, 4.5)
"""From a request on its way to a drain that waits for the producers' routing lease."""


@pytest.mark.parametrize("seed", range(1, 9) if FULL else [1])
def test_a_resharding_is_finished_by_others_out_and_in(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    with EmbeddedServer() as server, fleet(tmp_path, server.url, sqlite_in(tmp_path), ROUTING_LEASE_S) as played:
        played.coordinate("k1", "k2")
        played.create(3)
        played.consume("a")
        played.settle(3, "a")
        played.produce()

        _scale_and_kill(played, 6, "k1", chance.choice(MOMENTS_S))
        played.until(lambda: _over(played, 6), "the scale-out")
        played.coordinate("k1")
        played.settle(6, "a")
        _scale_and_kill(played, 2, "k2", chance.choice(MOMENTS_S))
        played.pause(chance.choice(MOMENTS_S))
        played.kill("k1")
        played.coordinate("k1", "k2")
        played.until(lambda: _over(played, 2), "the scale-in")
        played.settle(2, "a")
        played.finish(2)

        assert [one["state"] for one in _migrations(played)] == ["DEPRECATED", "DEPRECATED"]
        assert played.wrong(*ALWAYS) == {}
        assert _left(played) == {0, 1}


def _scale_and_kill(played: Fleet, shards: int, name: str, after_s: float) -> None:
    """Its answer may be lost; then it is asked for again, elsewhere, unless it is under way."""
    asking = threading.Thread(target=_ask, args=(played.coordinators[name].url, shards))
    asking.start()
    played.pause(after_s)
    played.kill(name)
    asking.join()
    known = [one["toShardCount"] for one in _migrations(played)]
    if shards not in known:
        played.post(f"streams/{STREAM}/scale", {"targetShardCount": shards, **BY})


def _ask(url: str, shards: int) -> None:
    with contextlib.suppress(httpx.TransportError):
        body = {"targetShardCount": shards, **BY}
        httpx.post(f"{url}/coord/v1/streams/{STREAM}/scale", json=body, trust_env=False, timeout=30)


def _migrations(played: Fleet) -> list[Json]:
    found: list[Json] = played.get(f"streams/{STREAM}")["migrations"]
    return found


def _over(played: Fleet, shards: int) -> bool:
    stream = played.get(f"streams/{STREAM}")
    return bool(stream["shardCount"] == shards and stream["activeMigration"] is None)


def _left(played: Fleet) -> set[int]:
    return {row["shardIndex"] for row in played.get(f"streams/{STREAM}")["shards"] if row["phase"] == "OPEN"}
