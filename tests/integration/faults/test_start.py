"""Starting while something else than a coordinator, or nothing, answers."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streamshard import CoordinatorUnreachable, Message, StreamApp
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams


class Answering(ThreadingHTTPServer):
    """Says the same to everybody."""

    daemon_threads = True

    def __init__(self, status: int, kind: str, body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.kind, self.body = status, kind, body

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Answering)
        self.send_response(server.status)
        self.send_header("Content-Type", server.kind)
        self.send_header("Content-Length", str(len(server.body)))
        if server.status == 301:
            self.send_header("Location", "https://coordinator.example/")
        self.end_headers()
        self.wfile.write(server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Not a word."""


def _routing(**change: object) -> bytes:
    shards = [{"shardIndex": n, "streamKey": f"orders:{n}"} for n in range(2)]
    facts = {"shardCount": 2, "layoutVersion": 1, "metadataVersion": 1, "leaseMs": 60_000, "shards": shards}
    names = {"streamPrefix": "orders", "consumerGroup": "billing", "routingProtocol": "murmur3-v1", "lineage": "a"}
    return json.dumps({**facts, **names, **change}).encode()


@pytest.fixture
def answering(request: pytest.FixtureRequest) -> Iterator[Answering]:
    with Answering(*request.param) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


JSON = "application/json"


@pytest.mark.parametrize(
    ("answering", "why"),
    [
        ((200, "text/html", b"<html>"), "no JSON (text/html): is a coordinator behind this URL?"),
        ((404, "text/html", b"<html>"), "answered 404 with something that is no JSON (text/html): is a coordinator"),
        ((200, JSON, _routing()[:-9]), "no JSON (application/json): is a coordinator behind this URL?"),
        ((200, JSON, b"[1]"), "JSON that no coordinator sends: is a coordinator behind this URL?"),
        ((301, "text/html", b""), "a redirect to https://coordinator.example/, which is not followed: mend the base"),
        ((502, "text/html", b"<html>"), "502 Bad Gateway"),
        ((200, JSON, _routing(shardCount="2")), "the routing of orders/billing can't be used: '2' is no whole number"),
        ((200, JSON, _routing(leaseMs=-1)), "can't be used: -1 is not from 0 to"),
        ((200, JSON, _routing(shardCount=10**9)), "can't be used: 1000000000 is not from 0 to 16384"),
        ((200, JSON, _routing(shardCount=3)), "lists 2 shards that are not the 3 of orders"),
        ((200, JSON, _routing(streamPrefix="invoices")), "it lists 2 shards that are not the 2 of invoices"),
    ],
    indirect=["answering"],
)
def test_what_answers_instead_of_a_coordinator_is_named_with_what_to_mend(answering: Answering, why: str) -> None:
    app = StreamApp(answering.url, MemoryShardLog(MemoryStreams()), start_timeout=0)

    @app.listener("orders", group="billing")
    async def handle(message: Message) -> None:
        raise AssertionError("nothing was started")

    with pytest.raises(CoordinatorUnreachable) as caught:
        asyncio.run(app.start())
    assert why in str(caught.value)
