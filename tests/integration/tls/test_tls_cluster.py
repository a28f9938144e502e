"""Shards on the nodes of a cluster that are spoken to over TLS."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamshard.adapters.streams.cluster_log import ClusterShardLog
from streamshard.adapters.streams.embedded import HOST
from streamshard.adapters.streams.opening import shard_log, stream_backend
from streamshard.core.ids import Millis, RecordId
from streamshard.core.records import Access, Append
from tests.integration.cluster import Cluster, free_ports
from tests.integration.streams.rigs import BILLING, access, provision
from tests.integration.tls.authorities import Papers, issue
from tests.servers import Servers

SHARDS = 6


class TlsCluster(Cluster):
    """Each node speaks TLS on a port of its own; what they tell a client depends on how it asks."""

    def __init__(self, binary: Path, papers: Papers) -> None:
        super().__init__(binary)
        self._papers = papers
        self.ports: list[int] = []

    def more_options(self) -> dict[str, Any]:
        """A port and the certificate."""
        self.ports.append(free_ports()[0])
        return {
            "tls-port": self.ports[-1],
            "tls-cert-file": self._papers.server,
            "tls-key-file": self._papers.server,
            "tls-ca-cert-file": self._papers.ca,
            "tls-client-cert-file": self._papers.client,
            "tls-client-key-file": self._papers.client,
            "tls-auth-clients": "no",
            "tls-cluster": "yes",
        }

    @property
    def secure_url(self) -> str:
        """Of its last node, with the authority to trust."""
        return f"rediss+cluster://{HOST}:{self.ports[-1]}?ssl_ca_certs={self._papers.ca}"


@pytest.fixture
def secure(servers: Servers, tmp_path: Path) -> Iterator[TlsCluster]:
    """Three masters."""
    with TlsCluster(servers.binary("redis-path"), issue(tmp_path / "papers", HOST)) as cluster:
        yield cluster


def test_every_node_is_read_written_and_waited_for_over_tls(secure: TlsCluster) -> None:
    keys = [f"orders:{shard}" for shard in range(SHARDS)]

    async def scenario() -> None:
        backend, log = stream_backend(secure.secure_url), shard_log(secure.secure_url)
        assert isinstance(log, ClusterShardLog)
        try:
            await backend.provision([provision((BILLING, "0"), shard=shard) for shard in range(SHARDS)])
            waits = [asyncio.create_task(log.wait({key: RecordId("0-0")}, Millis(60_000))) for key in keys]
            await asyncio.sleep(0.2)
            written = await log.append_many([Append(key, {b"n": b"1"}) for key in keys])
            await asyncio.gather(*waits)
            replies = await log.read([(access(5, shard=shard), 1) for shard in range(SHARDS)])

            assert [reply.access for reply in replies] == [Access.OK] * SHARDS
            assert [reply.records[0].id for reply in replies] == written
            assert {log.server_of(key) for key in keys} == {f"{HOST}:{port}" for port in secure.ports}
        finally:
            await log.close()
            await backend.close()

    asyncio.run(scenario())
