"""Unchanged heartbeats over HTTP, against a bare ASGI function that only decodes and encodes such bodies.

    python benchmarks/heartbeat_http.py [--members 64] [--holds 2] [--progress] [--rounds 7]
        [--stores memory,sqlite,redis]

Each is served by uvicorn in a process of its own (ours as ``streamshard serve`` does it), all with the same
settings, and asked in turn. What is compared with the bare function is the server's processor time per
request, as the operating system counts it: it hardly depends on what else the machine is doing. Stores are
compared in the same way (what a core of the coordinator's own answers), and by how many heartbeats a second
were answered, which here also counts a client that never sleeps and, for Redis, its server: with fewer than
four cores at rest that says more of the machine. Ratios are medians of the rounds'.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import tempfile
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from heartbeat_load import Member, measure, server, settle

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

BARE = "bare"


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    """Decode a heartbeat, encode an answer of the usual size: nothing else."""
    from streamshard.entrypoints.http.heartbeats import decode_heartbeat, encode_reply

    body = decode_heartbeat((await receive())["body"])
    content = encode_reply(_answer(body))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _answer(body: Any) -> Any:
    from streamshard.core import replies

    return replies.HeartbeatReply(
        status=replies.Status.OK,
        member=body.member_id,
        epoch=body.member_epoch,
        seq=body.seq,
        heartbeat_ms=3000,  # type: ignore[arg-type]
        rebalance_timeout_ms=60000,  # type: ignore[arg-type]
        lease_ms=15000,  # type: ignore[arg-type]
        response_to=body.request_id,
        assigned=tuple(h.shard_index for h in body.holds),
        grants=tuple(replies.Grant(h.shard_index, h.token, 1) for h in body.holds),  # type: ignore[arg-type]
        extended=tuple(replies.Extension(h.shard_index, h.token) for h in body.holds),
        view="0" * 100,  # type: ignore[arg-type]
    )


def serve_bare(port: int) -> None:
    """Serve the bare function as ``streamshard serve`` serves the coordinator."""
    import uvicorn

    uvicorn.run(
        bare,  # type: ignore[arg-type]
        port=port,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=75,
    )


@contextlib.contextmanager
def _servers(stores: list[str]) -> Iterator[dict[str, tuple[int, int]]]:
    from streamshard.adapters.streams.embedded import EmbeddedServer

    with contextlib.ExitStack() as opened:
        urls = {"memory": "memory:"}
        if "sqlite" in stores:
            folder = opened.enter_context(tempfile.TemporaryDirectory())
            urls["sqlite"] = f"sqlite:///{folder}/meta.db"
        if "redis" in stores:
            urls["redis"] = opened.enter_context(EmbeddedServer()).url
        ours = ("-m", "streamshard", "serve", "--redis", "memory:", "--store")
        made = {store: opened.enter_context(server(*ours, urls[store])) for store in stores}
        made[BARE] = opened.enter_context(server(__file__, "--serve-bare"))
        yield made


def _create(port: int, shards: int) -> None:
    body = json.dumps({"requestedBy": "benchmark", "initialShardCount": shards}).encode()
    url = f"http://127.0.0.1:{port}/coord/v1/streams/orders/groups/billing"
    request = urllib.request.Request(url, body, {"content-type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=60):
        pass


async def _crews(
    made: dict[str, tuple[int, int]], members: int, holds: int, *, progress: bool
) -> dict[str, list[Member]]:
    crews = {name: [Member(f"m{i:04}", progress=progress) for i in range(members)] for name in made}
    for name, (port, _) in made.items():
        if name != BARE:
            await asyncio.to_thread(_create, port, holds * members)
            await settle(port, crews[name])
    crews[BARE] = [*next(iter(crews.values()))]  # the very bodies that ours gets
    return crews


async def compare(chosen: argparse.Namespace) -> dict[str, Any]:
    """Ask everybody in turn, again and again."""
    taken: dict[str, list[tuple[float, float]]] = {}
    with _servers(chosen.stores.split(",")) as made:
        crews = await _crews(made, chosen.members, chosen.holds, progress=chosen.progress)
        for _ in range(chosen.rounds):
            for name, (port, pid) in made.items():
                taken.setdefault(name, []).append(await measure(port, pid, crews[name], chosen.seconds))
    return {name: _told(name, taken) for name in taken}


def _told(name: str, taken: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    first = next(iter(taken))
    pairs = list(zip(taken[name], taken[BARE], taken[first], strict=True))
    return {
        "cpu_us": round(statistics.median(cpu for cpu, _ in taken[name]), 1),
        "per_s": round(statistics.median(rate for _, rate in taken[name])),
        "bare_cpu_ratio": round(statistics.median(floor[0] / own[0] for own, floor, _ in pairs), 2),
        f"cpu_{first}_ratio": round(statistics.median(other[0] / own[0] for own, _, other in pairs), 2),
        f"rate_of_{first}": round(statistics.median(own[1] / other[1] for own, _, other in pairs), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=64)
    parser.add_argument("--holds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--stores", default="memory")
    parser.add_argument("--progress", action="store_true", help="let members tell how far they have got, too")
    parser.add_argument("--serve-bare", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    chosen = parser.parse_args()
    if chosen.serve_bare:
        serve_bare(chosen.port)
        return
    for name, figures in asyncio.run(compare(chosen)).items():
        print(json.dumps({"server": name, **figures}))


if __name__ == "__main__":
    main()
