"""One rig per adapter and server flavour."""

from collections.abc import Iterator

import pytest

from streamshard.adapters.streams.embedded import EmbeddedServer
from tests.integration.cluster import Cluster
from tests.integration.streams.cluster_rig import ClusterRig
from tests.integration.streams.rigs import MakeRig, MemoryRig, RedisRig
from tests.servers import FLAVOURS, Servers


@pytest.fixture(params=["memory", *FLAVOURS, "cluster"])
def make_rig(request: pytest.FixtureRequest, servers: Servers) -> MakeRig:
    """Makes rigs of every kind, over an empty world."""
    if request.param == "memory":
        return MemoryRig
    if request.param == "cluster":
        cluster: Cluster = request.getfixturevalue("cluster")
        return lambda: ClusterRig(cluster.url)
    url = servers.url(request.param)
    return lambda: RedisRig(url)


@pytest.fixture(params=FLAVOURS)
def server_url(request: pytest.FixtureRequest, servers: Servers) -> str:
    """An empty server of every kind."""
    return servers.url(request.param)


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server that the test may kill."""
    with EmbeddedServer() as server:
        yield server
