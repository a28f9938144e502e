"""SIGTERM: new requests are told where they stand, those under way are finished, and clients go on elsewhere."""

import json
import socket
import time
from pathlib import Path

import httpx

from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.entrypoints.demo.plan import STREAM
from tests.integration.fleet.rig import ALWAYS, LEASE_S, PATIENCE_S, fleet, sqlite_in

CREATE = b'{"requestedBy":"fleet tests","initialShardCount":2}'
HEAD = b"POST /coord/v1/streams/late HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(CREATE)
READY = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
WATCH = f"/coord/v1/streams/{STREAM}/watch?layout=1&waitMs=30000"


def test_what_is_under_way_is_finished_and_new_requests_are_turned_away(tmp_path: Path) -> None:
    with EmbeddedServer() as server, fleet(tmp_path, server.url, sqlite_in(tmp_path)) as played:
        played.coordinate("k1")
        played.create(2)
        one = played.coordinators["k1"]
        with _link(one.port) as creating, _link(one.port) as kept, _link(one.port) as watching:
            version = played.get(f"streams/{STREAM}")["layoutVersion"]
            watching.sendall(
                f"GET {WATCH.replace('=1', f'={version}', 1)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            )
            kept.sendall(READY)
            ready = _answer(kept)
            creating.sendall(HEAD + CREATE[:5])
            time.sleep(0.3)

            played.children.dismiss(one.child)
            time.sleep(0.3)
            kept.sendall(READY)
            turned_away = _answer(kept)
            watched = _answer(watching)
            creating.sendall(CREATE[5:])
            created = _answer(creating)
            code = one.child.process.wait(PATIENCE_S)
        played.coordinate("k1")

        assert (ready[0], created[0], code) == (200, 201, 0)
        assert [(status, body["errorCode"], body["retryable"]) for status, body in (turned_away, watched)] == [
            (503, "COORDINATOR_TERMINATING", True),
            (503, "COORDINATOR_TERMINATING", True),
        ]
        assert played.get("streams/late")["shardCount"] == 2


def test_members_with_several_urls_go_on_with_the_next_coordinator(tmp_path: Path) -> None:
    with EmbeddedServer() as server, fleet(tmp_path, server.url, sqlite_in(tmp_path)) as played:
        played.coordinate("k1", "k2")
        played.create(4)
        played.consume("a", urls=[one.url for one in played.coordinators.values()])
        before = played.settle(4, "a")
        played.produce()

        codes = [played.dismiss("k1")]
        played.pause(LEASE_S + 1)
        on_one = played.owners()
        played.coordinate("k1")
        codes.append(played.dismiss("k2"))
        played.pause(2.0)
        on_other = played.owners()
        played.finish(4)

        assert (codes, on_one, on_other, played.expired()) == ([0, 0], before, before, [])
        assert played.consumers["a"].log.read_text().count("the lease ran out") == 0
        assert played.wrong(*ALWAYS) == {}


def _link(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def _answer(link: socket.socket) -> tuple[int, dict[str, object]]:
    """Exactly one answer."""
    text = b""
    while b"\r\n\r\n" not in text:
        octet = link.recv(1)
        assert octet, f"the connection was closed after {text!r}"
        text += octet
    head = httpx.Headers([tuple(line.split(b": ", 1)) for line in text.split(b"\r\n")[1:-2]])  # type: ignore[arg-type]
    body = b""
    while len(body) < int(head["content-length"]):
        body += link.recv(65_536)
    return int(text.split(b" ", 2)[1]), json.loads(body)
