"""The store in Redis keeps the promises of the port on every server there is, and on a cluster."""

import pytest

from streamshard.adapters.stores.redis import RedisStore
from streamshard.core.ports import MetadataStore
from streamshard.testing.conformance import MetadataStoreContract
from streamshard.testing.conformance_glances import GlancingContract
from streamshard.testing.samples import Connect
from tests.integration.cluster import Cluster
from tests.servers import FLAVOURS, Servers


def connect_to(url: str) -> Connect:
    async def another() -> MetadataStore:
        return await RedisStore.open(url)

    return another


class TestRedisStore(MetadataStoreContract, GlancingContract):
    """On one server; each connection is a store of its own."""

    @pytest.fixture(params=FLAVOURS)
    def connect(self, request: pytest.FixtureRequest, servers: Servers) -> Connect:
        return connect_to(servers.url(request.param))


class TestRedisClusterStore(MetadataStoreContract, GlancingContract):
    """On three masters with their replicas."""

    @pytest.fixture
    def connect(self, cluster: Cluster) -> Connect:
        return connect_to(cluster.url)
