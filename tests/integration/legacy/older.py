"""A client of the older contract, as its own documentation describes it: it knows no field of ours that is newer."""

from collections.abc import Iterable
from typing import Any

import attrs
import httpx

Json = dict[str, Any]

KEEPS = ("OK", "SYNC_METADATA", "REVOKE_PENDING")
STOPS = ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH")
SECOND = 1_000
HEARTBEAT, LEASE, TIMEOUT = 3 * SECOND, 15 * SECOND, 60 * SECOND


class Rejected(Exception):
    """The coordinator will not have this client; it stops with an error."""


@attrs.define
class OlderClient:
    """One member: its epoch, the version it knows, what it reads, and what it is giving up.

    Work on a shard ends at once, unless the shard is ``busy``. With ``reports`` off it says nothing of what
    it gives up, and only leaves it out: one of the two public clients does so.
    """

    http: httpx.AsyncClient
    group: str
    member: str = "web-m0"
    reports: bool = True
    epoch: int = 0
    version: int = 0
    owned: set[int] = attrs.field(factory=set)
    pending: set[int] = attrs.field(factory=set)
    revoking: dict[int, Json] = attrs.field(factory=dict)
    busy: set[int] = attrs.field(factory=set)
    sent: int = 0

    @property
    def reading(self) -> set[int]:
        """What it reads or still handles."""
        return self.owned | {shard for shard, report in self.revoking.items() if report["inFlight"]}

    def body(self, **changes: Any) -> Json:
        """The next heartbeat, changed as told."""
        self.sent += 1
        return {
            "protocolVersion": 1,
            "requestId": f"{self.member}-{self.sent}",
            "memberId": self.member,
            "memberName": "billing-app",
            "memberEpoch": self.epoch,
            "rebalanceTimeoutMs": TIMEOUT,
            "metadataVersion": self.version,
            "runtimeConsumerCapacity": {"runtimeMaxConcurrency": 1, "availableConcurrency": 1},
            "ownedShards": refs(self.owned),
            "revokingShards": [{"shard": {"shardIndex": s}, **self.revoking[s]} for s in sorted(self.revoking)],
            "shardProgress": [],
            **changes,
        }

    async def send(self, body: Json) -> Json:
        """Deliver one message; what comes back is not looked at yet."""
        answer = await self.http.post(f"{self.group}/members/{self.member}/heartbeat", json=body)
        assert answer.status_code == 200, answer.text
        reply: Json = answer.json()
        assert reply["responseTo"] == body["requestId"]
        return reply

    async def beat(self, **changes: Any) -> Json:
        """One heartbeat, and what its answer makes the client do."""
        self._go_on_draining()
        reply = await self.send(self.body(**changes))
        self.apply(reply)
        return reply

    async def leave(self) -> Json:
        """Give everything up and say goodbye; what it owned is named to the last."""
        self._give_up(self.owned)
        self._go_on_draining()
        reply = await self.send(self.body(memberEpoch=-1))
        self._forget()
        return reply

    def apply(self, reply: Json) -> None:
        """Do what the status asks for."""
        status = reply["status"]
        if status in STOPS:
            self._forget()
        elif status in KEEPS:
            self._follow(reply)
        elif status != "RETRY":
            raise Rejected(reply["message"])

    def _follow(self, reply: Json) -> None:
        self.epoch, self.version = reply["memberEpoch"], reply["metadataVersion"]
        assigned = indexes(reply["assignment"]["assignedShards"])
        self.pending = indexes(reply["assignment"]["pendingShards"])
        self.revoking = {shard: report for shard, report in self.revoking.items() if report["inFlight"]}
        self._give_up(self.owned - assigned)
        self.owned = assigned if reply["status"] == "OK" else self.owned & assigned

    def _give_up(self, shards: Iterable[int]) -> None:
        if self.reports:
            self.revoking |= {shard: self._report(shard) for shard in shards}

    def _go_on_draining(self) -> None:
        self.revoking = {shard: self._report(shard) for shard in self.revoking}

    def _report(self, shard: int) -> Json:
        if shard in self.busy:
            return {"state": "DRAINING", "inFlight": 1, "ackedAt": None}
        return {"state": "REVOKED", "inFlight": 0, "ackedAt": "2026-01-01T00:00:00Z"}

    def _forget(self) -> None:
        self.epoch, self.version = 0, 0
        self.owned, self.pending, self.revoking = set(), set(), {}


def refs(shards: Iterable[int]) -> list[Json]:
    """Shards as the contract spells them."""
    return [{"shardIndex": shard} for shard in sorted(shards)]


def indexes(shards: list[Json]) -> set[int]:
    """And back."""
    return {shard["shardIndex"] for shard in shards}
