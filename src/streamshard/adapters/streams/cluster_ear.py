"""Hearing of new records on all shards of a cluster's node, whatever their number, over two connections.

A blocking read can't name keys of two slots, so it would take a connection per shard. Instead each key is
read once, without blocking, over a connection whose keys the server tracks (``CLIENT TRACKING``): the next
write to one of them is told to the other connection.
"""

import asyncio
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError, ResponseError

from streamshard.adapters.redis_link import Address, AnswerLost, Line, NotSent, connection_to, describe
from streamshard.adapters.redis_url import Place
from streamshard.core.ids import Millis, RecordId
from streamshard.errors import StreamUnavailable

CHANNEL = "__redis__:invalidate"
QUIET_S = 15.0
"""A connection that has said nothing for so long is asked whether it is still there."""

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.1
"""How often keys are looked at where the server tells nobody of writes."""


class _Pair:
    """The line that keys are read over, and the connection that writes are told to (None: they are not)."""

    def __init__(self, line: Line, told: AbstractConnection | None) -> None:
        self.line = line
        self._told = told
        self._waiting: dict[bytes, set[asyncio.Future[None]]] = {}
        self._reader = None if told is None else asyncio.create_task(self._read(told))

    @property
    def broken(self) -> bool:
        return self.line.broken or (self._reader is not None and self._reader.done())

    @property
    def deaf(self) -> bool:
        return self._told is None

    def listen(self, key: str) -> "asyncio.Future[None]":
        """A future that is done when ``key`` is written to, or nothing can be heard any more."""
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key.encode(), set()).add(heard)
        return heard

    def forget(self, key: str, heard: "asyncio.Future[None]") -> None:
        name = key.encode()
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.discard(heard)
            if not waiting:
                del self._waiting[name]

    async def close(self) -> None:
        await self.line.close()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])
        self._wake(None)

    async def _read(self, told: AbstractConnection) -> None:
        quiet = False
        try:
            while True:
                try:
                    async with asyncio.timeout(QUIET_S):
                        reply: Any = await told.read_response(disconnect_on_error=False)
                except TimeoutError:
                    if quiet:
                        return
                    quiet = True
                    await told.send_command("PING", check_health=False)
                    continue
                quiet = False
                if reply[0] == b"message":
                    self._wake(reply[2])
        except (RedisError, OSError):
            return
        finally:
            self._wake(None)
            await told.disconnect(nowait=True)

    def _wake(self, keys: list[bytes] | None) -> None:
        """Wake who waits for one of ``keys``; None: everybody."""
        for key in list(self._waiting) if keys is None else keys:
            for heard in self._waiting.get(key, ()):
                if not heard.done():
                    heard.set_result(None)


class Ear:
    """Waits on one node; connects on first use."""

    def __init__(self, place: Place, address: Address, timeout: Millis) -> None:
        self._options = place.at(address)
        self._name = f"{address[0]}:{address[1]}"
        self._timeout = timeout
        self._pair: _Pair | None = None
        self._opening: asyncio.Task[_Pair] | None = None
        self._closed = False

    async def wait(self, key: str, after: RecordId) -> RedisError | None:
        """Return when ``key`` has a record after its id, or was written to; gives what the node refuses.

        Raises `StreamUnavailable` if it does not answer. Delivers nothing.
        """
        pair = await self._open_pair()
        heard = pair.listen(key)
        pause = FIRST_PAUSE_S
        try:
            while True:
                try:
                    reply = await pair.line.ask("XREAD", "COUNT", 1, "STREAMS", key, after)
                except (NotSent, AnswerLost) as error:
                    raise StreamUnavailable(f"{self._name} does not answer: {error}") from error
                if isinstance(reply, RedisError):
                    return reply
                if reply is not None:
                    return None
                if not pair.deaf:
                    await heard
                    return None
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE_S, pause * 1.5)
        finally:
            pair.forget(key, heard)

    async def close(self) -> None:
        """Wake everybody, and let go of the connections; idempotent."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        pair, self._pair = self._pair, None
        if pair is not None:
            await pair.close()

    async def _open_pair(self) -> _Pair:
        if self._pair is not None and not self._pair.broken:
            return self._pair
        if self._closed:
            raise StreamUnavailable("The connections to Redis are closed")
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    def _opened(self, opening: "asyncio.Task[_Pair]") -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # everybody who wanted to wait may be gone

    async def _open(self) -> _Pair:
        old, self._pair = self._pair, None
        if old is not None:
            await old.close()
        try:
            async with asyncio.timeout(self._timeout / 1000):
                self._pair = await self._connect()
        except (RedisError, OSError, NotSent, AnswerLost) as error:
            raise StreamUnavailable(f"{self._name} can't be reached: {describe(error)}") from error
        return self._pair

    async def _connect(self) -> _Pair:
        told = connection_to(self._options, self._timeout)
        try:
            name = await _subscribe(told)
            line = await Line.open(self._options, self._timeout)
            try:
                heard = name is not None and await line.ask("CLIENT", "TRACKING", "ON", "REDIRECT", name) == b"OK"
                if not heard:
                    await told.disconnect(nowait=True)
                return _Pair(line, told if heard else None)
            except BaseException:
                await line.close()
                raise
        except BaseException:
            await told.disconnect(nowait=True)
            raise


async def _subscribe(told: AbstractConnection) -> int | None:
    """Have writes told to this connection; its number, or None if the account may not."""
    connect: Any = told.connect
    await connect()
    try:
        await told.send_command("CLIENT", "ID", check_health=False)
        number: Any = await told.read_response(disconnect_on_error=False)
        await told.send_command("SUBSCRIBE", CHANNEL, check_health=False)
        await told.read_response(disconnect_on_error=False)
    except ResponseError:
        return None
    return int(number)
