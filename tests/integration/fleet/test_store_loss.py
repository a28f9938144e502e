"""A store that comes back older than it was: one reader a shard all the same, and all is well again by itself."""

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest
from redis import Redis

from streamshard.adapters.streams.embedded import EmbeddedServer
from tests.integration.fleet.rig import ALWAYS, FULL, Fleet, fleet, nothing_waits, sqlite_in

BOUND_S = 60.0
"""Far above two leases, a rebalance and five heartbeats: how slow the machine is must not decide."""


def _named(restarted: tuple[str, ...]) -> str:
    return f"{len(restarted)} restarted"


@pytest.mark.parametrize("restarted", [(), ("k1",), ("k1", "k2")] if FULL else [()], ids=_named)
def test_an_older_copy_of_the_database_is_noticed_and_mended(restarted: tuple[str, ...], tmp_path: Path) -> None:
    with EmbeddedServer() as server, fleet(tmp_path, server.url, sqlite_in(tmp_path)) as played:
        played.coordinate("k1", "k2")
        played.create(6)
        played.consume("a")
        played.settle(6, "a")
        played.produce()
        _copy(tmp_path / "metadata.db", tmp_path / "older.db")
        played.consume("b")
        newest = played.settle(6, "a", "b")
        assert not _noticed(played)

        played.kill(*restarted)
        _restore(tmp_path / "older.db", tmp_path / "metadata.db")
        played.coordinate(*restarted)
        played.until(lambda: _noticed(played), "the loss to be noticed", BOUND_S)
        mended = played.settle(6, "a", "b")
        played.finish(6)

        assert all((mended[shard][1] or 0) >= (token or 0) for shard, (_, token) in newest.items())
        assert played.expired() == []
        assert played.wrong(*ALWAYS) == {}


@pytest.mark.parametrize("restarted", [(), ("k1", "k2")] if FULL else [("k1", "k2")], ids=_named)
def test_a_server_that_loses_metadata_and_fences_together_gets_one_reader_a_shard_again(
    restarted: tuple[str, ...], tmp_path: Path
) -> None:
    with EmbeddedServer() as server, fleet(tmp_path, server.url, server.url) as played:
        played.coordinate("k1", "k2")
        played.create(6)
        played.consume("a")
        played.settle(6, "a")
        played.produce(journal="before")
        played.stop_producing()
        with Redis.from_url(server.url) as redis:
            played.until(lambda: nothing_waits(redis, 6), "what was published before to be handled")
            redis.save()
        played.consume("b")
        played.settle(6, "a", "b")

        played.kill(*restarted)
        server.kill()
        server.start()
        played.coordinate(*restarted)
        played.until(lambda: _noticed(played), "the loss to be noticed", BOUND_S)
        played.settle(6, "a", "b")
        played.produce()
        played.pause(1.0)
        played.finish(6)

        assert played.wrong("nothing-lost", "in-order", "one-reader", "no-old-token") == {}


def _noticed(played: Fleet) -> bool:
    return any(" quarantine orders/billing" in line for line in played.events())


def _copy(source: Path, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(source)) as old, contextlib.closing(sqlite3.connect(target)) as new:
        old.backup(new)


def _restore(copy: Path, place: Path) -> None:
    """As an operator does it who does not know better: under the running coordinators."""
    for leftover in (f"{place}-wal", f"{place}-shm"):
        Path(leftover).unlink(missing_ok=True)
    os.replace(copy, place)
