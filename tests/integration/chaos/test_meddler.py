"""The proxy that meddles with requests does what it says, and nothing else once it is cured."""

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import attrs
import httpx
import pytest

from tests.chaos.meddler import Meddler
from tests.integration.cluster import until

BODY = b"answered"
HELD_S = 0.3


@attrs.define(eq=False)
class Server:
    """Counts what it is asked."""

    http: ThreadingHTTPServer
    asked: list[str] = attrs.field(factory=list)

    @property
    def port(self) -> int:
        return int(self.http.server_address[1])


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(BODY)

        def log_message(self, *words: object) -> None:
            pass

    made = Server(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
    thread = threading.Thread(target=made.http.serve_forever)
    thread.start()
    yield made
    made.http.shutdown()
    thread.join()
    made.http.server_close()


@pytest.fixture
def proxy(server: Server) -> Iterator[Meddler]:
    made = Meddler(server.port, [server.port], seed=1, suffers=1.0)
    yield made
    made.close()


def ask(proxy: Meddler, path: str) -> bytes | None:
    """The answer; None if the proxy hangs up instead."""
    try:
        return httpx.get(f"http://127.0.0.1:{proxy.port}{path}", trust_env=False, timeout=5.0).content
    except httpx.TransportError:
        return None


def test_without_meddling_requests_and_answers_pass(server: Server, proxy: Meddler) -> None:
    assert ask(proxy, "/a") == BODY
    assert server.asked == ["/a"]


def test_a_request_is_lost(server: Server, proxy: Meddler) -> None:
    proxy.meddle("drop", HELD_S)

    answers = [ask(proxy, "/a")]
    time.sleep(2 * HELD_S)
    proxy.cure()
    answers.append(ask(proxy, "/b"))

    assert (answers, server.asked) == ([None, BODY], ["/b"])


def test_an_answer_is_lost(server: Server, proxy: Meddler) -> None:
    proxy.meddle("forget", HELD_S)

    assert ask(proxy, "/a") is None
    assert server.asked == ["/a"]


def test_a_request_comes_twice(server: Server, proxy: Meddler) -> None:
    proxy.meddle("duplicate", HELD_S)

    assert ask(proxy, "/a") == BODY
    until("it to come again", lambda: server.asked == ["/a", "/a"])


def test_a_request_comes_after_its_sender_gave_up_also_when_the_proxy_is_cured(server: Server, proxy: Meddler) -> None:
    proxy.meddle("hold", HELD_S)

    answer = ask(proxy, "/a")
    proxy.cure()

    assert answer is None
    until("it to come", lambda: server.asked == ["/a"])


def test_an_answer_comes_byte_by_byte(server: Server, proxy: Meddler) -> None:
    proxy.meddle("drip", HELD_S)

    assert ask(proxy, "/a") == BODY
    assert server.asked == ["/a"]
