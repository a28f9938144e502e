"""A master that sentinels watch over dies, steps down or falls silent: everybody goes on with the next one."""

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from streamshard import Producer
from streamshard.adapters.stores.redis import RedisStore
from streamshard.adapters.streams.connections import Connections
from streamshard.core.ids import Millis
from streamshard.core.ports import Transaction
from streamshard.errors import SourceChanged, StoreUnavailable
from streamshard.testing.samples import CREATE_STREAM, ORDERS, a_stream, put, source_of
from tests.integration.links import QUICK, Ledger, system, until
from tests.integration.sentinel.watched import Watched, watched
from tests.servers import Servers

LATE_WRITES_S = 0.5
"""What a master takes while it is replaced is lost, if it did not die: until everybody has heard of the next one."""

PATIENT = attrs.evolve(QUICK, routing_lease_ms=Millis(60_000))


@pytest.fixture(params=["valkey", "redis-path"])
def group(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Watched]:
    """Two servers and three sentinels."""
    with watched(servers.binary(request.param), tmp_path) as built:
        yield built


@pytest.fixture
def valkeys(servers: Servers, tmp_path: Path) -> Iterator[Watched]:
    """Two Valkeys and three sentinels."""
    with watched(servers.binary("valkey"), tmp_path) as built:
        yield built


async def switched(group: Watched, before: int) -> None:
    """Wait until the sentinels name another master."""
    async with asyncio.timeout(20):
        while await asyncio.to_thread(group.master_port) == before:
            await asyncio.sleep(0.02)


async def keep_publishing(producer: Producer, ledger: Ledger, stop: asyncio.Event) -> None:
    n = 0
    while not stop.is_set():
        n += 1
        await ledger.publish(producer, f"{n}")
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", ["kill", "step down"])
def test_publishing_and_consuming_go_on_within_five_seconds(group: Watched, how: str) -> None:
    ledger = Ledger()

    async def scenario() -> float:
        async with system(group.url, timing=PATIENT) as running, ledger.consumer(running.coordinator, group.url) as app:
            producer = app.producer("orders", "billing")
            stop = asyncio.Event()
            publishing = asyncio.create_task(keep_publishing(producer, ledger, stop))
            await until(lambda: len(ledger.handled) > 50)
            old = group.master()
            if how == "kill":
                old.signal(signal.SIGKILL)
            else:
                assert group.sentinels[0].ask("SENTINEL", "FAILOVER", "main") == b"OK"
            await switched(group, old.port)
            began = time.monotonic()
            await asyncio.sleep(LATE_WRITES_S)
            then = set(ledger.published)
            await until(lambda: len(ledger.handled - then) > 20)
            took = time.monotonic() - began
            stop.set()
            await publishing
            await until(lambda: ledger.handled >= ledger.published - then)
            return took

    assert asyncio.run(scenario()) < 5.0


def test_a_master_that_falls_silent_is_left_for_the_next(valkeys: Watched) -> None:
    ledger = Ledger()

    async def scenario() -> float:
        url = valkeys.url
        async with system(url, timing=PATIENT) as running, ledger.consumer(running.coordinator, url) as app:
            producer = app.producer("orders", "billing")
            stop = asyncio.Event()
            publishing = asyncio.create_task(keep_publishing(producer, ledger, stop))
            await until(lambda: len(ledger.handled) > 50)
            old = valkeys.master()
            old.signal(signal.SIGSTOP)
            await switched(valkeys, old.port)
            then = set(ledger.published)
            took = await until(lambda: len(ledger.handled - then) > 20)
            old.signal(signal.SIGCONT)
            stop.set()
            await publishing
            return took

    assert asyncio.run(scenario()) < 6.0


def test_the_next_master_is_another_store_to_the_coordinator(group: Watched) -> None:
    async def scenario() -> None:
        store = await RedisStore.open(group.url, Millis(2_000))
        try:
            await put(store, CREATE_STREAM)
            before = await source_of(store)
            old = group.master()
            await asyncio.to_thread(until_copied, group)
            old.signal(signal.SIGKILL)
            await switched(group, old.port)
            began = time.monotonic()
            while True:
                try:
                    after = await source_of(store)
                    break
                except StoreUnavailable:
                    await asyncio.sleep(0.05)
            with pytest.raises(SourceChanged):
                await store.commit(Transaction(ORDERS, before))
            assert time.monotonic() - began < 5.0
            assert before.identity != after.identity
            assert (await store.load_stream(ORDERS)).record == a_stream()
        finally:
            await store.close()

    asyncio.run(scenario())


def until_copied(group: Watched) -> None:
    """The replica has what the master has."""
    assert group.master().ask("WAIT", 1, 5_000) is not None
    deadline = time.monotonic() + 5
    while group.other().ask("DBSIZE") != group.master().ask("DBSIZE"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_written_after_a_step_down_is_on_the_new_master(valkeys: Watched) -> None:
    async def scenario() -> tuple[object, list[Any]]:
        connections = Connections(valkeys.url, limit=2, timeout=Millis(1_000))
        try:
            old = valkeys.master()
            assert await connections.exchange([("SET", "a", 1)]) == [b"OK"]
            valkeys.sentinels[1].ask("SENTINEL", "FAILOVER", "main")
            await switched(valkeys, old.port)
            await asyncio.sleep(LATE_WRITES_S)
            assert await connections.exchange([("SET", "b", 2)]) == [b"OK"]
            return valkeys.master().ask("GET", "b"), await connections.exchange([("ROLE",)])
        finally:
            await connections.close()

    written, (role,) = asyncio.run(scenario())

    assert written == b"2"
    assert role[0] == b"master"
