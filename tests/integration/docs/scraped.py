"""A coordinator as a process of its own, after everything that its metrics can tell of has happened to it."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import httpx

from tests.integration.cli.processes import serving
from tests.integration.http.scrape import Scrape, understood
from tests.integration.http.service import ASKED, GROUP, STREAM, beat
from tests.integration.http.stage import holding

QUICK = ("--lease", "1s", "--heartbeat", "250ms", "--tick", "100ms", "--trim-every", "100ms")
BEAT = GROUP + "/members/{}/heartbeat"
PATIENCE_S = 20.0


@attrs.define
class Story:
    """What was done, and what the coordinator told of it."""

    http: httpx.Client
    answered: Counter[str] = attrs.field(factory=Counter)
    """Heartbeats by their status."""
    scrape: Scrape = attrs.field(factory=lambda: Scrape({}, {}))

    def hear(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """One heartbeat."""
        answer: dict[str, Any] = self.http.post(BEAT.format(name), json=body).json()
        self.answered[answer["status"]] += 1
        return answer

    def look(self) -> Scrape:
        """Scrape."""
        self.scrape = understood(self.http.get("/metrics").text)
        return self.scrape


def told(tmp_path: Path) -> Story:
    """Joins, a handover, a fence, an expiry, a routing and a resharding that waits for a member."""
    with serving("--store", f"sqlite:///{tmp_path}/meta.db", "--redis", "memory:", *QUICK) as served:
        with httpx.Client(base_url=served.url, trust_env=False) as http:
            story = Story(http)
            _happen(story)
            return story


def _happen(story: Story) -> None:
    story.http.post(GROUP, json={**ASKED, "initialShardCount": 4})
    first = story.hear("a", beat("a"))
    story.hear("b", beat("b", instanceId=f"{2:032x}"))
    story.hear("a", holding(first, 2, memberId="a", instanceId=f"{9:032x}"))
    story.http.get(GROUP + "/producer-routing")
    seq = 2
    while not _seen(story.look()):
        seq += 1
        assert seq < PATIENCE_S / 0.1, f"it did not come to that: {story.scrape.values}"
        unread = [{"shard": {"shardIndex": 0}, "lastReadAgeMs": 5_000}]
        first = {**first, **story.hear("a", holding(first, seq, memberId="a", shardProgress=unread))}
        if story.scrape.value("members_expired_total") and not story.scrape.value(
            "scale_requests_total", outcome="accepted"
        ):
            story.http.post(STREAM + "/scale", json={**ASKED, "targetShardCount": 2})
        time.sleep(0.1)


def _seen(scrape: Scrape) -> bool:
    resharding = scrape.value("reshard_age_seconds", stream="orders")
    trimmed = scrape.value("records_trimmed_unread_total", stream="orders", group="billing")
    return resharding is not None and trimmed is not None and bool(scrape.family("shard_unread_seconds", "shard"))
