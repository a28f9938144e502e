"""Publishing: route by the coordinator's metadata, and never write to a shard that nobody reads."""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

import attrs

from streamshard.adapters.client.routes import Routes
from streamshard.adapters.hashing import placing, route
from streamshard.adapters.lives import FORKED, Life
from streamshard.core.ids import GroupKey, Millis, RecordId, ShardIndex
from streamshard.core.lease import REFRESH_MS
from streamshard.core.ports import AppendingMany, Clock, CoordinatorApi, Entropy, Scattered, ShardLog
from streamshard.core.records import Append
from streamshard.core.replies import Routing
from streamshard.core.routing import key_bytes
from streamshard.core.values import Value, encode_fields
from streamshard.errors import ConfigurationError, MaybeWritten, NotFound, NotWritten, RoutingExpired

Key: TypeAlias = str | bytes | None
Fields: TypeAlias = Mapping[str, Value] | Mapping[bytes, Value] | Mapping[str | bytes, Value]
Failure: TypeAlias = NotWritten | MaybeWritten | RoutingExpired
Trim: TypeAlias = Literal["approximate", "exact"]

RECORDS_AT_ONCE = 256
BYTES_AT_ONCE = 1_000_000
UNCERTAIN_PAUSE = Millis(200)
NAME_LENGTH = 12


@attrs.frozen(slots=False)  # with slots, making one costs three times as much
class Published:
    """Where a record went. ``version``: the layout version it was routed by."""

    id: RecordId
    shard: ShardIndex
    key: str
    version: int


@attrs.frozen
class Publishing:
    """A producer's options. ``max_attempts`` counts how often one record is sent, each time routed anew."""

    key: GroupKey
    max_len: int | None = None
    max_attempts: int = 2
    refresh_interval: Millis = REFRESH_MS
    trim: Trim = "approximate"
    retry_uncertain: bool = False

    def __attrs_post_init__(self) -> None:
        limits = {"max_len": self.max_len, "max_attempts": self.max_attempts, "refresh_interval": self.refresh_interval}
        for name, value in limits.items():
            if value is None and name == "max_len":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigurationError(f"{name}: must be a whole number of at least 1, not {value!r}")
        if self.trim not in ("approximate", "exact"):
            raise ConfigurationError(f"trim: must be 'approximate' or 'exact', not {self.trim!r}")
        if not isinstance(self.retry_uncertain, bool):
            raise ConfigurationError(f"retry_uncertain: must be True or False, not {self.retry_uncertain!r}")


@attrs.define(eq=False)
class _Draft:
    """A record on its way. ``place``: what is hashed, or the turn it takes; ``doubt``: it may be written already.

    ``once``: the name under which a server takes it once only; ``once_at``: the key where it did, if it can.
    """

    place: bytes | int
    fields: dict[bytes, bytes]
    result: Published | Failure | None = None
    doubt: MaybeWritten | None = None
    once: tuple[str, int] | None = None
    once_at: str | None = None
    waiter: "asyncio.Future[Published] | None" = None

    def end(self, result: Published | Failure) -> None:
        """Tell the result to whoever waits for this record alone."""
        self.result = result
        if self.waiter is None or self.waiter.done():
            return
        if isinstance(result, Published):
            self.waiter.set_result(result)
        else:
            self.waiter.set_exception(result)

    def fail(self, failure: Failure) -> None:
        """End without success; what may be written already stays in doubt, whatever a later attempt said."""
        if self.doubt is None or isinstance(failure, MaybeWritten):
            self.end(failure)
        else:
            self.end(MaybeWritten(f"{self.doubt.message}; then: {failure.message}"))


class Producer:
    """Publishes to the shards of one stream; belongs to one event loop. `close` only ends its watch.

    What is published in one turn of the loop is sent together; each record has its own result.
    """

    def __init__(self, options: Publishing, api: CoordinatorApi, log: ShardLog, clock: Clock, entropy: Entropy) -> None:
        self._options = options
        self._log: AppendingMany = log if isinstance(log, AppendingMany) else _OneByOne(log, options)
        self._scattered = log if isinstance(log, Scattered) else None
        self._clock, self._entropy = clock, entropy
        self._routes = Routes(options.key, api, clock, entropy, options.refresh_interval)
        self._turn = int(entropy.fraction() * 2**16)
        self._name, self._count = entropy.nonce()[:NAME_LENGTH], 0
        self._line: list[_Draft] = []
        self._sending: set[asyncio.Task[None]] = set()
        self._life = Life()

    async def publish(self, key: Key, fields: Fields) -> Published:
        """Append one record to the shard of ``key`` (None: the shards take turns).

        Raises `NotWritten` (publishing again is safe), `MaybeWritten` (it may duplicate),
        `RoutingExpired` while no coordinator renews the routing, `StreamNotFound` and `GroupNotFound`;
        `TypeError` and `InvalidRequest` for what can't be a key or a value. Nothing was sent after the last five.
        """
        self._check_life()
        draft = self._draft(key, fields)
        loop = asyncio.get_running_loop()
        draft.waiter = asyncio.Future(loop=loop)  # at half the price of the loop's own way
        if not self._line:
            loop.call_soon(self._send_line)
        self._line.append(draft)
        return await draft.waiter

    async def publish_many(self, records: Iterable[tuple[Key, Fields]]) -> list[Published | Failure]:
        """Publish each; a result or a failure for each, in their order.

        Records of one key keep their order. What can't be a key or a value, a missing stream or group, and an
        expired routing at the start raise as in `publish`, before anything is sent.
        """
        self._check_life()
        drafts = self._drafts(list(records))
        if not drafts:
            return []
        routing: Routing | None = await self._routes.current()
        for part in _parts(drafts):
            # One after the other: what is sent again must not fall behind a later record of its key.
            if (now := routing or await self._again(part)) is not None:
                await self._deliver(part, now)
            routing = None
        return [draft.result for draft in drafts if draft.result is not None]

    async def check(self) -> Routing:
        """Fetch the routing now, to fail early.

        Raises `StreamNotFound`, `GroupNotFound`, `CoordinatorUnreachable`, and `RoutingExpired` for a routing
        that can't be used.
        """
        self._check_life()
        return await self._routes.fetch()

    async def close(self) -> None:
        """Stop watching; idempotent."""
        await self._routes.close()

    @property
    def key(self) -> GroupKey:
        """The stream that is published to, and the group whose metadata routes."""
        return self._options.key

    @property
    def routing_age(self) -> Millis | None:
        """For how long the routing in use has been known; None before the first."""
        return self._routes.age

    @contextlib.contextmanager
    def instead(self, api: CoordinatorApi, log: ShardLog, clock: Clock, entropy: Entropy) -> Iterator[None]:
        """For a test: publish by other ports within this context."""
        kept = (self._log, self._scattered, self._clock, self._entropy, self._routes)
        other = Producer(self._options, api, log, clock, entropy)
        self._log, self._scattered, self._routes = other._log, other._scattered, other._routes
        self._clock, self._entropy = clock, entropy
        try:
            yield
        finally:
            self._log, self._scattered, self._clock, self._entropy, self._routes = kept

    def _check_life(self) -> None:
        if self._life.is_over():
            raise ConfigurationError(f"producer: {FORKED}")

    def _draft(self, key: Key, fields: Fields) -> _Draft:
        encoded = encode_fields(fields)  # type: ignore[arg-type]  # the union of mappings is for callers' checkers
        if key is not None:
            return _Draft(key_bytes(key), encoded)
        self._turn += 1
        return _Draft(self._turn, encoded)

    def _drafts(self, records: list[tuple[Key, Fields]]) -> list[_Draft]:
        try:
            return [self._draft(key, fields) for key, fields in records]
        except ValueError:  # from the unpacking alone; looking at each before would cost all that are right
            raise TypeError("records: each must be a pair of a key and fields") from None

    def _send_line(self) -> None:
        """Begin to deliver what was published in this turn; whoever has given up since sends nothing."""
        line, self._line = [draft for draft in self._line if draft.waiter and not draft.waiter.done()], []
        for part in _parts(line):
            sending = asyncio.get_running_loop().create_task(self._deliver_part(part))
            self._sending.add(sending)
            sending.add_done_callback(partial(self._delivered, part))

    def _delivered(self, drafts: list[_Draft], sending: "asyncio.Task[None]") -> None:
        """Whatever ended the delivery is what those hear that have no result."""
        self._sending.discard(sending)
        error = None if sending.cancelled() else sending.exception()
        for draft in drafts:
            if draft.waiter is None or draft.waiter.done():
                continue
            if error is None:
                draft.waiter.cancel()
            else:
                draft.waiter.set_exception(error)

    async def _deliver_part(self, drafts: list[_Draft]) -> None:
        await self._deliver(drafts, await self._routes.current())

    async def _deliver(self, drafts: list[_Draft], routing: Routing) -> None:
        for attempt in range(1, self._options.max_attempts + 1):
            await self._send(drafts, routing, attempt)
            drafts = [draft for draft in drafts if draft.result is None]
            if not drafts:
                return
            if any(draft.doubt is not None for draft in drafts):
                await self._clock.sleep(Millis(int(UNCERTAIN_PAUSE * (0.5 + self._entropy.fraction()))))
            found = await self._again(drafts)
            if found is None:
                return
            routing = found

    async def _again(self, drafts: list[_Draft]) -> Routing | None:
        """The routing for what is still to be sent; without one, that has failed."""
        try:
            return await self._routes.current()
        except RoutingExpired as expired:
            failure: Failure = expired
        except NotFound as error:
            failure = NotWritten(error.message)
        for draft in drafts:
            draft.fail(failure)
        return None

    async def _send(self, drafts: list[_Draft], routing: Routing, attempt: int) -> None:
        if routing.shard_count == 0:
            for draft in drafts:
                draft.fail(NotWritten(f"{routing.key.prefix} has no shards: it is drained, or not scaled out yet"))
            return
        if attempt > 1:
            drafts = self._allowed(drafts, routing)
        if not drafts:
            return
        names = self._routes.shard_keys(routing)
        shards = _shards(routing, drafts)
        keys = [names[shard] for shard in shards]
        appends = self._appends(drafts, keys)
        if self._scattered is None:
            await self._append(drafts, shards, appends, routing, attempt)
            return
        # Those for one server don't wait for another that is slow or away.
        parts = _by_server(self._scattered, drafts, shards, appends)
        await asyncio.gather(*(self._append(*part, routing, attempt) for part in parts))

    async def _append(
        self,
        drafts: Sequence[_Draft],
        shards: Sequence[ShardIndex],
        appends: Sequence[Append],
        routing: Routing,
        attempt: int,
    ) -> None:
        outcomes = await self._log.append_many(appends)
        version = routing.layout_version
        for draft, shard, append, outcome in zip(drafts, shards, appends, outcomes, strict=True):
            if isinstance(outcome, str):
                draft.end(Published(outcome, shard, append.key, version))
            else:
                self._missed(draft, outcome, append.key, attempt)

    def _appends(self, drafts: list[_Draft], keys: list[str]) -> list[Append]:
        for draft in drafts:
            if draft.once is None:
                self._count += 1
                draft.once = (self._name, self._count)
        max_len, exact = self._options.max_len, self._options.trim == "exact"
        return [Append(key, draft.fields, max_len, exact, draft.once) for key, draft in zip(keys, drafts, strict=True)]

    def _allowed(self, drafts: list[_Draft], routing: Routing) -> list[_Draft]:
        """What may be sent again; what must be sent to one key only, and no longer goes there, has failed."""
        staying, names = [], self._routes.shard_keys(routing)
        for draft in drafts:
            free = draft.doubt is None or self._options.retry_uncertain
            if free or draft.once_at == names[_shard(routing, draft.place)]:
                staying.append(draft)
            elif draft.doubt is not None:
                draft.end(draft.doubt)
        return staying

    def _missed(self, draft: _Draft, outcome: NotWritten | MaybeWritten | None, key: str, attempt: int) -> None:
        last = attempt >= self._options.max_attempts
        match outcome:
            case None:
                self._routes.doubt()
                if last:
                    why = f"{key} is retired or missing, also after {attempt} looks at the routing"
                    draft.fail(NotWritten(f"{why}: publish again later"))
            case MaybeWritten():
                draft.doubt = outcome
                draft.once_at = key if outcome.details and outcome.details.get("once") else None
                if last or not (self._options.retry_uncertain or draft.once_at):
                    draft.fail(outcome)
            case NotWritten():
                if last or draft.doubt is None:
                    draft.fail(outcome)


class _OneByOne:
    """`AppendingMany` over a log that takes one record at a time."""

    def __init__(self, log: ShardLog, options: Publishing) -> None:
        if options.max_len is not None and options.trim == "exact":
            raise ConfigurationError(f"trim: {type(log).__name__} trims approximately only")
        self._log = log

    async def append_many(self, records: Sequence[Append]) -> list[RecordId | None | NotWritten | MaybeWritten]:
        return [await self._append(record) for record in records]

    async def _append(self, record: Append) -> RecordId | None | NotWritten | MaybeWritten:
        try:
            fields: dict[str | bytes, Value] = {name: value for name, value in record.fields.items()}
            return await self._log.append(record.key, fields, record.max_len)
        except (NotWritten, MaybeWritten) as failure:
            return failure


def _shard(routing: Routing, place: bytes | int) -> ShardIndex:
    if isinstance(place, int):
        return ShardIndex(place % routing.shard_count)
    return route(routing.protocol, place, routing.shard_count)


def _shards(routing: Routing, drafts: Sequence[_Draft]) -> list[ShardIndex]:
    count, hashed = routing.shard_count, placing(routing.protocol, routing.shard_count)
    places = [draft.place for draft in drafts]
    return [ShardIndex(place % count) if isinstance(place, int) else hashed(place) for place in places]


def _by_server(
    log: Scattered, drafts: Sequence[_Draft], shards: Sequence[ShardIndex], appends: Sequence[Append]
) -> Iterable[tuple[list[_Draft], list[ShardIndex], list[Append]]]:
    parts: dict[str | None, tuple[list[_Draft], list[ShardIndex], list[Append]]] = {}
    for draft, shard, append in zip(drafts, shards, appends, strict=True):
        part = parts.setdefault(log.server_of(append.key), ([], [], []))
        part[0].append(draft)
        part[1].append(shard)
        part[2].append(append)
    return parts.values()


def _parts(drafts: list[_Draft]) -> Iterable[list[_Draft]]:
    """What travels together: bounded in records, and in bytes but for a single record that is larger."""
    first = size = 0
    for place, draft in enumerate(drafts):
        for value in draft.fields.values():
            size += len(value)
        if place > first and (place - first >= RECORDS_AT_ONCE or size > BYTES_AT_ONCE):
            yield drafts[first:place]
            first, size = place, sum(map(len, draft.fields.values()))
    if drafts:
        yield drafts[first:]
