"""The store in Redis keeps its promises with the coordinator's account, and is refused nothing."""

from collections.abc import Iterator

import pytest

from streamshard.adapters.redis_acl import Role
from streamshard.testing.conformance import MetadataStoreContract
from streamshard.testing.conformance_glances import GlancingContract
from streamshard.testing.samples import Connect
from tests.integration.accounts.accounts import Accounts
from tests.integration.stores.test_redis_contract import connect_to


class TestRedisStoreUnderAnAccount(MetadataStoreContract, GlancingContract):
    """On one server of every kind."""

    @pytest.fixture
    def connect(self, accounts: Accounts) -> Iterator[Connect]:
        yield connect_to(accounts.url(Role.COORDINATOR))
        assert accounts.refused() == []
