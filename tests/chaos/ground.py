"""What the processes of a run stand on: servers of shards and of metadata."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.core.slots import hash_slot
from tests.integration.cluster import Cluster, ask
from tests.integration.faults.proxy import HOST, Proxy
from tests.servers import Servers

OPTIONS = ("--appendonly", "yes", "--appendfsync", "everysec", "--enable-debug-command", "yes")


class Ground(Protocol):
    """Servers, and how a process reaches them."""

    setting: str

    def links(self, kind: str) -> tuple[Proxy, ...]:
        """New ways to the servers, for a process of its own: to the shards, then to the metadata."""
        ...

    def redis_url(self, links: tuple[Proxy, ...]) -> str:
        """Where a process with these ways finds the shards."""
        ...

    def store_url(self, links: tuple[Proxy, ...]) -> str:
        """Where a coordinator with these ways finds the metadata."""
        ...

    def ask(self, key: str, *words: str | int) -> Any:
        """Ask the server that has ``key``, directly."""
        ...


class Single:
    """One server for the shards; metadata in a file, or on a second server."""

    def __init__(self, setting: str, folder: Path, shards: EmbeddedServer, metadata: EmbeddedServer | None) -> None:
        self.setting, self.shards, self.metadata = setting, shards, metadata
        self.file = folder / "metadata.db"

    def links(self, kind: str) -> tuple[Proxy, ...]:
        """To the shards, and for a coordinator to the metadata."""
        servers = [self.shards]
        if self.metadata is not None and kind == "coordinator":
            servers.append(self.metadata)
        return tuple(Proxy(server.port) for server in servers)

    def redis_url(self, links: tuple[Proxy, ...]) -> str:
        """Behind the first of them."""
        return f"redis://{HOST}:{links[0].port}/0"

    def store_url(self, links: tuple[Proxy, ...]) -> str:
        """Behind the second of them, or the file."""
        return f"sqlite:///{self.file}" if self.metadata is None else f"redis://{HOST}:{links[1].port}/0"

    def ask(self, key: str, *words: str | int) -> Any:
        """The server of the shards."""
        return ask(self.shards.port, *words)

    def copy_file(self, target: Path) -> None:
        """A whole copy of the metadata as they are."""
        with contextlib.closing(sqlite3.connect(self.file)) as old, contextlib.closing(sqlite3.connect(target)) as new:
            old.backup(new)

    def put_file(self, source: Path) -> None:
        """As an operator does it who does not know better: under the running coordinators."""
        for leftover in (f"{self.file}-wal", f"{self.file}-shm"):
            Path(leftover).unlink(missing_ok=True)
        source.replace(self.file)


class Clustered:
    """A cluster for shards and metadata; processes talk to its nodes directly, by the addresses that it names."""

    setting = "cluster"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def links(self, kind: str) -> tuple[Proxy, ...]:
        """None: who follows the cluster's own addresses would go around them."""
        return ()

    def redis_url(self, links: tuple[Proxy, ...]) -> str:
        """Every node, so that any may be gone."""
        return "redis+cluster://" + ",".join(f"{HOST}:{node.port}" for node in self.cluster.nodes)

    store_url = redis_url

    def ask(self, key: str, *words: str | int) -> Any:
        """The master that has the key now."""
        return ask(self.cluster.master_of(hash_slot(key)).port, *words)


@contextlib.contextmanager
def ground(setting: str, folder: Path) -> Iterator[Single | Clustered]:
    """The servers of a setting, ended with it."""
    binary = Servers().binary("valkey")
    with contextlib.ExitStack() as stack:
        if setting == "cluster":
            cluster = stack.enter_context(Cluster(binary, replicas=1))
            for node in cluster.nodes:
                ask(node.port, "CONFIG", "SET", "cluster-require-full-coverage", "no")
            yield Clustered(cluster)
            return
        shards = stack.enter_context(EmbeddedServer(binary, OPTIONS))
        metadata = stack.enter_context(EmbeddedServer(binary, OPTIONS)) if setting == "redis" else None
        yield Single(setting, folder, shards, metadata)
