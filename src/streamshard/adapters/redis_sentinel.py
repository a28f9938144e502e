"""Who is the master now: what the sentinels say, and what the server itself says then."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from streamshard.adapters.redis_link import AnswerLost, Line, NotSent, describe, open_connection, open_with_role
from streamshard.adapters.redis_url import Address, Place, host_and_port
from streamshard.core.ids import Millis

PATIENCE = Millis(1_000)
"""How long a sentinel may take to answer."""

GRACE_S = 0.2
"""How long the others are waited for once most have answered."""

QUIET_S = 10.0
"""After so long without news a sentinel is asked anew, over a new connection."""

PAUSE_S = 1.0
_SWITCHED = "+switch-master"


@attrs.frozen(order=True)
class _Word:
    """What a sentinel says; the word of a later epoch is the newer one."""

    epoch: int
    master: Address


async def masters(place: Place, timeout: Millis) -> tuple[Address, ...]:
    """Whom the sentinels name, the newest word first; raises `NotSent` if none names any."""
    asking = [asyncio.create_task(_ask(place, seed, min(timeout, PATIENCE))) for seed in place.seeds]
    try:
        answers = await _most(asking)
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    words = sorted((answer for answer in answers if isinstance(answer, _Word)), reverse=True)
    if not words:
        troubles = sorted(answer for answer in answers if isinstance(answer, str))
        raise NotSent(f"no sentinel names a master: {'; '.join(troubles)}")
    return tuple(dict.fromkeys(word.master for word in words))


async def _most(asking: list["asyncio.Task[_Word | str]"]) -> list[_Word | str]:
    pending: set[asyncio.Task[_Word | str]] = set(asking)
    answers: list[_Word | str] = []
    while pending:
        words = sum(isinstance(answer, _Word) for answer in answers)
        enough = words * 2 > len(asking)
        done, pending = await asyncio.wait(
            pending, timeout=GRACE_S if enough else None, return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            break
        answers += [task.result() for task in done]
    return answers


async def _ask(place: Place, sentinel: Address, timeout: Millis) -> _Word | str:
    """What it says, or why it says nothing."""
    where = host_and_port(sentinel)
    try:
        line = await Line.open(place.sentinel_at(sentinel), timeout)
    except NotSent as error:
        return f"{where}: {error}"
    try:
        reply: Any = await line.ask("SENTINEL", "MASTER", place.service)
    except (NotSent, AnswerLost) as error:
        return f"{where}: {error}"
    finally:
        await line.close()
    if isinstance(reply, RedisError):
        return f"{where}: {describe(reply)} (asked for the master {place.service!r})"
    facts = dict(zip(reply[::2], reply[1::2], strict=True))
    return _Word(int(facts[b"config-epoch"]), (facts[b"ip"].decode(), int(facts[b"port"])))


class Lookout:
    """Hears from every sentinel whether the master is still whom connections were made to.

    So a master that stepped down or fell silent is left as soon as there is another: what it would still
    take is lost, and its answers may never come.
    """

    def __init__(self, place: Place, moved: Callable[[], Awaitable[None]]) -> None:
        self._place = place
        self._moved = moved
        self._master: Address | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def watch(self, master: Address) -> None:
        """Connections lead to ``master`` from now on."""
        self._master = master
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._listen(seed)) for seed in self._place.seeds]

    async def close(self) -> None:
        """Hear no more; idempotent."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _listen(self, sentinel: Address) -> None:
        while True:
            try:
                connection = await open_connection(self._place.sentinel_at(sentinel), PATIENCE)
            except NotSent:
                await asyncio.sleep(PAUSE_S)
                continue
            try:
                await self._hear(connection)
            except TimeoutError:
                continue
            except (RedisError, OSError, NotSent):
                await asyncio.sleep(PAUSE_S)
            finally:
                await connection.disconnect(nowait=True)

    async def _hear(self, connection: AbstractConnection) -> None:
        await connection.send_command("SUBSCRIBE", _SWITCHED, check_health=False)
        while True:
            async with asyncio.timeout(QUIET_S):
                await connection.read_response()
            # The first thing heard is that nothing will be missed from now on: what was before has to be asked for.
            first, *_ = await masters(self._place, PATIENCE)
            if first != self._master:
                self._master = first
                await self._moved()


class MasterDial:
    """New connections to the present master, one after the other; ``moved`` is told when there is another one."""

    def __init__(self, place: Place, timeout: Millis, moved: Callable[[], Awaitable[None]]) -> None:
        self._place = place
        self._timeout = timeout
        self._lookout = Lookout(place, moved)

    async def connect(self) -> AbstractConnection:
        """Ask who it is, connect, and make sure; raises `NotSent`."""
        trouble = NotSent("")
        for address in await masters(self._place, self._timeout):
            try:
                connection, role = await open_with_role(self._place.at(address), self._timeout)
            except NotSent as error:
                trouble = error
                continue
            if role == "master":
                self._lookout.watch(address)
                return connection
            # A sentinel may not have heard yet that its master is none any more: the server itself knows.
            await connection.disconnect(nowait=True)
            trouble = NotSent(f"{host_and_port(address)} is a replica, and the sentinels name no other")
        raise trouble

    async def close(self) -> None:
        """Hear no more of who is the master; idempotent."""
        await self._lookout.close()
