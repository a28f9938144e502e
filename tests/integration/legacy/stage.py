"""A group that admits clients of the older contract, over a coordinator whose time the tests move."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import attrs

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.core.ids import Millis
from streamshard.core.timing import client_lease_ms
from tests.integration.http.service import ASKED, GROUP, Running, beat, running
from tests.integration.legacy.older import SECOND, Json, OlderClient, indexes

MONITORED = GROUP.replace("/coord/v1", "/coord/v1/monitoring")
LEASE_S = 16
"""Seconds: the tick after the longest silence that a lease allows."""


@attrs.define
class PresentClient:
    """A present-day member, as raw: its instance, its holds, and the deadline of each."""

    service: Running
    member: str
    number: int = 1
    epoch: int = 0
    seq: int = 0
    view: str | None = None
    tokens: dict[int, int] = attrs.field(factory=dict)
    deadlines: dict[int, int] = attrs.field(factory=dict)
    draining: set[int] = attrs.field(factory=set)

    @property
    def reading(self) -> set[int]:
        """What passes its own lease check now."""
        now = self.service.clock.boot()
        return {shard for shard in self.tokens if now < self.deadlines[shard]}

    async def beat(self) -> Json:
        """One heartbeat; whatever it is told to give up is given up by the next one."""
        for shard in sorted(self.draining):
            del self.tokens[shard]
        self.draining = set()
        self.seq += 1
        sent_at = self.service.clock.boot()
        answer = await self.service.http.post(f"{GROUP}/members/{self.member}/heartbeat", json=self._body())
        reply: Json = answer.json()
        self._take(reply, sent_at + client_lease_ms(Millis(reply["leaseMs"])))
        return reply

    def _body(self) -> Json:
        holds = [{"shardIndex": shard, "token": token} for shard, token in sorted(self.tokens.items())]
        known = {"memberEpoch": self.epoch, "seq": self.seq, "view": self.view, "holds": holds}
        return beat(self.member, instanceId=f"{self.number:032x}", **known)

    def _take(self, reply: Json, deadline: int) -> None:
        assert reply["status"] in ("OK", "RETRY"), reply
        if reply["status"] == "RETRY":
            return
        self.epoch, self.view = reply["memberEpoch"], reply["view"]
        self.draining |= set(self.tokens) - indexes(reply["grants"])
        fresh = {grant["shardIndex"]: grant["token"] for grant in reply["grants"]}
        new = {shard: token for shard, token in fresh.items() if shard not in self.tokens}
        self.tokens |= new
        self.deadlines |= dict.fromkeys([*new, *indexes(reply["extended"])], deadline)


Client = OlderClient | PresentClient


def crowded(*clients: Client) -> list[int]:
    """Shards that two of these read at this instant."""
    readers = Counter(shard for client in clients for shard in client.reading)
    return sorted(shard for shard, count in readers.items() if count > 1)


@attrs.frozen
class Stage:
    """The coordinator, the group, and those who live in it."""

    service: Running
    store: MemoryStore = attrs.field(factory=MemoryStore)

    def older(self, member: str = "web-m0", **given: Any) -> OlderClient:
        """A process of the older contract; another one under the same name is another process."""
        return OlderClient(self.service.http, GROUP, member, **given)

    def present(self, member: str, number: int = 1) -> PresentClient:
        """A present-day process."""
        return PresentClient(self.service, member, number)

    async def settle(self, *clients: Client, rounds: int = 4) -> None:
        """Everybody beats a few times, in turn."""
        for _ in range(rounds):
            for client in clients:
                await client.beat()

    async def pass_time(self, seconds: int, *clients: Client) -> None:
        """Time goes by, the coordinator ticks, and these beat every third second."""
        for second in range(1, seconds + 1):
            await self.service.tick(apart_ms=SECOND)
            for client in clients if second % 3 == 0 else ():
                await client.beat()

    async def states(self) -> dict[str, str]:
        """Every member's state, by id."""
        found = (await self.service.http.get(f"{MONITORED}/members")).json()["members"]
        return {member["memberId"]: member["state"] for member in found}

    async def owners(self) -> dict[int, str | None]:
        """Who may be reading each shard, by the record."""
        found = (await self.service.http.get(f"{MONITORED}/assignments")).json()["shards"]
        return {shard["shardIndex"]: shard["owner"] for shard in found}

    async def violations(self) -> list[str]:
        """What the coordinator itself finds wrong."""
        answer = await self.service.http.get("/coord/v1/monitoring/health")
        return list(answer.json()["invariantViolations"])

    async def group(self) -> Json:
        """The group as operators see it."""
        shown: Json = (await self.service.http.get(GROUP)).json()
        return shown


@contextlib.asynccontextmanager
async def admitting(shards: int = 2, **given: Any) -> AsyncIterator[Stage]:
    """A group of so many shards that was created with ``allowLegacyMembers``."""
    store = MemoryStore()
    async with running(store) as service:
        asked = {**ASKED, "initialShardCount": shards, "allowLegacyMembers": True, **given}
        made = await service.http.post(GROUP, json=asked)
        assert made.status_code == 201, made.text
        await service.tick()
        yield Stage(service, store)
