"""Fixtures that every integration test may use."""

from collections.abc import Iterator

import pytest

from tests.servers import Servers


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The session's real servers."""
    started = Servers()
    yield started
    started.stop()


@pytest.fixture
def redis_url(servers: Servers) -> str:
    """An empty Valkey."""
    return servers.url("valkey")
