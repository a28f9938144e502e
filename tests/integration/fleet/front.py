"""What stands before a fleet of coordinators: a round robin over HTTP requests, as a load balancer does it."""

import asyncio
import contextlib
import itertools
import re
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

HOST = "127.0.0.1"
PATIENCE_S = 0.5
WATCHING_S = 35.0
SHUN_S = 1.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_UNAVAILABLE = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_Result = TypeVar("_Result")


class Front:
    """Sends each request to the next port; one that did not answer is left out for a second, then two, then four.

    A request that reached a coordinator is never sent twice: whoever sent it decides on that.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._turns = itertools.count()
        self._shunned: dict[int, float] = {}
        self._misses: dict[int, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="front")
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, HOST, 0))

    @property
    def url(self) -> str:
        """Of the front; the coordinators have their own."""
        port = self._server.sockets[0].getsockname()[1]
        return f"http://{HOST}:{port}"

    def close(self) -> None:
        """Break everything off and end the thread."""
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _end(self) -> None:
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await message(reader):
                writer.write(await self._answer(request))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, request: bytes) -> bytes:
        for port in self._order():
            try:
                reader, writer = await asyncio.wait_for(asyncio.open_connection(HOST, port), PATIENCE_S)
            except (OSError, TimeoutError):
                self._shun(port)
                continue
            try:
                answer = await self._ask(reader, writer, request)
                self._misses.pop(port, None)
                return answer
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                self._shun(port)
                return _UNAVAILABLE
        return _UNAVAILABLE

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
        watching = b"/watch?" in request.partition(b"\r\n")[0]
        try:
            writer.write(request)
            await writer.drain()
            answer = await asyncio.wait_for(message(reader), WATCHING_S if watching else PATIENCE_S)
        finally:
            writer.close()
        return answer or _UNAVAILABLE

    def _order(self) -> list[int]:
        first, now = next(self._turns) % len(self._ports), self._loop.time()
        turned = self._ports[first:] + self._ports[:first]
        return sorted(turned, key=lambda port: self._shunned.get(port, 0.0) > now)

    def _shun(self, port: int) -> None:
        misses = self._misses[port] = self._misses.get(port, 0) + 1
        self._shunned[port] = self._loop.time() + SHUN_S * 2 ** (misses - 1)


async def message(reader: asyncio.StreamReader) -> bytes:
    """A whole request or answer; nothing at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as cut:
        if cut.partial:
            raise
        return b""
    found = _LENGTH.search(head)
    return head + (await reader.readexactly(int(found[1])) if found else b"")
