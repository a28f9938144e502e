"""A Redis server whose set-up, crashes and answers a test decides, and what the tests say to it."""

import asyncio
import contextlib
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from streamshard.adapters.stores.redis import RedisStore
from streamshard.adapters.streams.embedded import HOST, die_with_parent
from streamshard.core.ids import Millis
from streamshard.core.ports import GroupChange, RowWrite, StoreSource, Transaction
from streamshard.testing.samples import BILLING, FIRST, KEY, ORDERS, SECOND, a_group, a_row
from tests.integration.cluster import ask, free_ports, until

TIMEOUT = Millis(2_000)
RECORD = "streamshard:{p:orders}:group:billing"
ROWS = "streamshard:{p:orders}:rows:billing"


class Server:
    """One server process; `restart` keeps its port and its folder."""

    def __init__(self, binary: Path, folder: Path, *options: str) -> None:
        self._command = [str(binary), "--bind", HOST, "--dir", str(folder), "--save", "", *options]
        self._log = folder / "log"
        self.port = free_ports()[0]
        self.process = self._spawn()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"redis://{HOST}:{self.port}"

    def ask(self, *words: str | int) -> Any:
        """Send one command over a connection of its own."""
        return ask(self.port, *words)

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def restart(self, answering: bytes = b"PONG") -> None:
        """Kill it, start it again, and wait for this answer to a PING."""
        self.kill()
        self.process = self._spawn(answering)

    def calls(self) -> dict[str, int]:
        """How often each command was called by clients or scripts since the last ``CONFIG RESETSTAT``."""
        lines = self.ask("INFO", "commandstats").decode().splitlines()
        pairs = (line.split(":calls=") for line in lines if ":calls=" in line)
        return {name.removeprefix("cmdstat_"): int(rest.split(",")[0]) for name, rest in pairs}

    def _spawn(self, answering: bytes = b"PONG") -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [*self._command, "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        until("the server answers", lambda: _answers(self.port, answering))
        return process


def _answers(port: int, expected: bytes) -> bool:
    try:
        return expected.decode() in str(ask(port, "PING"))
    except OSError:
        return False


@contextlib.contextmanager
def server(binary: Path, *options: str) -> Iterator[Server]:
    """A server of one's own, ended at the end."""
    with tempfile.TemporaryDirectory(prefix="streamshard-store-") as folder:
        started = Server(binary, Path(folder), *options)
        try:
            yield started
        finally:
            started.kill()


@contextlib.asynccontextmanager
async def store_at(url: str, timeout: Millis = TIMEOUT) -> AsyncIterator[RedisStore]:
    """An open store, closed at the end."""
    store = await RedisStore.open(url, timeout)
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def silent_proxy(port: int) -> AsyncIterator["Proxy"]:
    """A way to a server that can lose answers."""
    proxy = Proxy(port)
    listening = await asyncio.start_server(proxy.carry, HOST, 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        proxy.cut()
        await asyncio.gather(*proxy.tasks, return_exceptions=True)


class Proxy:
    """Carries bytes both ways until told to lose answers, or to cut every connection."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.deaf = False
        self.asked = asyncio.Event()
        self.clients = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self._target = target
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"redis://{HOST}:{self.port}"

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        self.clients += 1
        there, back = await asyncio.open_connection(HOST, self._target)
        self._writers += [writer, back]
        for task in (self._pump(reader, back, answers=False), self._pump(there, writer, answers=True)):
            self.tasks.add(asyncio.create_task(task))

    def cut(self) -> None:
        """Close every connection."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                if self.deaf and answers:
                    self.asked.set()
                    continue
                sink.write(data)
                await sink.drain()
        sink.close()


async def write_over(store: RedisStore, source: StoreSource) -> None:
    """A commit that was decided on what ``source`` said: record and row."""
    raised = GroupChange(KEY, FIRST, a_group(SECOND))
    await store.commit(Transaction(ORDERS, source, groups=(raised,), row=RowWrite(BILLING, a_row(2))))
