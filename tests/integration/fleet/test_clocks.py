"""Coordinators hours apart: no timestamp crosses a host, so nobody is expired for it, and tokens only grow."""

from pathlib import Path

from streamshard.adapters.streams.embedded import EmbeddedServer
from tests.integration.fleet.rig import ALWAYS, LEASE_S, fleet, sqlite_in

HOUR_S = 3_600


def test_clocks_hours_apart_expire_nobody_and_never_issue_a_token_twice(tmp_path: Path) -> None:
    with EmbeddedServer() as server, fleet(tmp_path, server.url, sqlite_in(tmp_path)) as played:
        played.coordinate("k1", offset_s=7 * HOUR_S)
        played.coordinate("k2", offset_s=-5 * HOUR_S)
        played.create(6)
        played.consume("a")
        alone = played.settle(6, "a")
        played.produce()
        quiet = played.settle(6, "a")
        played.consume("b")
        shared = played.settle(6, "a", "b")
        played.pause(LEASE_S + 1)
        expired = played.expired()
        played.kill_consumer("b")
        back = played.settle(6, "a")
        played.finish(6)

        assert (quiet, expired) == (alone, [])
        assert all(before[1] <= after[1] for before, after in zip(_tokens(alone), _tokens(shared), strict=True))
        assert all(before[1] <= after[1] for before, after in zip(_tokens(shared), _tokens(back), strict=True))
        assert played.wrong(*ALWAYS) == {}


def _tokens(owners: dict[int, tuple[str | None, int | None]]) -> list[tuple[int, int]]:
    return [(shard, token or 0) for shard, (_, token) in sorted(owners.items())]
