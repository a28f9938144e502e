"""An account that lacks a permission: said by a class of its own, without haste, and mended without a restart."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from streamshard import NotWritten, StreamApp
from streamshard.adapters.redis_acl import Role
from streamshard.adapters.stores.redis import RedisStore
from streamshard.adapters.streams.connections import Connections, NotSent
from streamshard.adapters.streams.opening import shard_log, stream_backend, stream_inspector
from streamshard.errors import (
    ConfigurationError,
    StorePermissionMissing,
    StreamPermissionMissing,
)
from tests.integration.accounts.accounts import SECRET, Accounts, name_of
from tests.integration.client.script import ORDERS
from tests.integration.cluster import ask
from tests.integration.links import Ledger, System, system, until
from tests.integration.streams.rigs import BILLING, KEY, ZERO, access, provision
from tests.integration.streams.rigs import ORDERS as PREFIX

REMEDY = "streamshard acl-rules"


@asynccontextmanager
async def running(accounts: Accounts) -> AsyncIterator[System]:
    async with system(accounts.url(Role.COORDINATOR), shards=1) as started:
        yield started


def test_each_side_is_told_by_a_class_of_its_own_what_would_help(accounts: Accounts) -> None:
    async def scenario() -> None:
        backend, log = stream_backend(accounts.url(Role.COORDINATOR)), shard_log(accounts.url(Role.CONSUMER))
        looking = stream_inspector(accounts.url(Role.CONSUMER))
        try:
            await backend.provision([provision((BILLING, "0"))])
            accounts.change(Role.COORDINATOR, "-xinfo|groups")
            accounts.change(Role.CONSUMER, "-evalsha")
            with pytest.raises(StreamPermissionMissing, match=REMEDY):
                await backend.probe(PREFIX, [ZERO])
            with pytest.raises(StreamPermissionMissing, match="evalsha"):
                await log.read([(access(5), 1)])
            with pytest.raises(StreamPermissionMissing, match="evalsha_ro"):
                await looking.look(PREFIX, [ZERO], BILLING)
            with pytest.raises(NotWritten, match=f"NOPERM.*{REMEDY}"):
                await log.append(KEY, {"a": 1}, None)
        finally:
            for each in (backend, log, looking):
                await each.close()

    asyncio.run(scenario())


def test_a_store_is_told_at_the_start_and_later(accounts: Accounts) -> None:
    url = accounts.url(Role.COORDINATOR)

    async def scenario() -> None:
        store = await RedisStore.open(url)
        try:
            accounts.change(Role.COORDINATOR, "-@all", "clearselectors", "+info", "+script|load")
            with pytest.raises(StorePermissionMissing, match=REMEDY):
                await store.load_stream(PREFIX)
            accounts.allow((Role.COORDINATOR,))
            assert (await store.load_stream(PREFIX)).record is None
        finally:
            await store.close()
        accounts.change(Role.COORDINATOR, "-@all", "clearselectors")
        with pytest.raises(ConfigurationError, match=REMEDY):
            await RedisStore.open(url)

    asyncio.run(scenario())


@pytest.mark.parametrize("taken", ["-xreadgroup", "-evalsha", "-xread", "resetkeys"])
@pytest.mark.parametrize("guarded_server", ["valkey"], indirect=True)
def test_a_consumer_that_lost_a_permission_waits_and_goes_on_once_it_is_back(
    accounts: Accounts, taken: str, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = Ledger()
    took = 0.0
    refusals = 0

    async def scenario() -> None:
        nonlocal took, refusals
        async with running(accounts) as rig:
            publishing = StreamApp(rig.coordinator, accounts.url(Role.PRODUCER))
            producer = publishing.producer("orders", "billing")
            async with ledger.consumer(rig.coordinator, accounts.url(Role.CONSUMER)), publishing:
                assert await ledger.publish(producer, "before")
                await until(lambda: "before" in ledger.handled)
                accounts.change(Role.CONSUMER, taken)
                assert await ledger.publish(producer, "during")
                await asyncio.sleep(1.5)
                refusals = sum(int(entry[b"count"]) for entry in accounts.refused())
                accounts.allow((Role.CONSUMER,))
                await ledger.publish(producer, "after")
                took = await until(lambda: ledger.handled >= ledger.published)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert took < 5.0
    assert refusals < 60
    said = [record.message for record in caplog.records if "NOPERM" in record.message]
    assert len(said) <= 5
    assert all(REMEDY in message for message in said)
    assert SECRET not in caplog.text


def test_a_coordinator_that_lost_a_permission_goes_on_once_it_is_back(accounts: Accounts) -> None:
    ledger = Ledger()

    async def scenario() -> float:
        async with running(accounts) as rig, ledger.consumer(rig.coordinator, accounts.url(Role.CONSUMER)):
            accounts.change(Role.COORDINATOR, "-evalsha", "clearselectors")
            with pytest.raises(StorePermissionMissing):
                await rig.coordinator.stream(ORDERS.prefix)
            await asyncio.sleep(1.0)
            accounts.allow((Role.COORDINATOR,))
            publishing = StreamApp(rig.coordinator, accounts.url(Role.PRODUCER))
            producer = publishing.producer("orders", "billing")
            async with publishing:
                await ledger.publish(producer, "after")
                return await until(lambda: ledger.handled == {"after"})

    assert asyncio.run(scenario()) < 5.0


def test_a_password_that_is_changed_in_its_file_is_used_for_the_next_connection(
    accounts: Accounts, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    user = name_of(Role.CONSUMER)
    connections = Connections(f"redis://{user}@127.0.0.1:{accounts.port}?password_file={file}", limit=1)

    async def scenario() -> list[object]:
        question = [("COMMAND", "INFO", "nothing")]
        try:
            first = await connections.exchange(question)
            accounts.change(Role.CONSUMER, "resetpass", ">another")
            ask(accounts.port, "CLIENT", "KILL", "USER", user)
            await asyncio.sleep(0.1)
            with pytest.raises(NotSent, match="AUTH"):
                await connections.exchange(question)
            file.write_text("another\n")
            return [*first, *await connections.exchange(question)]
        finally:
            await connections.close()

    assert asyncio.run(scenario()) == [[None], [None]]
