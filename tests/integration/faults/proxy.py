"""What stands between a process and what it talks to: it can refuse, fall silent, hang up, and be slow."""

import asyncio
import contextlib
import itertools
import re
import threading
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

HOST = "127.0.0.1"
CHUNK = 65_536
ACCEPTING = 4
"""Turns of the loop after which whoever was let in has a link that can be cut."""

ENDLESS = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
"""A piece of a body: an answer that ends with it goes on like this."""

_Result = TypeVar("_Result")


class Proxy:
    """Hands bytes to and fro over TCP, on a port that it keeps; one thread of its own."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._delay = 0.0
        self._nonsense: Iterator[bytes] | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._thread.start()
        self._open: asyncio.Event = self._call(self._make_gate())
        self._server: asyncio.Server | None = None
        self.port = 0
        self._call(self._listen())

    def refuse(self) -> None:
        """Hang up, and take no connection any more."""
        self._call(self._shut())

    def hush(self) -> None:
        """Take what is sent and new connections, and answer nothing; what was said is handed on after the cure."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def cut(self) -> None:
        """Hang up everywhere, once."""
        self._call(self._hang_up())

    def babble(self, answers: Sequence[bytes]) -> None:
        """Answer every request over HTTP with one of these, in turn."""
        self._nonsense = itertools.cycle(answers)
        self.cut()

    def slow(self, seconds: float) -> None:
        """Let each piece wait so long, either way."""
        self._delay = seconds

    def cure(self) -> None:
        """Do as if nothing had been."""
        self._delay = 0.0
        if self._nonsense is not None:
            self._nonsense = None
            self.cut()
        self._loop.call_soon_threadsafe(self._open.set)
        self._call(self._listen())

    def close(self) -> None:
        """End everything."""
        self._call(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _make_gate(self) -> asyncio.Event:
        gate = asyncio.Event()
        gate.set()
        return gate

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, HOST, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for _ in range(ACCEPTING):
            await self._hang_up()
            await asyncio.sleep(0)

    async def _hang_up(self) -> None:
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None, "a server makes a task for each link"
        self._links.add(link)
        try:
            await self._open.wait()
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await (self._join(reader, writer) if self._nonsense is None else self._rave(reader, writer))
        except asyncio.CancelledError:
            # The server's own callback would complain about it.
            pass
        finally:
            self._links.discard(link)
            writer.transport.abort()

    async def _rave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self._nonsense is not None:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            await reader.readexactly(int(length[1]) if length else 0)
            answer = next(self._nonsense)
            writer.write(answer)
            await writer.drain()
            while answer.endswith(ENDLESS):
                writer.write(ENDLESS)
                await writer.drain()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(HOST, self._target)
        ways = [asyncio.ensure_future(self._pump(*way)) for way in ((reader, far_writer), (far_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            far_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(CHUNK):
            await self._open.wait()
            if self._delay:
                await asyncio.sleep(self._delay)
            writer.write(piece)
            await writer.drain()
