"""Servers whose accounts may do what their role has to, and no more."""

from collections.abc import Iterator

import pytest

from streamshard.adapters.streams.embedded import EmbeddedServer
from tests.integration.accounts.accounts import Accounts, GuardedRig
from tests.integration.cluster import ask
from tests.integration.streams.rigs import MakeRig
from tests.servers import FLAVOURS, Servers


@pytest.fixture(scope="session", params=FLAVOURS)
def guarded_server(request: pytest.FixtureRequest, servers: Servers) -> Iterator[EmbeddedServer]:
    """A server of every kind, apart from the other tests': its accounts stay."""
    with EmbeddedServer(servers.binary(request.param)) as server:
        yield server


@pytest.fixture
def accounts(guarded_server: EmbeddedServer) -> Accounts:
    """An empty server with an account for each role."""
    ask(guarded_server.port, "FLUSHALL")
    return Accounts(guarded_server.url)


@pytest.fixture
def make_rig(guarded_server: EmbeddedServer, accounts: Accounts) -> Iterator[MakeRig]:
    """Rigs whose sides log in with accounts of their own, of which none was refused anything at the end."""
    yield lambda: GuardedRig(guarded_server.url, accounts)
    assert accounts.refused() == []
