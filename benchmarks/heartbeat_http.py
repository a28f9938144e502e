"""Unchanged heartbeats over HTTP, against a bare ASGI function that only decodes and encodes such bodies.

    python benchmarks/heartbeat_http.py [--members 64] [--seconds 5]

Both are served by uvicorn in a process of its own, and are asked in turn over the same kept connections.
What is compared is the server's processor time per request, as the operating system counts it: it hardly
depends on what else the machine is doing. The first line of JSON is the result.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

ROUNDS = 5
HEADERS = [(b"content-type", b"application/json")]


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    """Decode a heartbeat, encode an answer of the usual size: nothing else."""
    from streamshard.entrypoints.http.heartbeats import decode_heartbeat, encode_reply

    if scope["type"] != "http":
        return
    body = decode_heartbeat((await receive())["body"])
    content = encode_reply(_answer(body))
    headers = [*HEADERS, (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _answer(body: Any) -> Any:
    from streamshard.core import replies

    holds = body.holds or []
    return replies.HeartbeatReply(
        status=replies.Status.OK,
        member=body.member_id,
        epoch=body.member_epoch,
        seq=body.seq,
        heartbeat_ms=3000,  # type: ignore[arg-type]
        rebalance_timeout_ms=60000,  # type: ignore[arg-type]
        lease_ms=15000,  # type: ignore[arg-type]
        response_to=body.request_id,
        assigned=tuple(h.shard_index for h in holds),
        grants=tuple(replies.Grant(h.shard_index, h.token, 1) for h in holds),  # type: ignore[arg-type]
        extended=tuple(replies.Extension(h.shard_index, h.token) for h in holds),
        view="0" * 100,  # type: ignore[arg-type]
    )


@contextlib.asynccontextmanager
async def _coordinator(members: int, store: str) -> AsyncIterator[Any]:
    from streamshard.core.admin import Author, CreateGroup, GroupSpec
    from streamshard.core.ids import GroupKey, GroupName, StreamPrefix
    from streamshard.entrypoints.settings import serve_settings
    from streamshard.entrypoints.wiring import service

    settings = serve_settings({"store": store, "redis": "memory:", "port": "0"}, {})
    async with service(settings) as built:
        key = GroupKey(StreamPrefix("orders"), GroupName("billing"))
        spec = GroupSpec(key.group)
        await built.coordinator.create_group(CreateGroup(key, Author("benchmark"), spec, shard_count=2 * members))
        yield built.coordinator


def serve(kind: str, port: int, members: int, store: str) -> None:
    """Serve one of the two until SIGTERM."""
    asyncio.run(_serve(kind, port, members, store))


async def _serve(kind: str, port: int, members: int, store: str) -> None:
    import uvicorn

    from streamshard.entrypoints.http.app import create_app

    async with _coordinator(members, store) as coordinator:
        app = bare if kind == "bare" else create_app(coordinator)
        config = uvicorn.Config(app, port=port, log_level="error", access_log=False, lifespan="off")
        await uvicorn.Server(config).serve()


class Member:
    """A raw kept connection that beats as one member."""

    def __init__(self, name: str, port: int) -> None:
        self.name, self.port = name, port
        self.seq = 0
        self.instance = os.urandom(16).hex()
        self.answer: dict[str, Any] = {"memberEpoch": 0, "grants": [], "view": None, "metadataVersion": 0}

    async def connect(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    def _body(self) -> bytes:
        holds = [{"shardIndex": g["shardIndex"], "token": g["token"]} for g in self.answer["grants"]]
        body = {
            "protocolVersion": 1,
            "requestId": f"{self.name}-{self.seq}",
            "memberId": self.name,
            "memberName": "billing",
            "memberEpoch": self.answer["memberEpoch"],
            "metadataVersion": self.answer["metadataVersion"],
            "runtimeConsumerCapacity": {"runtimeMaxConcurrency": 1, "availableConcurrency": 1},
            "ownedShards": [{"shardIndex": h["shardIndex"]} for h in holds],
            "revokingShards": [],
            "shardProgress": [],
            "instanceId": self.instance,
            "seq": self.seq,
            "holds": holds,
            "view": self.answer["view"],
        }
        return json.dumps(body).encode()

    async def beat(self, *, keep: bool) -> None:
        """One heartbeat; with ``keep`` the answer is decoded and used by the next one."""
        self.seq += 1
        body = self._body()
        path = f"/coord/v1/streams/orders/groups/billing/members/{self.name}/heartbeat"
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        headers = await self.reader.readuntil(b"\r\n\r\n")
        length = int(headers.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        content = await self.reader.readexactly(length)
        if keep:
            self.answer = json.loads(content)


@contextlib.contextmanager
def _process(kind: str, members: int, store: str) -> Iterator[tuple[int, int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "--serve", kind, "--port", str(port), "--members", str(members)]
    process = subprocess.Popen([*command, "--store", store])
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
                break
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _settled(port: int, members: int) -> list[Member]:
    crew = [Member(f"m{i:04}", port) for i in range(members)]
    await asyncio.gather(*(m.connect() for m in crew))
    for _ in range(6):
        for member in crew:
            await member.beat(keep=True)
    return crew


async def _measure(crew: list[Member], pid: int, seconds: float) -> tuple[float, float]:
    """Processor microseconds per request, and requests a second."""
    before, began, ends = _cpu_seconds(pid), time.monotonic(), time.monotonic() + seconds
    counts = await asyncio.gather(*(_beats_until(member, ends) for member in crew))
    done = sum(counts)
    return (_cpu_seconds(pid) - before) / done * 1e6, done / (time.monotonic() - began)


async def _beats_until(member: Member, ends: float) -> int:
    done = 0
    while time.monotonic() < ends:
        await member.beat(keep=False)
        done += 1
    return done


async def _compare(members: int, seconds: float, store: str) -> dict[str, Any]:
    with _process("ours", members, store) as ours, _process("bare", members, store) as floor:
        crew, reference = await _settled(ours[0], members), await _settled(floor[0], members)
        for member, twin in zip(reference, crew, strict=True):
            member.answer = twin.answer
        rows = []
        for _ in range(ROUNDS):
            rows.append((*await _measure(crew, ours[1], seconds), *await _measure(reference, floor[1], seconds)))
    middle = sorted(rows, key=lambda r: r[2] / r[0])[len(rows) // 2]
    return {
        "store": store,
        "members": members,
        "ours_cpu_us": round(middle[0], 1),
        "bare_cpu_us": round(middle[2], 1),
        "ratio": round(middle[2] / middle[0], 2),
        "ours_per_s": round(middle[1]),
        "bare_per_s": round(middle[3]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--store", default="memory:")
    parser.add_argument("--serve", choices=("ours", "bare"))
    parser.add_argument("--port", type=int, default=0)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.serve, chosen.port, chosen.members, chosen.store)
    else:
        print(json.dumps(asyncio.run(_compare(chosen.members, chosen.seconds, chosen.store))))


if __name__ == "__main__":
    main()
