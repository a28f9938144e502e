"""The coordinator's side of shards in Redis or Valkey: one server or a cluster, by what it is connected over."""

from collections.abc import Sequence
from typing import Any, assert_never

from streamshard.adapters.streams.connections import DEFAULT_TIMEOUT, Connections, Exchanging, value
from streamshard.adapters.streams.scripts import Call, load, run, shard_call
from streamshard.adapters.streams.trimming import TRIMS_A_PIPELINE, trim_call, trimmed
from streamshard.adapters.streams.understanding import maybe_whole, understood, whole
from streamshard.core.effects import (
    DropGroup,
    DropShard,
    GroupProbe,
    GuardResult,
    MendLag,
    Provision,
    ProvisionResult,
    RaiseFence,
    RaiseLayout,
    RaiseResult,
    RaiseVerdict,
    Seal,
    ShardProbe,
    Trim,
    Trimmed,
)
from streamshard.core.ids import Generation, GroupName, LayoutVersion, Millis, RecordId, ShardIndex, StreamPrefix, Token
from streamshard.core.stream import FenceMark
from streamshard.errors import StreamUnavailable

CALLS_A_PIPELINE = 256
"""Bounds what one exchange keeps in memory on both sides."""

TOO_HIGH = 2**53
LONGEST_MARK = len(str(TOO_HIGH))


class RedisStreamBackend:
    """`StreamBackend` over scripts, each guarded by the fence beside its shard."""

    def __init__(self, connections: Exchanging) -> None:
        self._connections = connections

    @classmethod
    def from_url(cls, url: str, *, max_connections: int = 8, timeout: Millis = DEFAULT_TIMEOUT) -> "RedisStreamBackend":
        """Connect on first use; raises `ConfigurationError` for a URL that is none."""
        return cls(Connections(url, limit=max_connections, timeout=timeout))

    async def provision(self, orders: Sequence[Provision]) -> tuple[ProvisionResult, ...]:
        """Make shard keys, groups and marks."""
        replies = await self._run([_provision(order) for order in orders])
        return tuple(_provisioned(reply) for reply in replies)

    async def raise_fences(self, orders: Sequence[RaiseFence]) -> tuple[RaiseResult, ...]:
        """Raise token marks; a node of a cluster that is away leaves those of its own shards unknown."""
        outcomes = await self._ask([_raise_fence(order) for order in orders])
        if all(isinstance(outcome, StreamUnavailable) for outcome in outcomes):
            for outcome in outcomes:
                value(outcome)
        return tuple(_raised(outcome) for outcome in outcomes)

    async def raise_layouts(self, orders: Sequence[RaiseLayout]) -> tuple[GuardResult, ...]:
        """Raise layout marks."""
        script = load("raise_layout")
        replies = await self._run([shard_call(script, o.prefix, o.shard, o.generation, o.layout) for o in orders])
        return tuple(_guarded(reply) for reply in replies)

    async def read_fences(self, prefix: StreamPrefix, shards: Sequence[ShardIndex]) -> tuple[FenceMark, ...]:
        """Read the marks of shards."""
        replies = await self._run([shard_call(load("read_fence"), prefix, shard) for shard in shards])
        return tuple(_fence_mark(shard, reply) for shard, reply in zip(shards, replies, strict=True))

    async def probe(self, prefix: StreamPrefix, shards: Sequence[ShardIndex]) -> tuple[ShardProbe, ...]:
        """Look at shards exactly."""
        replies = await self._run([shard_call(load("probe"), prefix, shard) for shard in shards])
        return tuple(_shard_probe(shard, reply) for shard, reply in zip(shards, replies, strict=True))

    async def seal(self, order: Seal) -> GuardResult:
        """Retire a shard if nothing is left on it."""
        guard = (order.generation, order.layout)
        groups: tuple[str | int, ...] = (len(order.registered), *order.registered, *order.ignored)
        (reply,) = await self._run([shard_call(load("seal"), order.prefix, order.shard, *guard, *groups)])
        return _guarded(reply)

    async def tidy(self, orders: Sequence[DropGroup | MendLag | DropShard]) -> tuple[GuardResult, ...]:
        """Drop what was deleted, mend counters."""
        replies = await self._run([_tidy(order) for order in orders])
        return tuple(_guarded(reply) for reply in replies)

    async def trim(self, orders: Sequence[Trim]) -> tuple[Trimmed, ...]:
        """Remove what everybody has acknowledged, and count what went unread."""
        return tuple(trimmed(reply) for reply in await self._run([trim_call(o) for o in orders], TRIMS_A_PIPELINE))

    async def close(self) -> None:
        """Let go of every connection; idempotent."""
        await self._connections.close()

    async def _run(self, calls: Sequence[Call], at_once: int = CALLS_A_PIPELINE) -> list[Any]:
        return [value(outcome) for outcome in await self._ask(calls, at_once)]

    async def _ask(self, calls: Sequence[Call], at_once: int = CALLS_A_PIPELINE) -> list[object]:
        outcomes: list[object] = []
        for first in range(0, len(calls), at_once):
            outcomes.extend(await run(self._connections, calls[first : first + at_once]))
        return outcomes


def _provision(order: Provision) -> Call:
    groups = [text for group in order.groups for text in (group.name, group.start_id)]
    guard = (order.generation, order.layout)
    return shard_call(load("provision"), order.prefix, order.shard, *guard, int(order.adopt), *groups)


@understood
def _provisioned(reply: Any) -> ProvisionResult:
    return ProvisionResult(reply.decode())


@understood
def _guarded(reply: Any) -> GuardResult:
    return GuardResult(reply.decode())


def _raise_fence(order: RaiseFence) -> Call:
    guard = (order.generation, order.layout)
    return shard_call(load("raise_fence"), order.prefix, order.shard, *guard, order.group, order.floor, order.token)


@understood
def _raised(outcome: object) -> RaiseResult:
    if isinstance(outcome, StreamUnavailable):
        return RaiseResult(RaiseVerdict.UNKNOWN, Token(0))
    verdict, mark = value(outcome)
    return RaiseResult(RaiseVerdict(verdict.decode()), Token(int(mark)))


def _tidy(order: DropGroup | MendLag | DropShard) -> Call:
    guard = (order.generation, order.layout)
    match order:
        case DropGroup():
            return shard_call(load("drop_group"), order.prefix, order.shard, *guard, order.group)
        case MendLag():
            return shard_call(load("mend_lag"), order.prefix, order.shard, *guard, order.group)
        case DropShard():
            return shard_call(load("drop_shard"), order.prefix, order.shard, *guard)
        case _:
            assert_never(order)


@understood
def _fence_mark(shard: ShardIndex, reply: Any) -> FenceMark:
    exists, flat = reply
    found = {_text(name): _counted(mark) for name, mark in zip(flat[::2], flat[1::2], strict=True)}
    marks = {name: mark for name, mark in found.items() if mark is not None}
    return FenceMark(
        shard=shard,
        key_exists=bool(exists),
        generation=Generation(marks["gen"]) if "gen" in marks else None,
        sealed=marks.get("sealed") == 1,
        layout=LayoutVersion(marks["layout"]) if "layout" in marks else None,
        tokens={GroupName(n[2:]): Token(marks[n]) for n in sorted(marks) if n.startswith("t:")},
    )


def _counted(mark: bytes) -> int | None:
    """As the scripts count it: a mark that nobody can have written counts as none."""
    number = int(mark) if len(mark) <= LONGEST_MARK and mark.isdigit() else TOO_HIGH
    return number if number < TOO_HIGH else None


@understood
def _shard_probe(shard: ShardIndex, reply: Any) -> ShardProbe:
    exists, generation, sealed, length, lag_known, groups = reply
    return ShardProbe(
        shard=shard,
        exists=bool(exists),
        generation=None if generation is None else Generation(whole(generation)),
        sealed=bool(sealed),
        length=whole(length),
        groups=tuple(sorted((_group_probe(group) for group in groups), key=lambda probe: probe.name)),
        lag_known=bool(lag_known),
    )


def _group_probe(reply: Any) -> GroupProbe:
    name, pending, lag, last_delivered, first_undelivered, oldest_pending = reply
    return GroupProbe(
        name=GroupName(_text(name)),
        pending=whole(pending),
        lag=maybe_whole(lag),
        last_delivered=RecordId(last_delivered.decode()),
        first_undelivered=_record_id(first_undelivered),
        oldest_pending=_record_id(oldest_pending),
    )


def _record_id(raw: bytes | None) -> RecordId | None:
    return None if raw is None else RecordId(raw.decode())


def _text(raw: bytes) -> str:
    # Other people's groups may be named in any bytes.
    return raw.decode("utf-8", "backslashreplace")
