"""The member's and the producer's side of shards in Redis or Valkey."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from redis.exceptions import NoScriptError, RedisError

from streamshard.adapters.redis_link import describe
from streamshard.adapters.streams.appender import Appender, Appending
from streamshard.adapters.streams.asking import commands_known, server_name, takes_once
from streamshard.adapters.streams.connections import (
    DEFAULT_TIMEOUT,
    AnswerLost,
    Command,
    Connections,
    Exchanging,
    NotSent,
    value,
)
from streamshard.adapters.streams.record_ids import id_order
from streamshard.adapters.streams.scripts import Call, load, run, shard_call
from streamshard.adapters.streams.understanding import understood, whole
from streamshard.adapters.streams.values import check_max_len
from streamshard.core.ids import Millis, RecordId
from streamshard.core.records import (
    Abilities,
    Access,
    AckMode,
    AckReply,
    Append,
    ClaimReply,
    DeliveryReply,
    ReadReply,
    Record,
    ShardAccess,
)
from streamshard.core.values import encode_fields
from streamshard.errors import InvalidRequest, MaybeWritten, NotWritten, StreamUnavailable

RECORDS_A_NAME, NAMES = 64, 256
"""So that a server knows the last 16,000 records of a producer on one key: many times what is sent before a retry."""

AT_ONCE = {"acknowledge": "acknowledge_at_once", "read": "read_at_once"}
"""What is asked of scripts most often, for them to try before they are read any further."""

WAIT_GRACE_MS = 2_000
"""How much longer than the block itself an answer to a wait may take."""


class FencedLog:
    """All of `ShardLog` but the waiting, over fenced scripts, wherever the shards are.

    After `StreamUnavailable` from a read, records may have been delivered whose answer was lost: they
    are pending in the group, and a claim from the start finds them.
    """

    def __init__(self, orders: Exchanging, appends: Exchanging, join: Callable[[Any], Appending]) -> None:
        self._orders = orders
        self._appends = appends
        self._appender = join(appends)
        self._acknowledger = join(orders)
        self._takes_once: bool | None = None

    async def read(self, wanted: Sequence[tuple[ShardAccess, int]]) -> tuple[ReadReply, ...]:
        """Take at most so many new records of each shard, all shards in one round trip."""
        outcomes = await run(self._orders, [_read(access, count) for access, count in wanted])
        return tuple([_read_reply(value(outcome)) for outcome in outcomes])

    async def claim(self, access: ShardAccess, start: RecordId, count: int) -> ClaimReply:
        """Take over a page of what is pending, whoever's name it is under."""
        return await self._claim(access, start, count)

    async def survey(self, access: ShardAccess, start: RecordId, count: int) -> ClaimReply:
        """As `claim`, but nothing counts as delivered."""
        return await self._claim(access, start, count, "QUIETLY")

    async def deliver(self, access: ShardAccess, ids: Sequence[RecordId]) -> DeliveryReply:
        """Count one more delivery of each."""
        (outcome,) = await run(self._orders, [_member_call("deliver", access, access.consumer, *ids)])
        return _delivery_reply(value(outcome))

    async def give_back(self, access: ShardAccess, ids: Sequence[RecordId]) -> AckReply:
        """Leave records pending under nobody's name; a server without XNACK refuses."""
        (outcome,) = await run(self._orders, [_member_call("give_back", access, *ids)])
        return _settled(value(outcome))

    async def bury(self, key: str, fields: Mapping[bytes, bytes]) -> RecordId:
        """Add a record to a stream, which is made if there is none."""
        words = [word for pair in fields.items() for word in pair]
        (outcome,) = await self._orders.exchange([("XADD", key, "*", *words)])
        return _record_id(value(outcome))

    async def abilities(self) -> Abilities:
        """Ask the server what it can do."""
        told = await self._orders.exchange([("INFO", "server"), ("COMMAND", "INFO", "XACKDEL", "XNACK")])
        for outcome in told:
            if isinstance(outcome, AnswerLost):
                raise outcome
        return Abilities(server_name(told[0]), *commands_known(told[1]))

    async def acknowledge(self, access: ShardAccess, ids: Sequence[RecordId], mode: AckMode) -> AckReply:
        """Acknowledge records; ``ACK_DEL`` only acknowledges where the server has no XACKDEL.

        Handlers of many shards that acknowledge at the same time share a round trip.
        """
        (outcome,) = await self._acknowledger.append([(*_acknowledgement(access, mode), *ids)])
        if isinstance(outcome, NoScriptError):
            (outcome,) = await run(self._orders, [_member_call("acknowledge", access, mode.value, *ids)])
        return _settled(value(outcome))

    async def append(
        self, key: str, fields: Mapping[str | bytes, str | bytes | int | float], max_len: int | None
    ) -> RecordId | None:
        """Add a record to an existing key; concurrent appends share a round trip."""
        check_max_len(max_len)
        (written,) = await self.append_many([Append(key, encode_fields(fields), max_len)])
        if isinstance(written, NotWritten | MaybeWritten):
            raise written
        return written

    async def append_many(self, records: Sequence[Append]) -> list[RecordId | None | NotWritten | MaybeWritten]:
        """Add each in turn, in one round trip, which is shared with whoever appends at the same time."""
        once = self._takes_once
        if once is None and any(record.once is not None for record in records):
            once = await self._ask_once()
        outcomes = await self._appender.append([xadd(record, once=bool(once)) for record in records])
        if any(isinstance(outcome, RedisError) for outcome in outcomes):
            self._takes_once = None  # it may be another server by now
        return written(outcomes, once=bool(once))

    async def _ask_once(self) -> bool | None:
        (told,) = await self._appender.append([("COMMAND", "INFO", "XCFGSET")])
        if not isinstance(told, StreamUnavailable):
            self._takes_once = takes_once(told)
        return self._takes_once

    async def drop_consumer(self, access: ShardAccess) -> bool:
        """Delete the consumer's name if nothing is pending under it."""
        call = shard_call(load("drop_consumer"), access.prefix, access.shard, access.group, access.consumer)
        (outcome,) = await run(self._orders, [call])
        return bool(value(outcome))

    async def close(self) -> None:
        """Let go of every connection; idempotent."""
        await self._appender.close()
        await self._acknowledger.close()
        for connections in (self._orders, self._appends):
            await connections.close()

    async def _claim(self, access: ShardAccess, start: RecordId, count: int, *how: str) -> ClaimReply:
        if count < 1:
            raise InvalidRequest(f"count: must be at least 1, not {count}")
        (outcome,) = await run(self._orders, [_member_call("claim", access, access.consumer, start, count, *how)])
        return _claim_reply(value(outcome))


class RedisShardLog(FencedLog):
    """`ShardLog` of one server; waits and appends have connections apart from reads."""

    def __init__(self, orders: Connections, waits: Connections, appends: Connections) -> None:
        super().__init__(orders, appends, Appender)
        self._waits = waits

    @classmethod
    def from_url(
        cls, url: str, *, max_connections: int = 8, max_waits: int = 16, timeout: Millis = DEFAULT_TIMEOUT
    ) -> "RedisShardLog":
        """Connect on first use; at most ``max_connections + max_waits + 1`` connections.

        Raises `ConfigurationError` for a URL that is none.
        """
        return cls(
            orders=Connections(url, limit=max_connections, timeout=timeout),
            waits=Connections(url, limit=max_waits, timeout=timeout),
            appends=Connections(url, limit=1, timeout=timeout),
        )

    async def wait(self, after: Mapping[str, RecordId], timeout: Millis) -> None:
        """Return when one of these keys has a record after its id, or on the timeout."""
        await self.wait_for_news(after, timeout)

    async def wait_for_news(self, after: Mapping[str, RecordId], timeout: Millis) -> Mapping[str, RecordId]:
        """The keys that have a record after their id, with the first one's; none of them on the timeout."""
        if timeout < 1:
            return {}
        if not after:
            await asyncio.sleep(timeout / 1000)
            return {}
        command: Command = ("XREAD", "COUNT", 1, "BLOCK", timeout, "STREAMS", *after.keys(), *after.values())
        (outcome,) = await self._waits.exchange([command], Millis(timeout + WAIT_GRACE_MS))
        news = value(outcome) or ()
        return {key.decode(): RecordId(entries[0][0].decode()) for key, entries in news}

    async def close(self) -> None:
        """Let go of every connection; idempotent."""
        await super().close()
        await self._waits.close()


def _member_call(name: str, access: ShardAccess, *arguments: str | int) -> Call:
    script = load(name, "member", first=AT_ONCE.get(name))
    common = (access.generation, access.token, access.group)
    return shard_call(script, access.prefix, access.shard, *common, *arguments)


@lru_cache(1_024)
def _acknowledgement(access: ShardAccess, mode: AckMode) -> Command:
    """All but the ids."""
    return _member_call("acknowledge", access, mode.value).by_digest()


@lru_cache(1_024)
def _ack_reply(access: bytes, acknowledged: int = 0) -> AckReply:
    return AckReply(Access(access.decode()), acknowledged)


@understood
def _settled(reply: Any) -> AckReply:
    access, *count = reply
    return _ack_reply(access, *map(whole, count))


@understood
def _record_id(reply: Any) -> RecordId:
    return RecordId(reply.decode())


@understood
def _delivery_reply(reply: Any) -> DeliveryReply:
    counts = {RecordId(raw.decode()): int(count) for rows in reply[1:] for raw, count in rows}
    return DeliveryReply(Access(reply[0].decode()), counts)


def xadd(record: Append, *, once: bool) -> Command:
    """The command that appends a record; ``once``: under the name by which the server takes it once only."""
    pairs = [word for pair in record.fields.items() for word in pair]
    named = _names(*record.once) if once and record.once is not None else ()
    if record.max_len is None:
        return ("XADD", record.key, "NOMKSTREAM", *named, "*", *pairs)
    trim = ("MAXLEN", "=" if record.exact else "~", record.max_len)
    return ("XADD", record.key, "NOMKSTREAM", *trim, *named, "*", *pairs)


def _names(producer: str, number: int) -> Command:
    # A server remembers but the last hundred records under one name.
    return ("IDMP", f"{producer}-{number // RECORDS_A_NAME % NAMES}", f"{number:x}")


def written(outcomes: Sequence[object], *, once: bool) -> list[RecordId | None | NotWritten | MaybeWritten]:
    """What became of appends, as `AppendingMany` has it."""
    return [
        RecordId(outcome.decode()) if type(outcome) is bytes else _written(outcome, once=once) for outcome in outcomes
    ]


def _written(outcome: object, *, once: bool) -> RecordId | None | NotWritten | MaybeWritten:
    match outcome:
        case None:
            return None
        case NotSent():
            return NotWritten(outcome.message)
        case AnswerLost():
            return MaybeWritten(outcome.message, {"once": True} if once else None)
        case RedisError():
            return NotWritten(f"Redis refused the record: {describe(outcome)}")
    return MaybeWritten(f"Redis answered an append with {outcome!r}")


@lru_cache(1_024)
def _read(access: ShardAccess, count: int) -> Call:
    return _member_call("read", access, access.consumer, max(count, 0))


@understood
def _read_reply(reply: Any) -> ReadReply:
    access = Access(reply[0].decode())
    if access is not Access.OK:
        return ReadReply(access)
    records = tuple([Record(RecordId(raw.decode()), _fields(flat)) for raw, flat in reply[1]])
    return ReadReply(access, records, RecordId(reply[2].decode()))


@understood
def _claim_reply(reply: Any) -> ClaimReply:
    access = Access(reply[0].decode())
    if access is not Access.OK:
        return ClaimReply(access)
    _, entries, counts, deleted, cursor, position = reply
    deliveries = dict(counts)
    found = [Record(RecordId(raw.decode()), _fields(flat), deliveries.get(raw, 1)) for raw, flat in entries]
    gone = [Record(RecordId(raw.decode()), None) for raw in deleted]
    return ClaimReply(
        access,
        records=tuple(sorted((*found, *gone), key=lambda record: id_order(record.id))),
        cursor=None if cursor == b"0-0" else RecordId(cursor.decode()),
        last_delivered=RecordId(position.decode()),
    )


def _fields(flat: list[bytes]) -> dict[bytes, bytes]:
    if len(flat) == 2:  # noqa: PLR2004  # one field, as most have: half the time of the general way
        return {flat[0]: flat[1]}
    return dict(zip(flat[::2], flat[1::2], strict=True))
