"""Fixtures that every integration test may use."""

from collections.abc import Iterator

import pytest

from tests.integration.cluster import Cluster
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


@pytest.fixture(scope="session")
def running_cluster(servers: Servers) -> Iterator[Cluster]:
    """Three masters with a replica each; for tests that leave it as it is."""
    with Cluster(servers.binary("valkey"), replicas=1) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster: Cluster) -> Cluster:
    """The session's cluster, emptied."""
    running_cluster.empty()
    return running_cluster
