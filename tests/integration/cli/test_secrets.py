"""Whatever is wrong with a URL or behind it: nobody prints the password."""

import asyncio
import logging
import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from streamshard import StreamApp
from streamshard.adapters.client.scripted import ScriptedCoordinator
from streamshard.adapters.redis_link import connection_to
from streamshard.adapters.redis_url import parse
from streamshard.core.ids import Millis
from streamshard.entrypoints.settings import serve_settings
from streamshard.errors import ConfigurationError, StreamshardError
from tests.integration.cli.processes import COMMAND, clean_environment
from tests.integration.client.script import Granting, routing
from tests.integration.cluster import free_ports

SECRET = "pa55-w0rd"
WRONG = (
    "redis://user:{secret}@127.0.0.1:{port}",
    "redis://user:{secret}@127.0.0.1:{closed}",
    "redis://user:{secret}@no-such-host.invalid:{port}",
    "rediss://user:{secret}@127.0.0.1:{closed}?ssl_ca_certs={ca}",
    "redis+sentinel://user:{secret}@127.0.0.1:{closed}/main?sentinel_password={secret}",
    "redis+sentinel://user:{secret}@127.0.0.1:{port}/main?sentinel_password={secret}",
    "redis+cluster://user:{secret}@127.0.0.1:{port},127.0.0.1:{closed}",
    "unix://user:{secret}@/no/such/socket",
)
MALFORMED = (
    "redis://user:{secret}@127.0.0.1:port",
    "redis://user:x/{secret}@127.0.0.1",
    "redis://user:x?{secret}@127.0.0.1",
    "redis://user:x#{secret}@127.0.0.1",
    "redis://user:%{secret}@127.0.0.1",
    "redis://127.0.0.1?pasword={secret}",
    "redis://127.0.0.1?password=x&{secret}",
    "redis://127.0.0.1?password=x&{secret}=y",
    "redis://127.0.0.1/{secret}",
    "redis:{secret}@127.0.0.1",
    "rediss://user:{secret}@127.0.0.1?ssl_ca_certs=/no/such/{secret}",
    "{secret}",
)


@pytest.fixture(params=WRONG)
def url(request: pytest.FixtureRequest, redis_url: str) -> str:
    """A URL that leads nowhere, with the secret in it."""
    ca = next(Path("/etc/ssl").rglob("*.crt"), None) or pytest.fail("the system has no certificates")
    closed, port = free_ports()[0], urlsplit(redis_url).port
    return str(request.param).format(secret=SECRET, port=port, closed=closed, ca=ca)


def test_a_coordinator_that_can_t_start_says_why_and_no_password(url: str, tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(url)
    environment = clean_environment(STREAMSHARD_STORE_FILE=str(file))

    ended = subprocess.run(
        [*COMMAND, "serve", "--port", "0"], env=environment, capture_output=True, text=True, timeout=30, cwd=tmp_path
    )

    assert ended.returncode != 0
    assert re.search("store|STORE", ended.stderr)
    assert SECRET not in ended.stderr + ended.stdout


def test_a_command_that_can_t_reach_redis_says_why_and_no_password(url: str) -> None:
    ended = subprocess.run(
        [*COMMAND, "dlq", "list", "orders", "--redis", url], capture_output=True, text=True, timeout=30
    )

    assert ended.returncode != 0
    assert ended.stderr
    assert SECRET not in ended.stderr + ended.stdout


@pytest.mark.parametrize("url", [text.format(secret=SECRET) for text in MALFORMED])
def test_a_url_that_can_t_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as as_shards:
        StreamApp(ScriptedCoordinator([], []), url)
    with pytest.raises(ConfigurationError) as as_settings:
        serve_settings({"store": url, "redis": url}, {})

    assert as_shards.value.message.startswith("redis can't be used: ")
    assert re.match("--store: .*; --redis: ", as_settings.value.message)
    assert SECRET not in as_shards.value.message + as_settings.value.message + repr(as_shards.value.__cause__)


def test_an_application_logs_and_raises_no_password(url: str, caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []

    async def scenario() -> None:
        api = ScriptedCoordinator([Granting([0])], [routing(1)])
        try:
            app = StreamApp(api, url, start_timeout=0.5, drain_timeout=1.0)
            producer = app.producer("orders", "billing")

            @app.listener("orders", group="billing", max_deliveries=3)
            async def handle(message: object) -> None:
                raise AssertionError("there is nothing to handle")

            async with app:
                await producer.publish("key", {"a": 1})
        except StreamshardError as error:
            said.extend((str(error), repr(error), repr(error.__cause__), repr(error.__context__)))

    with caplog.at_level(logging.DEBUG):
        asyncio.run(scenario())

    assert said
    assert SECRET not in "".join(said) + caplog.text


@pytest.mark.parametrize(
    "url",
    [
        f"redis://user:{SECRET}@host",
        f"redis+sentinel://user:{SECRET}@host/main?sentinel_password={SECRET}",
        f"rediss://host?password={SECRET}",
    ],
)
def test_what_a_url_is_read_as_shows_no_password(url: str) -> None:
    place = parse(url)

    shown = f"{place} {place!r} {place.name} {connection_to(place.at(place.seeds[0]), Millis(1_000))!r}"

    assert SECRET not in shown


@pytest.mark.parametrize("command", [("serve",), ("dlq", "list"), ("repair", "index"), ("acl-rules",)])
def test_help_shows_no_password_from_the_environment(command: tuple[str, ...]) -> None:
    url = f"redis://user:{SECRET}@host"

    ended = subprocess.run(
        [*COMMAND, *command, "--help"],
        env=clean_environment(STREAMSHARD_REDIS=url, STREAMSHARD_STORE=url),
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert ended.returncode == 0
    assert SECRET not in ended.stdout + ended.stderr
