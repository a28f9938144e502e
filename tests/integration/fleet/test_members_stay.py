"""Coordinators come and go at any instant: members keep what they read, and the dead are still noticed."""

from pathlib import Path

import pytest

from streamshard.adapters.streams.embedded import EmbeddedServer
from tests.integration.fleet.rig import ALWAYS, LEASE_S, Fleet, fleet, store_of

FLEET = ("k1", "k2", "k3")


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_no_shard_moves_whatever_is_done_to_coordinators_and_the_dead_are_expired_all_the_same(
    kind: str, tmp_path: Path
) -> None:
    with EmbeddedServer() as server, fleet(tmp_path, server.url, store_of(kind, tmp_path, server)) as played:
        played.coordinate(*FLEET)
        played.create(8)
        played.consume("a", "b")
        before = played.settle(8, "a", "b")
        played.produce()

        _crash_each(played)
        _freeze_each(played)
        _roll(played)
        after, expired = played.settle(8, "a", "b"), played.expired()
        played.freeze("k1")
        played.kill_consumer("b")
        taken_over = played.settle(8, "a")
        played.thaw("k1")
        played.finish(8)

        assert (after, expired) == (before, [])
        assert {owner for owner, _ in taken_over.values()} == {"a-m0", "a-m1"}
        assert all(taken_over[shard] == mine for shard, mine in before.items() if mine[0] in ("a-m0", "a-m1"))
        assert played.wrong(*ALWAYS) == {}


def _crash_each(played: Fleet) -> None:
    """One alone, then all at once."""
    played.kill("k1")
    played.pause(0.4)
    played.coordinate("k1")
    played.kill(*FLEET)
    played.coordinate(*FLEET)


def _freeze_each(played: Fleet) -> None:
    """One for longer than a lease, another one meanwhile."""
    played.freeze("k1")
    played.pause(1.0)
    played.freeze("k2")
    played.pause(LEASE_S - 1.0)
    played.thaw("k1")
    played.pause(0.5)
    played.thaw("k2")
    played.pause(1.0)


def _roll(played: Fleet) -> None:
    """A rolling restart; then long enough for anybody who was taken for silent to be expired."""
    for name in FLEET:
        assert played.dismiss(name) == 0
        played.coordinate(name)
    played.pause(LEASE_S + 1)
