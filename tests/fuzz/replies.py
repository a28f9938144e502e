"""What a server may answer, as bytes of its protocol: whatever it is, the adapters must not fall over it."""

from collections.abc import Sequence
from typing import Any

import hiredis
from redis.exceptions import RedisError, ResponseError

from streamshard.adapters.streams.connections import Command
from streamshard.adapters.streams.redis_backend import RedisStreamBackend
from streamshard.adapters.streams.redis_inspector import RedisStreamInspector
from streamshard.adapters.streams.redis_log import FencedLog
from streamshard.core.effects import RaiseFence, Seal, Trim
from streamshard.core.ids import (
    Generation,
    GroupName,
    LayoutVersion,
    MemberId,
    RecordId,
    ShardIndex,
    StreamPrefix,
    Token,
)
from streamshard.core.inspection import Direction, Wanted
from streamshard.core.records import AckMode, ShardAccess
from streamshard.testing.stepping import at_once

ORDERS, BILLING, ZERO = StreamPrefix("orders"), GroupName("billing"), ShardIndex(0)
ONE, LAYOUT = Generation(1), LayoutVersion(1)
ACCESS = ShardAccess(ORDERS, ZERO, BILLING, MemberId("web-m0"), ONE, Token(5))
FIRST = RecordId("0-0")


class Answering:
    """An `Exchanging` and `Appending` whose server gives the same answer to everything."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    async def exchange(self, commands: Sequence[Command]) -> list[object]:
        return [self._answer] * len(commands)

    async def append(self, commands: Sequence[Command]) -> list[object]:
        return [self._answer] * len(commands)

    async def close(self) -> None:
        """Nothing to let go of."""


def parsed(data: bytes) -> Any:
    """The first reply in ``data``; `None` for what is none, which the link takes for a broken connection."""
    reader = hiredis.Reader(protocolError=ResponseError, replyError=ResponseError)
    try:
        reader.feed(data)
        found = reader.gets()
    except (RedisError, UnicodeDecodeError, ValueError):
        return None
    return None if found is False and not data.startswith(b"#") else found


def to_a_member(data: bytes) -> None:
    """The first byte chooses who is answered."""
    answer = parsed(data[1:])
    server = Answering(answer)
    log = FencedLog(server, server, lambda _: server)
    calls = (
        lambda: log.read([(ACCESS, 10)]),
        lambda: log.claim(ACCESS, FIRST, 10),
        lambda: log.deliver(ACCESS, [FIRST]),
        lambda: log.give_back(ACCESS, [FIRST]),
        lambda: log.acknowledge(ACCESS, [FIRST], AckMode.ACK),
        lambda: log.bury("orders:dlq", {b"a": b"b"}),
        lambda: log.abilities(),
        lambda: log.drop_consumer(ACCESS),
    )
    at_once(calls[(data[0] if data else 0) % len(calls)]())


def to_a_coordinator(data: bytes) -> None:
    """The first byte chooses who is answered."""
    backend = RedisStreamBackend(Answering(parsed(data[1:])))
    calls = (
        lambda: backend.probe(ORDERS, [ZERO]),
        lambda: backend.read_fences(ORDERS, [ZERO]),
        lambda: backend.raise_fences([RaiseFence(ORDERS, ZERO, ONE, LAYOUT, BILLING, Token(1), Token(2))]),
        lambda: backend.seal(Seal(ORDERS, ZERO, ONE, LAYOUT, (BILLING,))),
        lambda: backend.trim([Trim(ORDERS, ZERO, ONE, LAYOUT, (BILLING,), 10)]),
    )
    at_once(calls[(data[0] if data else 0) % len(calls)]())


def to_an_inspector(data: bytes) -> None:
    """The first byte chooses who is answered."""
    inspector = RedisStreamInspector(Answering(parsed(data[1:])), lambda key: None)
    calls = (
        lambda: inspector.look(ORDERS, [ZERO], BILLING),
        lambda: inspector.pages(ORDERS, [ZERO], Wanted(Direction.FORWARD, 10)),
    )
    at_once(calls[(data[0] if data else 0) % len(calls)]())
