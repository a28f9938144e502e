"""Requests as no client library sends them: split, joined, hidden in one another, too large, or broken in places."""

import itertools
import random
import socket
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import attrs

HIDDEN = b"POST /coord/v1/streams/hidden HTTP/1.1\r\nHost: localhost\r\nContent-Length: 43\r\n\r\n"
HIDDEN_BODY = b'{"requestedBy":"nobody","consumerGroups":[]'[:42] + b"}"
SMUGGLED = HIDDEN.replace(b"43", b"%d" % len(HIDDEN_BODY)) + HIDDEN_BODY
"""A request that would make a stream; it stands where only a server that reads wrongly finds a request."""

PATHS = (
    b"/livez",
    b"/coord/v1/streams",
    b"/coord/v1/streams/orders",
    b"/coord/v1/heartbeats",
    b"/metrics",
    b"/%00",
    b"//",
)
METHODS = (b"GET", b"POST", b"HEAD", b"PUT", b"OPTIONS", b"TRACE", b"get", b"PRI", b"G\x00T", b"CONNECT", b"X" * 200)
VERSIONS = (
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"HTTP/0.9",
    b"HTTP/2.0",
    b"HTTP/1.1 ",
    b"HTTP/9.9",
    b"HTTP/1.1\x00",
    b"http/1.1",
    b"",
)
ENDS = (b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\r\n", b"\x00\r\n")
PIECES_AT_MOST = 40

Pieces: TypeAlias = list[bytes]


@attrs.frozen
class Case:
    """What is sent, piece by piece."""

    kind: str
    pieces: Pieces
    hides: bool = False
    """`SMUGGLED` stands in it, and must not be carried out."""


def _head(chance: random.Random, *headers: bytes) -> bytes:
    end = chance.choice(ENDS) if chance.random() < 0.1 else b"\r\n"
    first = b" ".join((chance.choice((b"GET", b"POST")), chance.choice(PATHS), b"HTTP/1.1"))
    return end.join((first, b"Host: localhost", *headers, b"", b""))


def a_bad_first_line(chance: random.Random) -> Case:
    words = [chance.choice(METHODS), chance.choice(PATHS), chance.choice(VERSIONS)]
    line = chance.choice((b" ", b"  ", b"\t")).join(words)
    return Case("first line", [line + chance.choice(ENDS) + b"Host: localhost\r\n\r\n"])


def an_absolute_target(chance: random.Random) -> Case:
    host = chance.choice((b"localhost", b"evil.example", b"[::1]", b"localhost:99999", b"u:p@localhost", b"\xff", b""))
    target = chance.choice((b"http://%s/livez", b"//%s/livez", b"https://%s", b"*%s", b"%s:443")) % host
    return Case("absolute target", [b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % target])


def huge_headers(chance: random.Random) -> Case:
    size = chance.choice((1_000, 60_000, 70_000, 500_000))
    many = [b"X-%d: %s" % (n, b"a" * 20) for n in range(size // 30)]
    one = [b"X: " + b"a" * size] if chance.random() < 0.5 else [b"a" * size + b": x"]
    return Case("huge headers", [_head(chance, *chance.choice((many, one)))])


def bad_headers(chance: random.Random) -> Case:
    bad = (b"X\x00: a", b"X: a\x00b", b"X: a\rb", b" folded: x", b": nameless", b"X : a", b"X", b"\xff\xfe: \xfd",
           b"Host: other", b"Content-Length: -1", b"Content-Length: 1e3", b"Content-Length: +5", b"Content-Length: 0x5",
           b"Content-Length: " + b"9" * 30, b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked, chunked",
           b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x",
           b"Connection: close, keep-alive", b"Authorization: Basic \xff", b"Authorization: Bearer " + b"." * 5_000,
           b"X-Request-Id: " + b"\x1b[31m", b"If-None-Match: \xff", b"Cookie: " + b";" * 3_000)  # fmt: skip
    return Case("bad headers", [_head(chance, *chance.sample(bad, chance.choice((1, 1, 2, 3))))])


def bad_chunks(chance: random.Random) -> Case:
    sizes = (b"5", b"-5", b"0x5", b"5 ", b"FFFFFFFF", b"F" * 17, b"", b"5;" + b"e" * 5_000, b"g", b"5\x00", b"\xff")
    body = b"".join(
        chance.choice(sizes) + chance.choice(ENDS) + b"hello" + chance.choice(ENDS) for _ in range(chance.randint(1, 4))
    )
    trailer = chance.choice((b"0\r\n\r\n", b"0\r\nX: a\r\n\r\n", b"0\r\n" + b"X: a\r\n" * 2_000, b""))
    return Case("bad chunks", [_head(chance, b"Transfer-Encoding: chunked"), body + trailer])


def two_lengths(chance: random.Random) -> Case:
    """A proxy that goes by the one, and a server that goes by the other, disagree about where the request ends."""
    conflict = chance.choice(
        (
            (b"Content-Length: 5", b"Content-Length: %d" % (5 + len(SMUGGLED))),
            (b"Content-Length: 5, %d" % (5 + len(SMUGGLED)),),
            (b"Content-Length: %d" % (5 + len(SMUGGLED)), b"Transfer-Encoding: chunked"),
            (b"Transfer-Encoding: chunked", b"Content-Length: %d" % (5 + len(SMUGGLED))),
            (b"Content-Length: %d" % (5 + len(SMUGGLED)), b"Transfer-Encoding:\x0bchunked"),
            (b"Content-Length: %d" % (5 + len(SMUGGLED)), b"Transfer-Encoding: xchunked"),
        )
    )
    head = b"\r\n".join((b"POST /livez HTTP/1.1", b"Host: localhost", *conflict, b"", b""))
    return Case("two lengths", [head, b"0\r\n\r\n" + SMUGGLED], hides=True)


def hidden_in_a_body(chance: random.Random) -> Case:
    filler = chance.choice((b"", b"\r\n\r\n", b"0\r\n\r\n"))
    body = filler + SMUGGLED
    head = b"POST /coord/v1/heartbeats HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    return Case("hidden in a body", [head + body], hides=True)


def hidden_in_a_header(chance: random.Random) -> Case:
    bare = chance.choice((b"\r", b"\x00\r\n\x00", b"\x0b", b"\x85", b"\xe5\x98\x8a"))
    line = (
        b"GET /livez?a=1 HTTP/1.1\r\nHost: localhost\r\nX: a" + bare * 2 + SMUGGLED.replace(b"\r\n", bare) + b"\r\n\r\n"
    )
    return Case("hidden in a header", [line], hides=True)


def a_pipeline(chance: random.Random) -> Case:
    requests = [_head(chance) for _ in range(chance.choice((2, 10, 200)))]
    return Case("pipeline", [b"".join(requests) + chance.choice((b"", b"GET", b"\x00" * 50))])


def expects_to_be_told(chance: random.Random) -> Case:
    expects = chance.choice((b"100-continue", b"100-Continue", b"200-ok", b"100-continue, 100-continue"))
    length = chance.choice((b"2", b"99999999999", b"0"))
    return Case("100-continue", [_head(chance, b"Expect: " + expects, b"Content-Length: " + length), b"{}"])


def byte_after_byte(chance: random.Random) -> Case:
    whole = _head(chance, b"Content-Length: 2") + b"{}"
    at = sorted(chance.randrange(len(whole)) for _ in range(PIECES_AT_MOST))
    return Case("slow bytes", [whole[a:b] for a, b in zip([0, *at], [*at, len(whole)], strict=True) if a < b])


def half_a_request(chance: random.Random) -> Case:
    whole = _head(chance, b"Content-Length: 100") + b"{}"
    return Case("half a request", [whole[: chance.randrange(1, len(whole))]])


def noise(chance: random.Random) -> Case:
    greeting = chance.choice(
        (b"", b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"*1\r\n$4\r\nPING\r\n")
    )
    return Case("noise", [greeting + chance.randbytes(chance.choice((1, 100, 20_000)))])


KINDS: tuple[Callable[[random.Random], Case], ...] = (
    a_bad_first_line,
    an_absolute_target,
    huge_headers,
    bad_headers,
    bad_chunks,
    two_lengths,
    hidden_in_a_body,
    hidden_in_a_header,
    a_pipeline,
    expects_to_be_told,
    byte_after_byte,
    half_a_request,
    noise,
)


def cases(seed: int) -> Iterator[Case]:
    """Without end, the same ones for the same seed; every kind comes in turn."""
    chance = random.Random(seed)
    for kind in itertools.cycle(KINDS):
        yield kind(chance)


def sent(port: int, case: Case, patience_s: float) -> bytes:
    """What the server says to it until it hangs up, or falls silent for so long."""
    said = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        try:
            for piece in case.pieces:
                link.sendall(piece)
                if len(case.pieces) > 2:
                    time.sleep(0.001)
            link.settimeout(patience_s)
            while part := link.recv(65_536):
                said += part
        except (TimeoutError, ConnectionError):
            pass
    return bytes(said)
