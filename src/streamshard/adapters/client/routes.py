"""The routing that a producer goes by: leased, asked for by one task at a time, and watched while it is used."""

import asyncio

from streamshard.adapters.client.ear import Ear
from streamshard.core.ids import GroupKey, Instant, Millis, ShardIndex, stream_key
from streamshard.core.lease import REFRESH_MS, RoutingLease, adopt, invalidate, refresh_due, usable
from streamshard.core.notices import LayoutWatch
from streamshard.core.ports import Clock, CoordinatorApi, Entropy, Watching
from streamshard.core.replies import Routing
from streamshard.core.timing import client_lease_ms
from streamshard.errors import NotFound, RoutingExpired, StreamshardError, Unavailable

SHORTEST_RETRY = Millis(500)
IDLE_MS = 60_000
"""A producer that has published nothing for so long watches no more, until it does."""


class Routes:
    """The routing of one group's stream; belongs to one event loop."""

    def __init__(
        self, key: GroupKey, api: CoordinatorApi, clock: Clock, entropy: Entropy, refresh: Millis = REFRESH_MS
    ) -> None:
        self._api, self._clock, self._entropy = api, clock, entropy
        self._lease = RoutingLease(key, refresh)
        self._keys: list[str] = []
        self._refreshing: asyncio.Task[None] | None = None
        self._retry_at = Instant(0)
        self._trouble: str | None = None
        self._ear = Ear(api, clock, entropy) if isinstance(api, Watching) else None
        self._watching: asyncio.Task[None] | None = None
        self._used_at = Instant(0)
        self._closed = False

    async def current(self) -> Routing:
        """The routing to use now.

        It is refreshed beside its use while it may be used, else first. Raises `RoutingExpired`, or what the
        coordinator said if it refused: `StreamNotFound`, `GroupNotFound`.
        """
        now = self._clock.boot()
        self._used_at = now
        if refresh_due(self._lease, now):
            await self._renew(now)
        if self._ear is not None and not self._closed and (self._watching is None or self._watching.done()):
            self._watching = asyncio.get_running_loop().create_task(self._watch(self._ear))
        try:
            return usable(self._lease, self._clock.boot())
        except RoutingExpired as expired:
            raise RoutingExpired(f"{expired.message}: {self._trouble}" if self._trouble else expired.message) from None

    async def fetch(self) -> Routing:
        """Ask now, whatever is known; raises as `current` does, and `Unavailable` if nobody answered."""
        await self._ask()
        return usable(self._lease, self._clock.boot())

    def shard_keys(self, routing: Routing) -> list[str]:
        """The Redis keys of the shards of the routing in use."""
        if len(self._keys) != routing.shard_count:
            self._keys = [stream_key(routing.key.prefix, ShardIndex(n)) for n in range(routing.shard_count)]
        return self._keys

    @property
    def age(self) -> Millis | None:
        """For how long the routing has been known, as the coordinator was asked for it; None without one."""
        lease = self._lease
        if lease.routing is None or lease.ends_at is None:
            return None
        return Millis(self._clock.boot() - lease.ends_at + client_lease_ms(lease.routing.lease_ms))

    def doubt(self) -> None:
        """A shard of it is not there: ask before the next use, unless that was just done."""
        self._lease = invalidate(self._lease)

    async def close(self) -> None:
        """Watch no more, and give up what is asked; idempotent."""
        self._closed = True
        tasks = [task for task in (self._watching, self._refreshing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _renew(self, now: Instant) -> None:
        if now < self._retry_at:
            return
        if self._lease.refresh_at is not None and self._lease.ends_at is not None and now < self._lease.ends_at:
            self._begin()
            return
        asking = self._begin()
        await asyncio.wait([asking])
        if asking.cancelled():
            raise RoutingExpired(f"the producer of {self._lease.key} was closed while it asked for the routing")
        asking.result()

    def _begin(self) -> "asyncio.Task[None]":
        """One question at a time, whoever needs it; one who gives up waiting does not stop it for the others."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
            self._refreshing.add_done_callback(_heard)
        return self._refreshing

    async def _watch(self, ear: Ear) -> None:
        """Refresh as soon as the layout is another one; without this the next refresh, or a nil, tells."""
        while self._clock.boot() - self._used_at < IDLE_MS and (held := self._lease.routing) is not None:
            news = await ear.hear(LayoutWatch(held.key.prefix, held.layout_version, held.lineage))
            if news is None or not news.changed:
                continue
            await asyncio.wait([self._begin()])
            if self._lease.routing is held:
                ear.spare()

    async def _refresh(self) -> None:
        known, urgent = self._lease.routing, self._lease.refresh_at is None
        try:
            await self._ask()
        except NotFound:
            # What is gone is said to whoever publishes next, not only to who happens to wait for this answer.
            self._lease = invalidate(self._lease)
            raise
        except Unavailable as error:
            self._trouble = error.message
        if self._trouble is not None or (urgent and known is not None and _same(known, self._lease.routing)):
            self._retry_at = Instant(int(self._clock.boot() + SHORTEST_RETRY * (0.5 + self._entropy.fraction())))

    async def _ask(self) -> None:
        sent_at = self._clock.boot()
        routing = await self._api.routing(self._lease.key)
        now = self._clock.boot()
        self._lease, self._trouble = adopt(self._lease, routing, sent_at, now, self._entropy.fraction())


def _same(known: Routing, found: Routing | None) -> bool:
    return found is not None and (found.lineage, found.layout_version) == (known.lineage, known.layout_version)


def _heard(task: "asyncio.Task[None]") -> None:
    # Somebody may wait for it, or nobody: what it raises is no surprise of the event loop's.
    if not task.cancelled() and isinstance(task.exception(), StreamshardError):
        return
