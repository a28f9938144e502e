"""Records in Redis or Valkey, one server or a cluster, that any number of coordinators may share.

A commit is one script call over the keys of one stream, an unchanged heartbeat is nothing else. Commits
and reads of many tasks travel together; each is judged by itself. A record's body crosses the wire only
when its version is not the one that was decoded here last.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import attrs
from redis.exceptions import MovedError, RedisError, ResponseError

from streamshard.adapters import redis_url
from streamshard.adapters.redis_link import AnswerLost, NotSent, Word, describe, lacks_permission
from streamshard.adapters.redis_url import host_and_port
from streamshard.adapters.stores import codec, redis_scripts
from streamshard.adapters.stores.codec import AnyGroup, AnyStream
from streamshard.adapters.stores.redis_fleet import Fleet, Primary
from streamshard.adapters.stores.redis_keys import (
    ANY_STREAM,
    INDEX,
    INDEX_SLOT,
    group_keys,
    prefix_of,
    stream_keys,
    version_from,
    version_text,
)
from streamshard.adapters.stores.redis_scripts import DEAD, LIVE, Call
from streamshard.core.group import GroupRecord, Row
from streamshard.core.ids import GroupKey, InstanceId, Millis, StreamPrefix, Version
from streamshard.core.ports import GroupSnapshot, StoreSource, StreamSnapshot, Transaction
from streamshard.core.stream import StreamRecord
from streamshard.errors import CommitUncertain, MetadataCorrupt, SourceChanged, StorePermissionMissing, StoreUnavailable

DEFAULT_TIMEOUT = Millis(5_000)
ATTEMPTS = 3
"""How often a read follows a slot that has moved, or greets a server anew."""
KEYS_A_SCAN = 1_000

R = TypeVar("R", AnyStream, AnyGroup)
Key = StreamPrefix | GroupKey


@attrs.frozen
class _Known:
    """A record as it was decoded last, by its version."""

    version: str
    size: int
    record: Any


@attrs.frozen
class _Found:
    """What the load script saw."""

    source: StoreSource
    version: bytes | None
    kind: bytes | None
    size: int
    body: bytes | None
    rows: Sequence[bytes]


class RedisStore:
    """The `MetadataStore` port over Redis; made by `open`, used on one event loop."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._known: dict[Key, _Known] = {}
        self._rows: dict[GroupKey, dict[bytes, tuple[bytes, Row]]] = {}
        self._listed: set[StreamPrefix] = set()
        """Streams that the index is known to hold, in the present generation."""
        self._listed_in = 0

    @classmethod
    async def open(cls, url: str, timeout: Millis = DEFAULT_TIMEOUT) -> "RedisStore":
        """Connect to ``redis://``, ``rediss://``, or to a cluster by ``redis+cluster://`` or ``rediss+cluster://``.

        Raises `ConfigurationError` if the URL is none or the server would forget, `StoreUnavailable` if
        it does not answer within ``timeout``.
        """
        fleet = Fleet(redis_url.parse(url), timeout)
        await fleet.open()
        return cls(fleet)

    async def load_stream(self, prefix: StreamPrefix) -> StreamSnapshot:
        """Read one stream's record."""
        known = self._known.get(prefix)
        found = await self._load(redis_scripts.load_stream(prefix, _version(known)))
        record = self._decode(found, prefix, known, codec.load_stream)
        if isinstance(record, StreamRecord):
            await self._list_if_possible(prefix)
        return StreamSnapshot(found.source, record)

    async def load_group(self, key: GroupKey) -> GroupSnapshot:
        """Read one group's record and rows in one atomic step."""
        known = self._known.get(key)
        found = await self._load(redis_scripts.load_group(key, _version(known)))
        record = self._decode(found, key, known, codec.load_group)
        return GroupSnapshot(found.source, record, self._decode_rows(found.rows, key))

    async def commit(self, transaction: Transaction) -> None:
        """Apply atomically; see the port for what is refused and how."""
        call = redis_scripts.commit(transaction)
        if transaction.stream is not None and isinstance(transaction.stream.value, StreamRecord):
            await self._list(transaction.prefix)  # before the record: a crash in between leaves a name, not a secret
        primary = self._fleet.ready(call.slot) or await self._fleet.primary(call.slot)
        if not self._fleet.is_current(transaction.source):
            raise SourceChanged(f"{transaction.source} is not the metadata store, or not the connection to it, of now")
        if call.keys:
            await self._write(primary, call, transaction)

    async def prefixes(self) -> tuple[StreamPrefix, ...]:
        """Every stream in the index that has a record, sorted."""
        members = await self._command(INDEX_SLOT, "SMEMBERS", INDEX)
        names = [StreamPrefix(bytes(member).decode("utf-8", "replace")) for member in members]
        self._listed.intersection_update(names)  # whoever is missing is listed again when its record is read next
        kinds = await asyncio.gather(*(self._kind(name) for name in names))
        return tuple(sorted(name for name, kind in zip(names, kinds, strict=True) if kind not in (None, DEAD)))

    async def versions(self, keys: Sequence[Key]) -> Mapping[Key, Version]:
        """The version of each record that there is, tombstones too; every question travels in one write."""
        texts = await asyncio.gather(*(self._command(*_at(key), "v") for key in keys))
        found = {key: version_from(text.decode()) for key, text in zip(keys, texts, strict=True) if text is not None}
        return {key: version for key, version in found.items() if version is not None}

    async def rebuild_index(self) -> tuple[StreamPrefix, ...]:
        """Look for the records of streams on every server and list them again; returns those found, sorted."""
        found: set[StreamPrefix] = set()
        for primary in await self._fleet.primaries():
            found.update(await _scan(primary))
        self._listed.clear()
        if await self._command(INDEX_SLOT, "TYPE", INDEX) not in (b"set", b"none"):
            await self._command(INDEX_SLOT, "DEL", INDEX)  # nothing of ours: until it is gone nothing can be listed
        for prefix in sorted(found):
            await self._list(prefix)
        await self._command(INDEX_SLOT, "PERSIST", INDEX)
        return tuple(sorted(found))

    async def close(self) -> None:
        """Let go of every connection; idempotent. Commits under way are told that their answer is lost."""
        await self._fleet.close()

    async def _write(self, primary: Primary, call: Call, order: Transaction) -> None:
        try:
            outcome = await primary.run(call)
        except NotSent as error:
            raise SourceChanged(f"the connection to the metadata store broke before a commit: {error}") from error
        except AnswerLost as error:
            raise CommitUncertain(f"the answer to a commit of stream {order.prefix!r} was lost: {error}") from error
        if isinstance(outcome, RedisError):
            self._fleet.note(outcome)
            if isinstance(outcome, MovedError):
                raise SourceChanged(f"another node serves stream {order.prefix!r} now")
            raise _untrusted(call, outcome) or _unavailable(outcome, primary)
        if (refusal := redis_scripts.refusal(outcome, order)) is not None:
            raise refusal

    async def _load(self, call: Call) -> _Found:
        trouble = "it kept changing"
        for _ in range(ATTEMPTS):
            primary = await self._fleet.primary(call.slot)
            source = self._fleet.source(primary)
            outcome = await _answered(primary, primary.run(call))
            if isinstance(outcome, RedisError):
                self._fleet.note(outcome)
                trouble = describe(outcome)
                if isinstance(outcome, MovedError):
                    continue
                raise _untrusted(call, outcome) or _unavailable(outcome, primary)
            role, history, expires, *found = outcome
            if role == b"master" and history.decode() == primary.identity.history:
                if expires >= 0:
                    raise redis_scripts.expiring(call.keys[0])
                return _Found(source, *found)
            # Demoted, or a primary again after having been a replica: not the server that was greeted.
            trouble = "it is another server than before"
            primary.line.hang_up(trouble)
        raise StoreUnavailable(f"the metadata store can't be read: {trouble}")

    async def _command(self, slot: int, *words: Word) -> Any:
        trouble: RedisError = ResponseError("the slot kept moving")
        for _ in range(ATTEMPTS):
            primary = await self._fleet.primary(slot)
            outcome = await _answered(primary, primary.ask(*words))
            if not isinstance(outcome, RedisError):
                return outcome
            self._fleet.note(outcome)
            trouble = outcome
            if not isinstance(outcome, MovedError):
                break
        raise _unavailable(trouble, primary)

    async def _kind(self, prefix: StreamPrefix) -> bytes | None:
        """Live or dead; whatever can't be read counts as live, so that its own trouble shows."""
        try:
            kind: bytes | None = await self._command(*_at(prefix), "k")
        except StoreUnavailable:
            return LIVE
        return kind

    async def _list(self, prefix: StreamPrefix) -> None:
        if self._listed_in != self._fleet.generation:
            self._listed.clear()  # the index may have been lost with the server that kept it
            self._listed_in = self._fleet.generation
        if prefix not in self._listed:
            await self._command(INDEX_SLOT, "SADD", INDEX, prefix)
            self._listed.add(prefix)

    async def _list_if_possible(self, prefix: StreamPrefix) -> None:
        try:
            await self._list(prefix)
        except StoreUnavailable:
            return  # only a hint is missing, and the next read tries again

    def _decode(self, found: _Found, key: Key, known: _Known | None, load: Callable[[object, Any], R]) -> R | None:
        """Decode a body, or remember what the version that the question named said last time."""
        if found.version is None and found.kind is None and found.size == 0:
            self._known.pop(key, None)
            return None
        if found.body is not None:
            record = load(found.body, key)
            known = self._known[key] = _Known(version_text(record.version), found.size, record)
        if known is None or (known.version.encode(), known.size) != (found.version, found.size):
            raise _disagree(key)
        if found.kind != (LIVE if isinstance(known.record, StreamRecord | GroupRecord) else DEAD):
            raise _disagree(key)
        same: R = known.record
        return same

    def _decode_rows(self, found: Sequence[bytes], key: GroupKey) -> Mapping[InstanceId, Row]:
        """Decode what is not byte for byte what it was last time."""
        known = self._rows.pop(key, {})
        rows: dict[bytes, tuple[bytes, Row]] = {}
        for instance, stored in sorted(zip(found[::2], found[1::2], strict=True)):
            same = known.get(instance)
            if same is None or same[0] != stored:
                name = InstanceId(instance.decode("utf-8", "replace"))
                same = (stored, redis_scripts.load_row(stored, key, name))
            rows[instance] = same
        if rows:
            self._rows[key] = rows
        return MappingProxyType({row.instance: row for _, row in rows.values()})


def _at(key: Key) -> tuple[int, str, str]:
    """The slot of a record, and how a question for one of its fields begins."""
    if isinstance(key, GroupKey):
        return stream_keys(key.prefix).slot, "HGET", group_keys(key.prefix, key.group).record
    keys = stream_keys(key)
    return keys.slot, "HGET", keys.record


def _version(known: _Known | None) -> str:
    return known.version if known is not None else ""


async def _answered(primary: Primary, asking: Any) -> Any:
    try:
        return await asking
    except (NotSent, AnswerLost) as error:
        where = host_and_port(primary.address)
        raise StoreUnavailable(f"the metadata store at {where} does not answer: {error}") from error


async def _scan(primary: Primary) -> set[StreamPrefix]:
    found: set[StreamPrefix] = set()
    cursor = b"0"
    while True:
        words = ("SCAN", cursor, "MATCH", ANY_STREAM, "COUNT", KEYS_A_SCAN)
        outcome = await _answered(primary, primary.ask(*words))
        if isinstance(outcome, RedisError):
            raise _unavailable(outcome, primary)
        cursor, keys = outcome
        found.update(prefix_of(key.decode()) for key in keys)
        if cursor == b"0":
            return found


def _unavailable(error: RedisError, primary: Primary) -> StoreUnavailable:
    where = host_and_port(primary.address)
    kind = StorePermissionMissing if lacks_permission(error) else StoreUnavailable
    return kind(f"the metadata store at {where} refuses: {describe(error)}")


def _untrusted(call: Call, error: RedisError) -> MetadataCorrupt | None:
    if not str(error).startswith("WRONGTYPE"):
        return None
    return MetadataCorrupt(f"what is stored at {' or '.join(call.keys)} can't be trusted: it is no hash")


def _disagree(key: Key) -> MetadataCorrupt:
    return MetadataCorrupt(f"the stored record of {str(key)!r} can't be trusted: body and version disagree")
