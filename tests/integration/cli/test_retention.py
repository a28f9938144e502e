"""``streamshard serve`` cuts a long stream down part by part, also over a kill; the commands say what is kept."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from redis import Redis

from tests.integration.cli.processes import Served, serving, streamshard

RECORDS = 130_000
"""More than a coordinator removes of a shard in two ticks."""
LEFT = 50
"""How many of them the group has still to read."""
NODE = 100
"""Records in a node of a server's stream, at most."""
OFTEN = ("--tick", "100ms", "--trim-every", "100ms")
STREAM = "/coord/v1/streams/orders"
OFFSETS = "/coord/v1/monitoring/streams/orders/groups/billing/offsets"
KEPT = {"requestedBy": "ops", "initialShardCount": 1, "consumerGroups": ["billing"], "retention": "acknowledged"}


def fill(redis: Redis) -> list[bytes]:
    """Publish the records; gives their ids."""
    ids: list[bytes] = []
    for first in range(0, RECORDS, 5_000):
        pipe = redis.pipeline(transaction=False)
        for number in range(first, first + 5_000):
            pipe.xadd("orders:0", {"n": number})
        ids += pipe.execute()
    return ids


def until(true: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


def missed(served: Served) -> int | None:
    found: int | None = httpx.get(served.url + OFFSETS, trust_env=False).json()["totalTrimmedUnreadCount"]
    return found


def test_a_long_stream_is_cut_to_what_is_needed_although_a_coordinator_is_killed(
    redis_url: str, tmp_path: Path
) -> None:
    where = ("--store", f"sqlite:///{tmp_path}/meta.db", "--redis", redis_url, *OFTEN)
    with Redis.from_url(redis_url) as redis:
        with serving(*where) as served:
            httpx.post(served.url + STREAM, json=KEPT, trust_env=False).raise_for_status()
            ids = fill(redis)
            redis.xgroup_setid("orders:0", "billing", ids[-LEFT - 1], RECORDS - LEFT)
            until(lambda: redis.xlen("orders:0") < RECORDS)
            served.process.send_signal(signal.SIGKILL)
            served.process.wait(timeout=20)
        after_the_kill = redis.xlen("orders:0")

        with serving(*where):
            until(lambda: redis.xlen("orders:0") <= LEFT + 1 + NODE)
        left = [entry[0] for entry in redis.xrange("orders:0")]

    assert LEFT < after_the_kill < RECORDS
    assert left[-LEFT:] == ids[-LEFT:]


def test_records_that_were_trimmed_unread_are_warned_of_and_shown(redis_url: str) -> None:
    with Redis.from_url(redis_url) as redis, serving("--store", "memory:", "--redis", redis_url, *OFTEN) as served:
        httpx.post(served.url + STREAM, json=KEPT, trust_env=False).raise_for_status()
        for number in range(9):
            redis.xadd("orders:0", {"n": number})
        redis.xtrim("orders:0", maxlen=5, approximate=False)
        until(lambda: missed(served) == 4)
        shown = streamshard("groups", "describe", "orders/billing", "--url", served.url).stdout
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(timeout=20)

        assert served.process.stderr is not None
        warned = [line for line in served.process.stderr if "trimmed-unread" in line]

    assert ["MISSED", "4", "trimmed", "unread", "(shard", "0:", "4)"] in [line.split() for line in shown.splitlines()]
    assert len(warned) == 1
    assert "WARNING trimmed-unread orders/billing: 4 records were removed from shard 0" in warned[0]


def test_what_is_kept_is_chosen_shown_and_changed(redis_url: str) -> None:
    with serving("--store", "memory:", "--redis", redis_url) as served:
        where = {"STREAMSHARD_URL": served.url}
        made = streamshard(
            "streams", "create", "orders", "--shards", "1", "--retention", "acknowledged", environment=where
        )
        shown = streamshard("streams", "describe", "orders", environment=where).stdout
        vague = streamshard("streams", "set", "orders", "--reason", "x", environment=where)
        unknown = streamshard("streams", "set", "orders", "--reason", "x", "--retention", "some", environment=where)
        changed = streamshard(
            "streams", "set", "orders", "--retention", "none", "--reason", "an audit", environment=where
        )
        again = streamshard("streams", "describe", "orders", environment=where).stdout

    assert made.returncode == 0
    assert ["RETENTION", "acknowledged"] in [line.split() for line in shown.splitlines()]
    assert shown.splitlines()[-2].split()[-1] == "HELD-BACK-BY"
    assert (vague.returncode, unknown.returncode) == (2, 2)
    assert (changed.returncode, changed.stdout) == (0, "orders keeps every record\n")
    assert ["RETENTION", "none"] in [line.split() for line in again.splitlines()]
