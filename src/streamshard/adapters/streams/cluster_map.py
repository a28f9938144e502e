"""Which node of a Redis Cluster serves which slot, as far as this process knows."""

import asyncio
from collections.abc import Callable
from functools import lru_cache

from redis.exceptions import RedisError

from streamshard.adapters.redis_link import Address, AnswerLost, Line, NotSent, describe
from streamshard.adapters.redis_url import Place
from streamshard.core.ids import Millis
from streamshard.core.slots import SLOT_COUNT, hash_slot
from streamshard.errors import StreamUnavailable

LOOK_MS = Millis(1_500)
"""How long a node may take to say who serves what, before the next one is asked."""

REST_S = 0.1
"""A map so fresh is not asked for again: in a failover every shard's trouble would ask."""

slot_of: Callable[[str | bytes], int] = lru_cache(maxsize=65_536)(hash_slot)


class ClusterMap:
    """Learns from whichever node answers, and from every redirect."""

    def __init__(self, place: Place, timeout: Millis) -> None:
        self.place = place
        self._look_ms = min(timeout, LOOK_MS)
        self._owners: list[Address | None] = [None] * SLOT_COUNT
        self._nodes: tuple[Address, ...] = ()
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")
        self._left: list[Callable[[frozenset[Address]], None]] = []

    @property
    def nodes(self) -> tuple[Address, ...]:
        """The nodes that serve slots, sorted; none before the first look."""
        return self._nodes

    def owner(self, key: str | bytes) -> Address | None:
        """The node that serves ``key``; None if nobody is known to."""
        return self._owners[slot_of(key)]

    def tell(self, served: Callable[[frozenset[Address]], None]) -> None:
        """Call ``served`` with every node that serves slots, after each look."""
        self._left.append(served)

    def moved(self, key: str | bytes, address: Address) -> None:
        """A node said that another one serves the slot of ``key``; what else has changed is asked in passing."""
        self._owners[slot_of(key)] = address
        self.suspect(None)

    def suspect(self, address: Address | None) -> None:
        """Look again soon, at ``address`` last of all, without waiting for it."""
        self._look(address)

    async def refresh(self, last: Address | None = None) -> None:
        """Look again, unless that was a moment ago; ``last``: whom not to believe if others answer.

        Raises `StreamUnavailable` if no node answers.
        """
        if (looking := self._look(last)) is not None:
            await asyncio.shield(looking)

    async def close(self) -> None:
        """End a look that is under way; idempotent."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    def _look(self, last: Address | None) -> "asyncio.Task[None] | None":
        loop = asyncio.get_running_loop()
        if self._looking is None and loop.time() - self._looked_at < REST_S:
            return None
        if self._looking is None:
            self._looking = loop.create_task(self._ask_around(last))
            self._looking.add_done_callback(self._looked)
        return self._looking

    def _looked(self, looking: "asyncio.Task[None]") -> None:
        self._looking, self._looked_at = None, asyncio.get_running_loop().time()
        if not looking.cancelled():
            looking.exception()  # everybody who wanted to know may be gone

    async def _ask_around(self, last: Address | None) -> None:
        known = list(dict.fromkeys((*self._nodes, *self.place.seeds)))
        trouble = ""
        # By turns: a node that is cut off from the rest would give its old map again and again.
        for address in sorted(known, key=lambda node: node == last):
            try:
                self._settle(await self._ask(address))
                return
            except StreamUnavailable as error:
                trouble = error.message
        raise StreamUnavailable(f"no node of the Redis Cluster says who serves what: {trouble}")

    async def _ask(self, address: Address) -> list[Address | None]:
        name = f"{address[0]}:{address[1]}"
        try:
            line = await Line.open(self.place.at(address), self._look_ms)
            try:
                reply = await line.ask("CLUSTER", "SLOTS")
            finally:
                await line.close()
        except (NotSent, AnswerLost) as error:
            raise StreamUnavailable(f"{name} does not answer: {error}") from error
        if isinstance(reply, RedisError):
            raise StreamUnavailable(f"{name} is no node of a cluster, or does not say so: {describe(reply)}")
        owners = _owners(reply, address)
        if not any(owners):
            raise StreamUnavailable(f"{name} knows no cluster yet")
        return owners

    def _settle(self, owners: list[Address | None]) -> None:
        self._owners = owners
        self._nodes = tuple(sorted({owner for owner in owners if owner is not None}))
        for served in self._left:
            served(frozenset(self._nodes))


def _owners(reply: object, asked: Address) -> list[Address | None]:
    owners: list[Address | None] = [None] * SLOT_COUNT
    assert isinstance(reply, list), "CLUSTER SLOTS answers with a list"
    for first, last, (host, port, *_), *_ in reply:
        # A node that does not know its own name is where it was asked.
        owner = (host.decode() if host else asked[0], int(port))
        owners[first : last + 1] = [owner] * (last + 1 - first)
    return owners
