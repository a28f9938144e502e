"""Sentinels that are away, silent, unknowing, behind a login, or behind TLS."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamshard.adapters.stores.redis import RedisStore
from streamshard.adapters.streams.connections import Connections, NotSent, value
from streamshard.adapters.streams.embedded import HOST
from streamshard.core.ids import Millis
from streamshard.errors import StoreUnavailable
from tests.integration.cluster import free_ports
from tests.integration.links import Ledger, system, until
from tests.integration.sentinel.watched import MASTER, Watched, spawn, watched
from tests.integration.tls.authorities import Papers, issue
from tests.servers import Servers


@pytest.fixture(scope="module")
def valkeys(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Two Valkeys and three sentinels, for tests that leave them as they are."""
    with watched(servers.binary("valkey"), tmp_path_factory.mktemp("watched")) as built:
        yield built


def url_of(built: Watched, *ports: int, service: str = MASTER) -> str:
    hosts = ",".join(f"{HOST}:{port}" for port in ports or [each.port for each in built.sentinels])
    return f"redis+sentinel://{hosts}/{service}"


async def role(url: str, timeout: int = 3_000) -> object:
    connections = Connections(url, limit=1, timeout=Millis(timeout))
    try:
        return value((await connections.exchange([("ROLE",)]))[0])[0]
    finally:
        await connections.close()


def test_one_sentinel_that_is_away_and_one_that_is_silent_hold_nobody_up(valkeys: Watched) -> None:
    silent, *others = valkeys.sentinels
    silent.signal(signal.SIGSTOP)
    began = time.monotonic()
    try:
        found = asyncio.run(role(url_of(valkeys, free_ports()[0], silent.port, *(each.port for each in others))))
    finally:
        silent.signal(signal.SIGCONT)

    assert found == b"master"
    assert time.monotonic() - began < 2.5


def test_no_sentinel_and_no_such_master_are_told_with_every_sentinel_s_answer(valkeys: Watched) -> None:
    nowhere = free_ports()

    with pytest.raises(NotSent) as away:
        asyncio.run(role(url_of(valkeys, *nowhere)))
    with pytest.raises(NotSent) as unknown:
        asyncio.run(role(url_of(valkeys, service="other")))
    with pytest.raises(StoreUnavailable) as store:
        asyncio.run(RedisStore.open(url_of(valkeys, service="other")))

    assert all(f"{HOST}:{port}" in away.value.message for port in nowhere)
    assert "No such master" in unknown.value.message
    assert "'other'" in unknown.value.message
    assert "No such master" in store.value.message


def test_a_replica_that_a_sentinel_still_names_is_never_written_to(valkeys: Watched) -> None:
    replica = valkeys.other()

    async def scenario() -> None:
        listening = await asyncio.start_server(_stale_sentinel(replica.port), HOST, 0)
        port = listening.sockets[0].getsockname()[1]
        async with listening:
            with pytest.raises(NotSent, match=f"{HOST}:{replica.port} is a replica"):
                await role(url_of(valkeys, port))
            with pytest.raises(StoreUnavailable, match="is a replica"):
                await RedisStore.open(url_of(valkeys, port))
            # Asked together with those who know better, it is outvoted by its age.
            assert await role(url_of(valkeys, port, *(each.port for each in valkeys.sentinels))) == b"master"

    replica.ask("CONFIG", "SET", "replica-read-only", "no")
    try:
        asyncio.run(scenario())
    finally:
        replica.ask("CONFIG", "SET", "replica-read-only", "yes")


def _stale_sentinel(port: int) -> "asyncio.streams._ClientConnectedCallback":
    facts = ["ip", HOST, "port", str(port), "config-epoch", "-1"]
    told = f"*{len(facts)}\r\n" + "".join(f"${len(fact)}\r\n{fact}\r\n" for fact in facts)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while request := await reader.read(1_024):
                writer.write(told.encode() if b"SENTINEL" in request else b"+OK\r\n")

    return answer


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    """For loopback."""
    return issue(tmp_path / "papers", HOST)


@pytest.fixture
def encrypted(servers: Servers, tmp_path: Path, papers: Papers) -> Iterator[str]:
    """A Redis and a sentinel that speak nothing but TLS, each with a login of its own; their URL."""
    binary = str(servers.binary("redis-path"))
    data, sentinel = free_ports()
    files = [
        f"tls-cert-file {papers.server}",
        f"tls-key-file {papers.server}",
        f"tls-ca-cert-file {papers.ca}",
        "tls-auth-clients no",
        "tls-replication yes",
        "port 0",
        f"bind {HOST}",
    ]
    users = "user default off", "user app on >app+secret ~* &* +@all", "user watcher on >watcher-secret ~* &* +@all"
    watching = [
        f"sentinel monitor {MASTER} {HOST} {data} 1",
        f"sentinel auth-user {MASTER} watcher",
        f"sentinel auth-pass {MASTER} watcher-secret",
        "user default off",
        "user asker on >asker-secret -@all &+switch-master +sentinel|master +subscribe",
    ]
    with contextlib.ExitStack() as running:
        for name, lines in (
            ("data", [*files, *users, f"tls-port {data}", 'save ""']),
            ("sentinel", [*files, *watching, f"tls-port {sentinel}"]),
        ):
            folder = tmp_path / name
            folder.mkdir()
            (folder / "conf").write_text("\n".join([f"dir {folder}", *lines]) + "\n")
            spawn(running, folder, (binary, str(folder / "conf"), *(["--sentinel"] if name == "sentinel" else [])))
        login = "sentinel_username=asker&sentinel_password=asker-secret"
        yield f"rediss+sentinel://app:app%2Bsecret@{HOST}:{sentinel}/{MASTER}?ssl_ca_certs={papers.ca}&{login}"


def test_everything_works_over_tls_with_a_login_at_both(encrypted: str) -> None:
    ledger = Ledger()

    async def scenario() -> None:
        await reachable(encrypted)
        async with system(encrypted) as running, ledger.consumer(running.coordinator, encrypted) as app:
            producer = app.producer("orders", "billing")
            for n in range(20):
                assert await ledger.publish(producer, f"{n}")
            await until(lambda: ledger.handled == ledger.published)
        with pytest.raises(NotSent, match="AUTH") as refused:
            await role(encrypted.replace("sentinel_password=asker-secret", "sentinel_password=wrong-secret"))
        assert "secret" not in refused.value.message

    asyncio.run(scenario())


async def reachable(url: str) -> None:
    """The processes are up, and the sentinel has met the server."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(NotSent):
                assert await role(url) == b"master"
                return
            await asyncio.sleep(0.05)
