"""Where the stores keep their records: a file, Redis Clusters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cluster import Cluster
from tests.servers import Servers


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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A SQLite database that is not there yet."""
    return tmp_path / "meta.db"
