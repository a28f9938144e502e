"""What the benchmarks of heartbeats share: members over a few kept connections, and a server's processor time."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

CONNECTIONS = 32
"""At most; enough that the server always has something to do."""

VERSION = "1.0.0"
"""Of the members, as they tell it."""

Beating = Callable[["Member", bytes], None]


class Member:
    """What one member sends, again and again; with ``progress`` also how far it has got, another way each time."""

    def __init__(self, name: str, instance: str | None = None, *, progress: bool = False) -> None:
        self.name = name
        self._progress = progress
        self.path = f"/coord/v1/streams/orders/groups/billing/members/{name}/heartbeat"
        self.instance = instance or os.urandom(16).hex()
        self.seq = 0
        self.take({"memberEpoch": 0, "grants": [], "view": None, "metadataVersion": 0})

    def take(self, answer: dict[str, Any]) -> None:
        """Go on from an answer."""
        holds = [{"shardIndex": g["shardIndex"], "token": g["token"]} for g in answer["grants"]]
        body = {
            "protocolVersion": 1,
            "requestId": _REQUEST_ID,
            "memberId": self.name,
            "memberName": "billing",
            "memberEpoch": answer["memberEpoch"],
            "metadataVersion": answer["metadataVersion"],
            "runtimeConsumerCapacity": {"runtimeMaxConcurrency": 1, "availableConcurrency": 1},
            "ownedShards": [{"shardIndex": h["shardIndex"]} for h in holds],
            "revokingShards": [],
            "shardProgress": [_progress(h["shardIndex"]) for h in holds] if self._progress else [],
            "instanceId": self.instance,
            "seq": _SEQ,
            "holds": holds,
            "view": answer["view"],
            "advertisedUrl": None,
            "clientVersion": VERSION,
            "latenessMs": 0,
        }
        self._body = json.dumps(body)

    def request(self) -> bytes:
        """The next attempt: another id, another number, and another time in what is told of progress."""
        self.seq += 1
        told = self._body.replace(_REQUEST_ID, f"{self.instance}-{self.seq}").replace(f'"{_SEQ}"', str(self.seq))
        body = told.replace(_TIME, f"2026-01-01T00:00:{self.seq % 60:02}Z").encode()
        head = f"POST {self.path} HTTP/1.1\r\nhost: 127.0.0.1:8080\r\ncontent-length: {len(body)}\r\n\r\n"
        return head.encode() + body


_REQUEST_ID, _SEQ, _TIME = "the-id", "the-seq", "the-time"


def _progress(shard: int) -> dict[str, Any]:
    return {
        "shard": {"shardIndex": shard},
        "streamKey": f"orders:{shard}",
        "lastDeliveredId": "1767225600000-17",
        "lastAckedId": "1767225600000-16",
        "ackFloor": "1767225600000-16",
        "pendingCount": 1,
        "inFlight": 1,
        "readState": "READING",
        "updatedAt": _TIME,
    }


class _Line(asyncio.Protocol):
    """A kept connection; whoever of the crew waits longest beats next."""

    def __init__(self, crew: deque[Member], heard: Beating) -> None:
        self._crew, self._heard = crew, heard
        self._received = b""
        self._member: Member | None = None
        self.gone = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    def beat(self) -> None:
        if self._crew:
            self._member = self._crew.popleft()
            self._transport.write(self._member.request())

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, content = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(content) < length:
            return
        assert head.startswith(b"HTTP/1.1 200"), self._received
        self._received = b""
        assert self._member is not None
        self._heard(self._member, content)


async def beat_until(port: int, members: Sequence[Member], ends: float, connections: int) -> int:
    """Beat without a pause until that time; how many were answered."""
    done = itertools.count()
    crew, lines = deque(members), []
    loop = asyncio.get_running_loop()
    for _ in range(min(connections, len(members))):
        _, line = await loop.create_connection(lambda: _Line(crew, lambda *_: None), "127.0.0.1", port)
        lines.append(line)

    def going_on(line: _Line) -> Beating:
        def heard(member: Member, content: bytes) -> None:
            next(done)
            crew.append(member)
            if time.monotonic() < ends:
                line.beat()
            else:
                line._transport.close()

        return heard

    for line in lines:
        line._heard = going_on(line)
        line.beat()
    await asyncio.gather(_stay_awake(ends), *(line.gone for line in lines))
    return next(done)


async def _stay_awake(ends: float) -> None:
    """Never let this process sleep: the server would pay for waking it, as it does not for members elsewhere."""
    while time.monotonic() < ends:
        await asyncio.sleep(0)


async def settle(port: int, members: Sequence[Member], rounds: int = 6) -> None:
    """Join and take what is granted, one member after the other."""
    for _ in range(rounds):
        await one_round(port, members, lambda member, content: member.take(json.loads(content)))


async def one_round(port: int, members: Sequence[Member], heard: Beating) -> None:
    """Each beats once, in turn."""
    crew = deque(members)
    _, line = await asyncio.get_running_loop().create_connection(lambda: _Line(crew, heard), "127.0.0.1", port)

    def next_one(member: Member, content: bytes) -> None:
        heard(member, content)
        if crew:
            line.beat()
        else:
            line._transport.close()

    line._heard = next_one
    line.beat()
    await line.gone


@contextlib.contextmanager
def server(*arguments: str) -> Iterator[tuple[int, int]]:
    """A Python process that is given ``arguments`` and a port; yields the port and the process's id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, *arguments, "--port", str(port)], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def _wait_for(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.1)
    raise TimeoutError("the server does not come up")


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(
    port: int, pid: int, members: Sequence[Member], seconds: float, connections: int = CONNECTIONS
) -> tuple[float, float]:
    """Processor microseconds of the server per heartbeat, and heartbeats a second."""
    before, began = cpu_seconds(pid), time.monotonic()
    done = await beat_until(port, members, began + seconds, connections)
    return (cpu_seconds(pid) - before) / done * 1e6, done / (time.monotonic() - began)
