"""The member's and the producer's side of shards in a Redis Cluster."""

import asyncio
from collections.abc import Mapping, Sequence

from redis.exceptions import MovedError, RedisError

from streamshard.adapters.redis_link import Address, describe
from streamshard.adapters.redis_url import Place
from streamshard.adapters.streams.asking import commands_known, server_name, takes_once
from streamshard.adapters.streams.cluster_ear import Ear
from streamshard.adapters.streams.cluster_link import ClusterLink, named
from streamshard.adapters.streams.cluster_map import ClusterMap
from streamshard.adapters.streams.connections import DEFAULT_TIMEOUT, NotSent, Refused
from streamshard.adapters.streams.redis_log import FencedLog, written, xadd
from streamshard.core.ids import Millis, RecordId
from streamshard.core.records import Abilities, Append
from streamshard.errors import MaybeWritten, NotWritten, StreamUnavailable

HOPS = 3


class ClusterShardLog(FencedLog):
    """`ShardLog` over all nodes of a cluster: per node one connection for reads, one for appends, two for waits."""

    def __init__(self, place: Place, timeout: Millis = DEFAULT_TIMEOUT) -> None:
        self._map = ClusterMap(place, timeout)
        self._link, self._publishing = ClusterLink(self._map, timeout), ClusterLink(self._map, timeout)
        self._timeout = timeout
        super().__init__(self._link, self._publishing, lambda link: link)
        self._once: dict[str | None, bool] = {}
        self._ears: dict[Address, Ear] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        self._map.tell(self._drop_others)

    def server_of(self, key: str) -> str | None:
        """The node that serves a shard, as far as known."""
        return self._link.where(key)

    async def append_many(self, records: Sequence[Append]) -> list[RecordId | None | NotWritten | MaybeWritten]:
        """Add each in turn: one round trip to each node that has to do with it."""
        once = False
        if any(record.once is not None for record in records):
            try:
                once = await self._take_once({record.key for record in records})
            except StreamUnavailable as trouble:
                if len({self.server_of(record.key) for record in records}) == 1:
                    return [NotWritten(trouble.message) for _ in records]
        outcomes = await self._appender.append([xadd(record, once=once) for record in records])
        for record, outcome in zip(records, outcomes, strict=True):
            if isinstance(outcome, RedisError):
                self._once.pop(self.server_of(record.key), None)  # it may be another server by now
        return written(outcomes, once=once)

    async def _take_once(self, keys: set[str]) -> bool:
        """Whether each server of these takes a named record once only; raises `StreamUnavailable`."""
        for key in {self.server_of(key): key for key in sorted(keys)}.values():
            if self.server_of(key) not in self._once:
                told = await self._publishing.ask_beside(key, ("COMMAND", "INFO", "XCFGSET"))
                if isinstance(told, StreamUnavailable):
                    raise told
                self._once[self.server_of(key)] = takes_once(told)
        return all(self._once.get(self.server_of(key), False) for key in keys)

    async def abilities(self) -> Abilities:
        """What every node can do."""
        names = await self._link.everywhere(("INFO", "server"))
        told = await self._link.everywhere(("COMMAND", "INFO", "XACKDEL", "XNACK"))
        for outcome in (*names.values(), *told.values()):
            if isinstance(outcome, StreamUnavailable):
                raise outcome
        known = [commands_known(each) for each in told.values()]
        everyone = ", ".join(sorted({server_name(name) for name in names.values()}))
        return Abilities(everyone, all(known_one for known_one, _ in known), all(known_two for _, known_two in known))

    async def wait(self, after: Mapping[str, RecordId], timeout: Millis) -> None:
        """Return when one of these keys has a record after its id or was written to, or on the timeout."""
        if timeout < 1:
            return
        waits = [asyncio.ensure_future(self._wait(key, position)) for key, position in after.items()]
        if not waits:
            await asyncio.sleep(timeout / 1000)
            return
        try:
            await asyncio.wait(waits, timeout=timeout / 1000, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            outcomes = await asyncio.gather(*waits, return_exceptions=True)
        troubles = [outcome for outcome in outcomes if isinstance(outcome, StreamUnavailable)]
        if troubles and None not in outcomes:
            raise troubles[0]

    async def close(self) -> None:
        """Let go of every connection; idempotent."""
        self._closed = True
        ears, self._ears = list(self._ears.values()), {}
        for ear in ears:
            await ear.close()
        if self._closing:
            await asyncio.wait(self._closing)
        await super().close()

    async def _wait(self, key: str, after: RecordId) -> None:
        for _ in range(HOPS):
            address = await self._owner(key)
            try:
                refusal = await self._ear(address).wait(key, after)
            except StreamUnavailable:
                self._map.suspect(address)
                raise
            if refusal is None:
                return
            if not isinstance(refusal, MovedError):
                raise Refused(f"Redis refused to wait for {key}: {describe(refusal)}")
            self._map.moved(key, named(refusal, address))
        raise Refused(f"Redis refused to wait for {key}: its slot kept moving")

    async def _owner(self, key: str) -> Address:
        if self._closed:
            raise NotSent("The connections to Redis are closed")
        if not self._map.nodes:
            await self._map.refresh()
        address = self._map.owner(key)
        if address is None:
            self._map.suspect(None)
            raise NotSent(f"no node of the Redis Cluster serves {key}")
        return address

    def _ear(self, address: Address) -> Ear:
        ear = self._ears.get(address)
        if ear is None:
            ear = self._ears[address] = Ear(self._map.place, address, self._timeout)
        return ear

    def _drop_others(self, served: frozenset[Address]) -> None:
        for address in [address for address in self._ears if address not in served]:
            task = asyncio.get_running_loop().create_task(self._ears.pop(address).close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
