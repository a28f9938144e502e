"""A coordinator in this process, asked through its ASGI application without a socket."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import attrs
import httpx
from starlette.types import ASGIApp

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_inspector import MemoryStreamInspector
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.coordinator import Coordinator
from streamshard.core.ports import MetadataStore
from streamshard.core.settings import CoordinatorSettings
from streamshard.entrypoints.http.app import create_app
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.testing.clock import ManualClock, SeededEntropy

ASKED = {"requestedBy": "ops", "reason": "a test"}
STREAM = "/coord/v1/streams/orders"
GROUP = STREAM + "/groups/billing"


@attrs.frozen
class Running:
    """The application's parts and a client that talks to it."""

    http: httpx.AsyncClient
    coordinator: Coordinator
    store: MetadataStore
    clock: ManualClock
    traffic: Traffic
    app: ASGIApp
    world: MemoryStreams

    def over(self, app: ASGIApp) -> httpx.AsyncClient:
        """A client of another application."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test")

    async def tick(self, times: int = 1, apart_ms: int = 1_000) -> None:
        """Let the coordinator look after everything so many times."""
        for _ in range(times):
            self.clock.advance(apart_ms)
            await self.coordinator.tick()


@contextlib.asynccontextmanager
async def running(store: MetadataStore | None = None, **chosen: Any) -> AsyncIterator[Running]:
    """Everything in memory; time stands still unless a test moves it. ``chosen`` are settings of the coordinator."""
    store, clock, traffic = store or MemoryStore(), ManualClock(), Traffic()
    world = MemoryStreams(clock.wall)
    streams = MemoryStreamBackend(world)
    settings = CoordinatorSettings("coordinator-1", **chosen)
    coordinator = Coordinator(store, streams, clock, SeededEntropy(), settings)
    app = create_app(coordinator, traffic=traffic, inspector=MemoryStreamInspector(world, clock.wall))
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        yield Running(http, coordinator, store, clock, traffic, app, world)


def error(status: str, code: str, message: str, *, retryable: bool = False) -> dict[str, Any]:
    """The whole error body."""
    return {"status": status, "errorCode": code, "message": message, "retryable": retryable, "details": None}


def beat(member: str = "web-m0", **fields: Any) -> dict[str, Any]:
    """A join of a present-day client, changed as told."""
    return {
        "protocolVersion": 1,
        "requestId": "r-1",
        "memberId": member,
        "memberName": member,
        "memberEpoch": 0,
        "metadataVersion": 0,
        "runtimeConsumerCapacity": {"runtimeMaxConcurrency": 1, "availableConcurrency": 1},
        "ownedShards": [],
        "revokingShards": [],
        "shardProgress": [],
        "instanceId": "00000000000000000000000000000001",
        "seq": 1,
        "holds": [],
        **fields,
    }
