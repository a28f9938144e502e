"""Everything over a socket of the file system, with a login and a database of its own."""

import asyncio
from pathlib import Path

from tests.integration.links import Ledger, system, until
from tests.integration.stores.redis_rig import server
from tests.servers import Servers


def test_metadata_shards_members_and_producers_work_over_a_socket(servers: Servers, tmp_path: Path) -> None:
    path, ledger = tmp_path / "redis.sock", Ledger()

    async def scenario(url: str) -> None:
        async with system(url) as running, ledger.consumer(running.coordinator, url) as app:
            producer = app.producer("orders", "billing")
            for n in range(20):
                assert await ledger.publish(producer, f"{n}")
            await until(lambda: ledger.handled == ledger.published)

    with server(servers.binary("valkey"), "--unixsocket", str(path)) as started:
        started.ask("ACL", "SETUSER", "me", "on", ">a/b", "~*", "&*", "+@all")
        asyncio.run(scenario(f"unix://me:a%2Fb@{path}?db=2"))
        keys = started.ask("INFO", "keyspace")

    assert b"db2:" in keys
    assert b"db0:" not in keys
