"""Who is the master now: what the sentinels say, and what the server itself says then."""

import asyncio
from collections import Counter

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from streamshard.adapters.redis_link import AnswerLost, Line, NotSent, describe, open_connection, open_with_role
from streamshard.adapters.redis_url import Address, Place, host_and_port
from streamshard.core.ids import Millis

PATIENCE = Millis(1_000)
"""How long a sentinel may take to answer."""


async def masters(place: Place, timeout: Millis) -> tuple[Address, ...]:
    """Whom the sentinels name, the address that most of them name first; raises `NotSent` if none names any.

    Does not wait for the rest once most agree.
    """
    asking = [asyncio.create_task(_ask(place, seed, min(timeout, PATIENCE))) for seed in place.seeds]
    votes: Counter[Address] = Counter()
    troubles: list[str] = []
    try:
        for answer in asyncio.as_completed(asking):
            found = await answer
            if isinstance(found, str):
                troubles.append(found)
                continue
            votes[found] += 1
            if votes[found] * 2 > len(asking):
                break
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    if not votes:
        raise NotSent(f"no sentinel names a master: {'; '.join(sorted(troubles))}")
    return tuple(address for address, _ in votes.most_common())


async def _ask(place: Place, sentinel: Address, timeout: Millis) -> Address | str:
    """The master's address, or why there is none to be had."""
    where = host_and_port(sentinel)
    try:
        line = await Line.open(place.sentinel_at(sentinel), timeout)
    except NotSent as error:
        return f"{where}: {error}"
    try:
        reply = await line.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", place.service)
    except (NotSent, AnswerLost) as error:
        return f"{where}: {error}"
    finally:
        await line.close()
    if isinstance(reply, RedisError):
        return f"{where}: {describe(reply)}"
    if not isinstance(reply, list):
        return f"{where}: it knows no master called {place.service!r}"
    host, port = reply
    return host.decode(), int(port)


async def connected(place: Place, timeout: Millis) -> AbstractConnection:
    """A new connection to the server, or to the present master; raises `NotSent`. Not for a cluster."""
    if not place.sentinel:
        return await open_connection(place.at(place.seeds[0]), timeout)
    trouble = NotSent("")
    for address in await masters(place, timeout):
        try:
            return await _to_master(place, address, timeout)
        except NotSent as error:
            trouble = error
    raise trouble


async def _to_master(place: Place, address: Address, timeout: Millis) -> AbstractConnection:
    connection, role = await open_with_role(place.at(address), timeout)
    # A sentinel may not have heard yet that its master is none any more: the server itself knows.
    if role != "master":
        await connection.disconnect(nowait=True)
        raise NotSent(f"{host_and_port(address)} is a replica, and the sentinels name no other")
    return connection
