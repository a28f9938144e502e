"""Publishing: route by the coordinator's metadata, and never write to a shard that nobody reads."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import attrs

from streamshard.adapters.client.ear import Ear
from streamshard.core.ids import GroupKey, Instant, Millis, RecordId, ShardIndex, stream_key
from streamshard.core.lease import REFRESH_MS, RoutingLease, adopt, invalidate, refresh_due, usable
from streamshard.core.notices import LayoutWatch
from streamshard.core.ports import Clock, CoordinatorApi, Entropy, ShardLog, Watching
from streamshard.core.replies import Routing
from streamshard.core.routing import key_bytes, route
from streamshard.errors import (
    ConfigurationError,
    CoordinatorUnreachable,
    InvalidRequest,
    MaybeWritten,
    NotWritten,
    RoutingExpired,
)

Key: TypeAlias = str | bytes | None
Value: TypeAlias = str | bytes | int | float
Fields: TypeAlias = Mapping[str, Value] | Mapping[bytes, Value] | Mapping[str | bytes, Value]
Failure: TypeAlias = NotWritten | MaybeWritten | RoutingExpired

SHORTEST_RETRY = Millis(500)
IDLE_MS = 60_000
"""A producer that has published nothing for so long watches no more, until it does."""


@attrs.frozen
class Published:
    """Where a record went. ``version``: the layout version it was routed by."""

    id: RecordId
    shard: ShardIndex
    key: str
    version: int


@attrs.frozen
class Publishing:
    """A producer's options. ``max_attempts`` counts routings of one record, each after a refresh."""

    key: GroupKey
    max_len: int | None = None
    max_attempts: int = 2
    refresh_interval: Millis = REFRESH_MS

    def __attrs_post_init__(self) -> None:
        limits = {"max_len": self.max_len, "max_attempts": self.max_attempts, "refresh_interval": self.refresh_interval}
        for name, value in limits.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigurationError(f"{name}: must be a whole number of at least 1, not {value!r}")


class Producer:
    """Publishes to the shards of one stream; belongs to one event loop. `close` only ends its watch."""

    def __init__(self, options: Publishing, api: CoordinatorApi, log: ShardLog, clock: Clock, entropy: Entropy) -> None:
        self._options = options
        self._api, self._log, self._clock, self._entropy = api, log, clock, entropy
        self._lease = RoutingLease(options.key, options.refresh_interval)
        self._refreshing: asyncio.Task[None] | None = None
        self._retry_at = Instant(0)
        self._trouble: str | None = None
        self._turn = int(entropy.fraction() * 2**16)
        self._ear = Ear(api, clock, entropy) if isinstance(api, Watching) else None
        self._watching: asyncio.Task[None] | None = None
        self._used_at = Instant(0)

    async def publish(self, key: Key, fields: Fields) -> Published:
        """Append one record to the shard of ``key`` (None: the shards take turns).

        Raises `NotWritten` (publishing again is safe), `MaybeWritten` (it may duplicate),
        `RoutingExpired` while no coordinator renews the routing, `TypeError` for what can't be a key or
        a value.
        """
        checked = _checked(fields)
        hashed = self._round_robin() if key is None else key_bytes(key)
        for _ in range(self._options.max_attempts):
            routing = await self._routing()
            shard = _place(routing, hashed)
            written = await self._log.append(stream_key(routing.key.prefix, shard), checked, self._options.max_len)
            if written is not None:
                return Published(written, shard, stream_key(routing.key.prefix, shard), routing.layout_version)
            self._lease = invalidate(self._lease)
        raise NotWritten(
            f"{stream_key(routing.key.prefix, shard)} is retired or missing, also after {self._options.max_attempts} "
            "looks at the routing: publish again later"
        )

    async def publish_many(self, records: Iterable[tuple[Key, Fields]]) -> list[Published | Failure]:
        """Publish each; a result or a failure for each, in their order.

        Records of one key keep their order. Keys and values of a wrong type raise before anything is sent.
        """
        lanes: dict[bytes | int, list[tuple[int, Key, Fields]]] = {}
        total = 0
        for position, (key, fields) in enumerate(records):
            lane = position if key is None else key_bytes(key)
            lanes.setdefault(lane, []).append((position, key, fields))
            _checked(fields)
            total += 1
        finished = await asyncio.gather(*(self._lane(lane) for lane in lanes.values()))
        results = {position: result for lane in finished for position, result in lane}
        return [results[position] for position in range(total)]

    async def check(self) -> Routing:
        """Fetch the routing now, to fail early; raises what `publish` would, and `StreamNotFound`, `GroupNotFound`."""
        await self._refresh()
        return usable(self._lease, self._clock.boot())

    async def close(self) -> None:
        """Stop watching, for good; idempotent."""
        self._ear = None
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _lane(self, lane: list[tuple[int, Key, Fields]]) -> list[tuple[int, Published | Failure]]:
        return [(position, await self._try(key, fields)) for position, key, fields in lane]

    async def _try(self, key: Key, fields: Fields) -> Published | Failure:
        try:
            return await self.publish(key, fields)
        except (NotWritten, MaybeWritten, RoutingExpired) as failure:
            return failure

    def _round_robin(self) -> int:
        self._turn += 1
        return self._turn

    async def _routing(self) -> Routing:
        now = self._clock.boot()
        urgent = self._lease.refresh_at is None
        if urgent or (refresh_due(self._lease, now) and now >= self._retry_at):
            await self._single_refresh()
        self._keep_watching(now)
        try:
            return usable(self._lease, self._clock.boot())
        except RoutingExpired as expired:
            raise RoutingExpired(f"{expired.message}: {self._trouble}" if self._trouble else expired.message) from None

    def _keep_watching(self, now: Instant) -> None:
        self._used_at = now
        if self._ear is not None and (self._watching is None or self._watching.done()):
            self._watching = asyncio.get_running_loop().create_task(self._watch(self._ear))

    async def _watch(self, ear: Ear) -> None:
        """Refresh as soon as the layout is another one; without this the next refresh, or a nil, tells."""
        while self._clock.boot() - self._used_at < IDLE_MS and (held := self._lease.routing) is not None:
            news = await ear.hear(LayoutWatch(held.key.prefix, held.layout_version, held.lineage))
            if news is None or not news.changed:
                continue
            await self._single_refresh()
            if self._lease.routing is held:
                ear.spare()

    async def _single_refresh(self) -> None:
        """One question at a time, whoever needs it; one who gives up waiting does not stop it for the others."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
        await asyncio.shield(self._refreshing)

    async def _refresh(self) -> None:
        sent_at = self._clock.boot()
        try:
            routing = await self._api.routing(self._options.key)
        except CoordinatorUnreachable as error:
            self._unrefreshed(error.message)
            return
        self._lease, problem = adopt(self._lease, routing, sent_at, self._clock.boot(), self._entropy.fraction())
        if problem is not None:
            self._unrefreshed(problem)
            return
        self._trouble = None

    def _unrefreshed(self, trouble: str) -> None:
        self._trouble = trouble
        pause = SHORTEST_RETRY * (0.5 + self._entropy.fraction())
        self._retry_at = Instant(int(self._clock.boot() + pause))


def _place(routing: Routing, hashed: bytes | int) -> ShardIndex:
    if routing.shard_count == 0:
        raise NotWritten(f"{routing.key.prefix} has no shards: it is drained, or not scaled out yet")
    if isinstance(hashed, int):
        return ShardIndex(hashed % routing.shard_count)
    return route(routing.protocol, hashed, routing.shard_count)


def _checked(fields: Fields) -> dict[str | bytes, Value]:
    """The fields as they are stored, or what is wrong with them before anything is sent."""
    if not fields:
        raise InvalidRequest("fields: a record needs at least one field")
    record: dict[str | bytes, Value] = {}
    for name, value in fields.items():
        if not isinstance(name, str | bytes):
            raise TypeError(f"field {name!r}: the name must be str or bytes, not {type(name).__name__}")
        if isinstance(value, bool) or not isinstance(value, str | bytes | int | float):
            kind = type(value).__name__
            raise TypeError(f"field {name!r}: the value must be str, bytes, int or float, not {kind}")
        record[name] = value
    return record
