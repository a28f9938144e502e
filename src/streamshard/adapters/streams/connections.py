"""A bounded set of connections to one Redis server: whole pipelines out, raw replies in, errors translated."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import BusyLoadingError, MasterDownError, ReadOnlyError, RedisError, ResponseError

from streamshard.adapters import redis_url
from streamshard.adapters.lives import FORKED, Life
from streamshard.adapters.redis_link import NotSent as Unreachable
from streamshard.adapters.redis_link import describe, lacks_permission, open_connection
from streamshard.adapters.redis_sentinel import MasterDial
from streamshard.core.ids import Millis
from streamshard.errors import ConfigurationError, StreamPermissionMissing, StreamUnavailable

Command: TypeAlias = tuple[str | bytes | int | float, ...]

TOO_MANY_CLIENTS = "max number of clients reached"
DEFAULT_TIMEOUT = Millis(5_000)

# The driver packs in Python; its parser's own packer takes a fraction of the time (and misstates what it takes).
_pack: Callable[[Command], bytes] = cast(Any, hiredis.pack_command)

_DEMOTED = frozenset({ReadOnlyError, MasterDownError})
"""How a server says that it is not the one to talk to any more."""


class NotSent(StreamUnavailable):
    """Nothing of the order left this process."""


class AnswerLost(StreamUnavailable):
    """The order may have reached the server; its answer did not come back."""


class Refused(StreamUnavailable):
    """The server answered with an error and did nothing."""


class Exchanging(Protocol):
    """Whatever orders can be sent over: the connections to one server, or to all nodes of a cluster."""

    async def exchange(self, commands: Sequence[Command]) -> list[object]:
        """Give for each of ``commands`` its reply, its `RedisError`, or `AnswerLost`, or raise or give `NotSent`."""
        ...

    async def close(self) -> None:
        """Let go of every connection; idempotent."""
        ...


def value(outcome: object) -> Any:
    """An outcome's reply, or its trouble raised as `StreamUnavailable`."""
    if isinstance(outcome, StreamUnavailable):
        raise outcome
    if isinstance(outcome, RedisError):
        if lacks_permission(outcome):
            raise StreamPermissionMissing(f"Redis refused the order: {describe(outcome)}") from outcome
        raise Refused(f"Redis refused the order: {describe(outcome)}") from outcome
    return outcome


class Connections:
    """At most ``limit`` connections to one server: a URL's, a `Place`'s by its options, or the sentinels' master.

    Who finds none free waits, no longer than an exchange may take.
    A connection goes back only if every reply of its exchange was read: one that was cancelled or timed
    out in between would answer the next order with the reply to the last.
    """

    def __init__(self, server: str | Mapping[str, Any], *, limit: int, timeout: Millis = DEFAULT_TIMEOUT) -> None:
        if limit < 1:
            raise ConfigurationError(f"max_connections: must be at least 1, not {limit}")
        if timeout < 1:
            raise ConfigurationError(f"timeout: must be at least 1 ms, not {timeout}")
        self._limit = limit
        self._timeout = timeout
        self._masters: MasterDial | None = None
        self._dial = self._dialling(server)
        self._slots = asyncio.Semaphore(limit)
        self._free: list[AbstractConnection] = []
        self._used: list[AbstractConnection] = []
        self._closed = False
        self._life = Life()

    async def exchange(self, commands: Sequence[Command], timeout: Millis | None = None) -> list[object]:
        """Send ``commands`` in one piece; give for each its reply, its `RedisError`, or `AnswerLost`.

        Raises `NotSent` if no connection could be had.
        """
        return await self.exchange_packed(pack(commands), len(commands), timeout)

    async def exchange_packed(self, packed: bytes, count: int, timeout: Millis | None = None) -> list[object]:
        """`exchange` of what `pack` has made of ``count`` commands."""
        outcomes: list[object] = []
        connection = await self._take()
        try:
            async with asyncio.timeout((timeout or self._timeout) / 1000):
                await connection.send_packed_command(packed, check_health=False)
                while len(outcomes) < count:
                    outcomes.append(await _reply(connection))
                    _take_what_is_there(connection, outcomes, count)
            if not _DEMOTED.isdisjoint(map(type, outcomes)):
                await self._distrust(connection)
        except (RedisError, OSError) as error:
            outcomes.extend([_lost(error)] * (count - len(outcomes)))
            await self._distrust(connection)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            await self._put_back(connection)
        return outcomes

    async def close(self) -> None:
        """Disconnect everything, also what is in use; idempotent."""
        self._closed = True
        if self._masters is not None:
            await self._masters.close()
        await self._hang_up()

    async def _hang_up(self) -> None:
        free, self._free = self._free, []
        for connection in (*free, *self._used):
            await connection.disconnect(nowait=not self._closed)

    async def _distrust(self, connection: AbstractConnection) -> None:
        # Those at rest lead to the same server: each would cost its next user as long as this one did.
        free, self._free = self._free, []
        for each in (connection, *free):
            await each.disconnect(nowait=True)

    async def _take(self) -> AbstractConnection:
        await self._take_slot()
        try:
            connection = await self._ready()
        except BaseException:
            self._slots.release()
            raise
        self._used.append(connection)
        return connection

    async def _put_back(self, connection: AbstractConnection) -> None:
        self._used.remove(connection)
        self._slots.release()
        if connection.is_connected and not self._closed:
            self._free.append(connection)
        else:
            await connection.disconnect(nowait=True)

    def _dialling(self, server: str | Mapping[str, Any]) -> Callable[[], Awaitable[AbstractConnection]]:
        if not isinstance(server, str):
            return partial(open_connection, server, self._timeout)
        place = redis_url.parse(server, "redis")
        if place.cluster:
            raise ConfigurationError("redis: one server is needed here, and the URL names a cluster")
        if not place.sentinel:
            return partial(open_connection, place.at(place.seeds[0]), self._timeout)
        self._masters = MasterDial(place, self._timeout, self._hang_up)
        return self._masters.connect

    async def _take_slot(self) -> None:
        if self._closed:
            raise NotSent("The connections to Redis are closed")
        if self._life.is_over():
            raise NotSent(f"Redis: {FORKED}")
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(self._timeout / 1000):
                await self._slots.acquire()
        except TimeoutError as error:
            raise NotSent(f"All {self._limit} connections to Redis are busy: raise max_connections") from error

    async def _ready(self) -> AbstractConnection:
        """One at rest that still stands, or a new one."""
        while self._free:
            connection = self._free.pop()
            if not await _is_stale(connection):
                return connection
            await connection.disconnect(nowait=True)
        try:
            connection = await self._dial()
        except Unreachable as error:
            raise NotSent(f"Redis can't be reached: {error}") from error
        if self._closed:
            await connection.disconnect(nowait=True)
            raise NotSent("The connections to Redis are closed")
        return connection


def pack(commands: Sequence[Command]) -> bytes:
    """The commands as the server reads them."""
    return b"".join(map(_pack, commands))


def address(url: str) -> str | None:
    """``host:port`` of a URL, the path of its socket, or what the sentinels call the master; never its password."""
    try:
        place = redis_url.parse(url)
    except ConfigurationError:
        return None
    return place.service or place.name


def _lost(error: Exception) -> StreamUnavailable:
    if TOO_MANY_CLIENTS in str(error):  # said instead of a welcome: nothing that was sent is looked at
        return NotSent(f"Redis can't be reached: {error}: raise its maxclients, or use fewer connections")
    return AnswerLost(f"Redis did not answer: {describe(error)}")


async def _reply(connection: AbstractConnection) -> object:
    try:
        return await connection.read_response()
    except (ResponseError, BusyLoadingError) as refusal:
        return refusal


def _take_what_is_there(connection: AbstractConnection, outcomes: list[object], count: int) -> None:
    """Take the replies that have arrived with the last one: the driver's way costs more than the parsing itself."""
    parser = getattr(getattr(connection, "_parser", None), "_reader", None)
    if not isinstance(parser, hiredis.Reader):
        return
    while len(outcomes) < count and parser.has_data():
        reply = parser.gets()
        if type(reply) is object:  # how the driver's parser says that the rest has not arrived
            return
        if isinstance(reply, RedisError) and not isinstance(reply, ResponseError | BusyLoadingError):
            raise reply
        outcomes.append(reply)


async def _is_stale(connection: AbstractConnection) -> bool:
    # The driver renamed the question in its version 8.
    can_read = getattr(connection, "can_read", None) or connection.can_read_destructive
    try:
        return bool(await can_read())
    except (RedisError, OSError):
        return True
