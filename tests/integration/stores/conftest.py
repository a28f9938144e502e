"""Where the stores keep their records: a file, servers of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.stores.redis_rig import Server, server
from tests.servers import FLAVOURS, Servers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A SQLite database that is not there yet."""
    return tmp_path / "meta.db"


@pytest.fixture(params=FLAVOURS)
def redis(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Server]:
    """A server of its own for the test, of each flavour in turn."""
    with server(servers.binary(request.param)) as started:
        yield started


@pytest.fixture
def valkey(servers: Servers) -> Iterator[Server]:
    """A Valkey of its own for the test."""
    with server(servers.binary("valkey")) as started:
        yield started
