"""Certificates, and servers that show them: a Redis that speaks TLS itself, and a proxy before one that does not."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import trustme

from streamshard.adapters.streams.embedded import HOST
from tests.integration.cluster import free_ports
from tests.integration.stores.redis_rig import server


@attrs.frozen
class Papers:
    """Files of one authority: itself, a server's certificate, and a client's."""

    ca: Path
    server: Path
    client: Path


def issue(folder: Path, *hosts: str) -> Papers:
    """A new authority, and what it signed for a server under these names."""
    folder.mkdir()
    authority = trustme.CA()
    papers = Papers(folder / "ca.pem", folder / "server.pem", folder / "client.pem")
    authority.cert_pem.write_to_path(papers.ca)
    authority.issue_cert(*hosts).private_key_and_cert_chain_pem.write_to_path(papers.server)
    authority.issue_cert("client@example.org").private_key_and_cert_chain_pem.write_to_path(papers.client)
    return papers


@contextlib.contextmanager
def native(binary: Path, papers: Papers) -> Iterator[int]:
    """A Redis that speaks TLS; its port."""
    files = ("--tls-cert-file", papers.server, "--tls-key-file", papers.server, "--tls-ca-cert-file", papers.ca)
    port = free_ports()[0]
    with server(binary, *map(str, files), "--tls-auth-clients", "optional", "--tls-port", str(port)):
        yield port


def context_of(papers: Papers) -> ssl.SSLContext:
    """What a server shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(papers.server)
    return context


@contextlib.contextmanager
def terminator(context: ssl.SSLContext, target: int) -> Iterator[int]:
    """A proxy that takes the TLS off; its port. On a loop of its own, so that a test's loop may come and go."""
    loop = asyncio.new_event_loop()
    proxy = _Terminator(context, target)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(5)
    finally:
        asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Terminator:
    def __init__(self, context: ssl.SSLContext, target: int) -> None:
        self._context = context
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        self._listening = await asyncio.start_server(self._carry, HOST, 0, ssl=self._context)
        return int(self._listening.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self._listening.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, self._target)
        for task in (self._pump(reader, back), self._pump(there, writer)):
            self._tasks.add(asyncio.create_task(task))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
        except (OSError, ssl.SSLError):
            return
        finally:
            sink.close()
