"""TLS to Redis: trusted as the URL says, checked unless it says otherwise, and refused with a reason."""

import asyncio
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamshard.adapters.stores.redis import RedisStore
from streamshard.adapters.streams.connections import AnswerLost, Connections, NotSent, value
from streamshard.core.ids import Millis
from streamshard.errors import StoreUnavailable
from tests.integration.links import Ledger, system, until
from tests.integration.tls.authorities import Papers, context_of, issue, native, terminator
from tests.servers import Servers

TIMEOUT = Millis(1_500)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """Of the authority that the servers here have their certificates from."""
    return issue(tmp_path_factory.mktemp("papers") / "good", "localhost", "127.0.0.1")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """Of another authority, for another host."""
    return issue(tmp_path_factory.mktemp("papers") / "others", "elsewhere.example")


@pytest.fixture(scope="module")
def valkey_port(servers: Servers) -> int:
    """A server without TLS."""
    return int(servers.url("valkey").rpartition(":")[2].partition("/")[0])


@pytest.fixture(scope="module", params=["redis-path", "proxy"])
def port(request: pytest.FixtureRequest, servers: Servers, papers: Papers, valkey_port: int) -> Iterator[int]:
    """Where TLS is spoken, by Redis itself and by a proxy."""
    if request.param == "proxy":
        with terminator(context_of(papers), valkey_port) as port:
            yield port
    else:
        with native(servers.binary("redis-path"), papers) as port:
            yield port


@pytest.fixture(scope="module")
def strict_port(papers: Papers, valkey_port: int) -> Iterator[int]:
    """Where clients have to show a certificate."""
    context = context_of(papers)
    context.load_verify_locations(papers.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    with terminator(context, valkey_port) as port:
        yield port


async def ping(url: str) -> object:
    return await command(url, "PING")


async def command(url: str, *words: str) -> object:
    connections = Connections(url, limit=1, timeout=TIMEOUT)
    try:
        return value((await connections.exchange([words]))[0])
    finally:
        await connections.close()


async def store(url: str) -> None:
    await (await RedisStore.open(url, TIMEOUT)).close()


def refusals(url: str) -> list[str]:
    """What both sides say to a URL that does not get in."""
    with pytest.raises((NotSent, AnswerLost)) as by_shards:
        asyncio.run(ping(url))
    with pytest.raises(StoreUnavailable) as by_store:
        asyncio.run(store(url))
    return [by_shards.value.message, by_store.value.message]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_everything_works_over_tls(port: int, papers: Papers, host: str) -> None:
    url = f"rediss://{host}:{port}?ssl_ca_certs={papers.ca}"
    asyncio.run(command(url, "FLUSHALL"))
    ledger = Ledger()

    async def scenario() -> None:
        async with system(url) as running, ledger.consumer(running.coordinator, url) as app:
            producer = app.producer("orders", "billing")
            for n in range(20):
                assert await ledger.publish(producer, f"{n}")
            await until(lambda: ledger.handled == ledger.published)

    asyncio.run(scenario())


@pytest.mark.parametrize("trusting", ["", "?ssl_ca_certs={others}"], ids=["the system's", "another's"])
def test_a_certificate_of_an_authority_that_is_not_trusted_is_refused(port: int, others: Papers, trusting: str) -> None:
    told = refusals(f"rediss://:secret@localhost:{port}{trusting.format(others=others.ca)}")

    assert all("certificate" in message and "ssl_ca_certs" in message for message in told)
    assert not any("secret" in message for message in told)


def test_a_certificate_for_another_host_is_refused_unless_that_is_not_checked(
    others: Papers, valkey_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with terminator(context_of(others), valkey_port) as port:
        url = f"rediss://localhost:{port}?ssl_ca_certs={others.ca}"

        told = refusals(url)
        answer = asyncio.run(ping(f"{url}&ssl_check_hostname=false"))

    assert all("localhost" in message for message in told)
    assert answer == b"PONG"
    assert [record.message for record in caplog.records if "TLS" in record.message] == [
        f"TLS to Redis at localhost:{port} does not check whom the certificate is for (ssl_check_hostname=false)"
    ]


def test_no_certificate_is_checked_only_where_that_is_written_and_it_is_said_once(
    others: Papers, valkey_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with terminator(context_of(others), valkey_port) as port:
        url = f"rediss://localhost:{port}?ssl_cert_reqs=none"

        answers = [asyncio.run(ping(url)) for _ in range(3)]

    assert answers == [b"PONG"] * 3
    (said,) = [record for record in caplog.records if "TLS" in record.message]
    assert said.levelno == logging.WARNING
    assert "ssl_cert_reqs=none" in said.message


def test_a_client_shows_its_certificate_where_one_is_asked_for(strict_port: int, papers: Papers) -> None:
    url = f"rediss://localhost:{strict_port}?ssl_ca_certs={papers.ca}"

    assert len(refusals(url)) == 2
    answer = asyncio.run(ping(f"{url}&ssl_certfile={papers.client}"))

    assert answer == b"PONG"


@pytest.mark.parametrize(
    ("highest", "least", "answered"),
    [
        (ssl.TLSVersion.TLSv1_1, "TLSv1.2", 0),
        (ssl.TLSVersion.TLSv1_2, "TLSv1.2", 1),
        (ssl.TLSVersion.TLSv1_2, "TLSv1.3", 0),
        (ssl.TLSVersion.TLSv1_3, "TLSv1.3", 1),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_old_versions_of_tls_are_refused(
    papers: Papers, valkey_port: int, highest: ssl.TLSVersion, least: str, answered: int
) -> None:
    context = context_of(papers)
    context.minimum_version = ssl.TLSVersion.TLSv1_1
    context.maximum_version = highest
    with terminator(context, valkey_port) as port:
        url = f"rediss://localhost:{port}?ssl_ca_certs={papers.ca}&ssl_min_version={least}"

        if answered:
            assert asyncio.run(ping(url)) == b"PONG"
        else:
            assert len(refusals(url)) == 2


def test_tls_to_a_server_that_speaks_none_is_told(valkey_port: int) -> None:
    told = refusals(f"rediss://127.0.0.1:{valkey_port}?ssl_cert_reqs=none")

    assert all("does it speak TLS" in message for message in told)


def test_a_server_that_speaks_nothing_but_tls_does_not_hold_anybody_up(port: int) -> None:
    assert len(refusals(f"redis://127.0.0.1:{port}")) == 2


def test_certificates_that_were_renewed_are_used_for_the_next_connection(
    tmp_path: Path, papers: Papers, others: Papers, port: int
) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(others.ca.read_bytes())
    connections = Connections(f"rediss://localhost:{port}?ssl_ca_certs={trusted}", limit=1, timeout=TIMEOUT)

    async def scenario() -> list[object]:
        try:
            with pytest.raises(NotSent, match="certificate"):
                await connections.exchange([("PING",)])
            trusted.write_bytes(papers.ca.read_bytes())
            return await connections.exchange([("PING",)])
        finally:
            await connections.close()

    assert asyncio.run(scenario()) == [b"PONG"]
