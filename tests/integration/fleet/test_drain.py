"""A scale-in in the large: two groups, one ten times slower, a backlog, entries pending under the dead, crashes."""

import asyncio
from pathlib import Path

from redis import Redis

from streamshard.adapters.client.producer import Published
from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.entrypoints.app import StreamApp
from streamshard.entrypoints.demo.journal import Journal
from streamshard.entrypoints.demo.plan import GROUP, STREAM
from tests.integration.fleet.rig import ALWAYS, BY, FULL, Fleet, Json, fleet, sqlite_in

SLOW = "audit"
ROUTING_LEASE_S = 3
BOTH = (GROUP, SLOW)
RECORDS = 100_000 if FULL else 8_000
TOGETHER = 500
FAST_MS, SLOW_MS = 0.4, 4.0
BEFORE, MOST, LAST = 4, 8, 3
PATIENCE_S = 60 + RECORDS / 100


def test_a_scale_in_with_a_backlog_completes_by_itself_and_always_says_why_it_waits(tmp_path: Path) -> None:
    with EmbeddedServer() as server, fleet(tmp_path, server.url, sqlite_in(tmp_path), ROUTING_LEASE_S) as played:
        played.coordinate("k1", "k2")
        played.create(BEFORE, *BOTH)
        _scale(played, MOST)
        out = Watcher(played)
        played.until(out.over, "the scale-out", PATIENCE_S)
        asyncio.run(_publish(played))
        with Redis.from_url(server.url) as redis:
            _die_with_entries_pending(redis)
        played.consume("a", group=GROUP, ms_a_record=FAST_MS)
        played.consume("b", group=SLOW, ms_a_record=SLOW_MS)
        _scale(played, LAST)
        into = Watcher(played)
        played.until(into.over, "the scale-in", PATIENCE_S)
        played.finish(LAST, BOTH, patience=PATIENCE_S)

        assert (out.disagreements, into.disagreements, into.silent) == ([], [], [])
        assert into.killed_at >= {"DRAINING, nothing sealed", "DRAINING, some sealed"}
        assert any(f"not acknowledged by {SLOW}" in reason for reason in into.reasons), into.reasons
        assert {group: played.wrong(*ALWAYS, group=group) for group in BOTH} == {GROUP: {}, SLOW: {}}


class Watcher:
    """Looks at a resharding again and again, and kills a coordinator at each state it sees for the first time."""

    def __init__(self, played: Fleet) -> None:
        self._played = played
        self.killed_at: set[str] = set()
        self.disagreements: list[str] = []
        self.silent: list[str] = []
        self.reasons: set[str] = set()

    def over(self) -> bool:
        """One look."""
        stream = self._stream()
        active = stream["activeMigration"]
        if active is None:
            return True
        self._compare()
        if active["state"] == "DRAINING":
            self._listen(active)
        self._kill(_stage(active))
        return False

    def _stream(self) -> Json:
        return self._played.get(f"streams/{STREAM}")

    def _compare(self) -> None:
        """Both groups, unless something changed while we were looking."""
        one, other, again = (self._seen_by(group) for group in (GROUP, SLOW, GROUP))
        if one == again != other:
            self.disagreements.append(f"{one} {other}")

    def _seen_by(self, group: str) -> tuple[int, int, set[int]]:
        """The layout and its producers' shards, and the shards that are open."""
        routing = self._played.get(f"streams/{STREAM}/groups/{group}/producer-routing")
        view = self._played.get(f"monitoring/streams/{STREAM}/groups/{group}/assignments")
        opened = {row["shardIndex"] for row in view["shards"] if row["phase"] == "OPEN"}
        return routing["layoutVersion"], routing["shardCount"], opened

    def _listen(self, active: Json) -> None:
        reasons = [row["reason"] for row in active["draining"]]
        self.reasons.update(reasons)
        if not reasons or not all(reasons):
            self.silent.append(f"{active['state']} at {active['updatedAt']}: {active['draining']}")

    def _kill(self, stage: str) -> None:
        if stage not in self.killed_at:
            self.killed_at.add(stage)
            names = ("k1", "k2") if len(self.killed_at) % 2 else ("k1",)
            self._played.kill(*names)
            self._played.coordinate(*names)


def _stage(active: Json) -> str:
    state = str(active["state"])
    if state != "DRAINING":
        return state
    waiting = {row["shardIndex"] for row in active["draining"]}
    return f"{state}, nothing sealed" if len(waiting) == MOST - LAST else f"{state}, some sealed"


def _scale(played: Fleet, shards: int) -> None:
    played.post(f"streams/{STREAM}/scale", {"targetShardCount": shards, **BY})


async def _publish(played: Fleet) -> None:
    """A backlog that nobody has read yet."""
    journal = Journal(played.folder / "producer.jsonl")
    async with StreamApp(played.url, played.redis) as app:
        orders = app.producer(STREAM, GROUP)
        for first in range(0, RECORDS, TOGETHER):
            seqs = range(first, min(first + TOGETHER, RECORDS))
            results = await orders.publish_many([(f"order-{seq % 997}", {"seq": seq}) for seq in seqs])
            written = [(seq, r) for seq, r in zip(seqs, results, strict=True) if isinstance(r, Published)]
            assert len(written) == len(seqs)
            journal.note("published", records=[[r.id, r.shard, seq, r.version] for seq, r in written])
    journal.close()


def _die_with_entries_pending(redis: "Redis") -> None:
    """Consumers of both groups that took some records of every shard, and were never seen again."""
    for shard in range(MOST):
        for group in BOTH:
            for name in ("dead-1", "dead-2"):
                redis.xreadgroup(group, name, {f"{STREAM}:{shard}": ">"}, count=10)
