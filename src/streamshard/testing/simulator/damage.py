"""What may be wrong with a store and with single shards of a Redis, besides what the adapters in memory can do."""

import enum
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import attrs

from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.core.effects import (
    DropGroup,
    DropShard,
    GuardResult,
    MendLag,
    Provision,
    ProvisionResult,
    RaiseFence,
    RaiseLayout,
    RaiseResult,
    Seal,
    ShardProbe,
    Trim,
    Trimmed,
)
from streamshard.core.ids import GroupKey, ShardIndex, StreamPrefix, Version
from streamshard.core.ports import GroupChange, GroupSnapshot, MetadataStore, StreamSnapshot, Transaction
from streamshard.core.stream import FenceMark
from streamshard.errors import MetadataCorrupt, RevisionConflict, StreamUnavailable
from streamshard.testing.checkers import Violation

T = TypeVar("T")


class Damage(enum.Enum):
    """What is wrong with a record."""

    TORN = "TORN"  # it can't be decoded
    MISSING = "MISSING"  # its key was deleted


Damages = dict[GroupKey | StreamPrefix, Damage]


@attrs.frozen
class DamagedStore:
    """A `MetadataStore` over another one, some of whose records are torn or missing; they come back as they were."""

    store: MetadataStore
    damages: Damages

    async def load_stream(self, prefix: StreamPrefix) -> StreamSnapshot:
        """Read one stream's record."""
        found = await self.store.load_stream(prefix)
        damage = self._damage(prefix)
        return attrs.evolve(found, record=None) if damage is Damage.MISSING else found

    async def load_group(self, key: GroupKey) -> GroupSnapshot:
        """Read one group's record and rows."""
        found = await self.store.load_group(key)
        damage = self._damage(key)
        return GroupSnapshot(found.source, None, MappingProxyType({})) if damage is Damage.MISSING else found

    async def commit(self, transaction: Transaction) -> None:
        """Apply atomically; what names a damaged record finds another one than it knew, and a missing one none."""
        if not self.damages:
            await self.store.commit(transaction)
            return
        if transaction.stream is not None and transaction.prefix in self.damages:
            raise _refusal(transaction.prefix, transaction.stream.expected)
        groups = [await self._really(change) for change in transaction.groups]
        await self.store.commit(attrs.evolve(transaction, groups=tuple(groups)))
        for change in groups:
            self.damages.pop(change.key, None)

    async def _really(self, change: GroupChange) -> GroupChange:
        # An operator may delete a group whose record is missing, and make it anew: over what was there.
        if change.key not in self.damages:
            return change
        if self.damages[change.key] is Damage.TORN or change.expected is not None or change.value is None:
            raise _refusal(change.key, change.expected)
        record = (await self.store.load_group(change.key)).record
        return attrs.evolve(change, expected=record.version if record is not None else None)

    async def prefixes(self) -> tuple[StreamPrefix, ...]:
        """Every stream that has a record."""
        return tuple(p for p in await self.store.prefixes() if self.damages.get(p) is not Damage.MISSING)

    async def close(self) -> None:
        """Close the other one."""
        await self.store.close()

    def _damage(self, name: GroupKey | StreamPrefix) -> Damage | None:
        damage = self.damages.get(name)
        if damage is Damage.TORN:
            raise MetadataCorrupt(f"{name} can't be decoded")
        return damage


def _refusal(name: GroupKey | StreamPrefix, expected: Version | None) -> Exception:
    if expected is None:
        return Violation(f"I7: {name} is damaged, and would have been made anew")
    return RevisionConflict(f"{name} has moved on")


class Reach(enum.Enum):
    """What is wrong with a shard's server."""

    AWAY = "AWAY"  # nothing reaches it
    MUTE = "MUTE"  # everything reaches it, no answer comes back


Reaches = dict[ShardIndex, Reach]


class PatchyBackend:
    """A `StreamBackend` and its trimming over the one in memory, some of whose shards don't answer."""

    def __init__(self, streams: MemoryStreamBackend, reaches: Reaches) -> None:
        self._streams = streams
        self._reaches = reaches

    async def provision(self, orders: Sequence[Provision]) -> tuple[ProvisionResult, ...]:
        """Make shard keys, groups and marks."""
        return await self._at(self._of(orders), lambda: self._streams.provision(orders))

    async def raise_fences(self, orders: Sequence[RaiseFence]) -> tuple[RaiseResult, ...]:
        """Raise token marks."""
        return await self._at(self._of(orders), lambda: self._streams.raise_fences(orders))

    async def raise_layouts(self, orders: Sequence[RaiseLayout]) -> tuple[GuardResult, ...]:
        """Raise layout marks."""
        return await self._at(self._of(orders), lambda: self._streams.raise_layouts(orders))

    async def read_fences(self, prefix: StreamPrefix, shards: Sequence[ShardIndex]) -> tuple[FenceMark, ...]:
        """Read the marks of shards."""
        return await self._at(shards, lambda: self._streams.read_fences(prefix, shards))

    async def probe(self, prefix: StreamPrefix, shards: Sequence[ShardIndex]) -> tuple[ShardProbe, ...]:
        """Look at shards exactly."""
        return await self._at(shards, lambda: self._streams.probe(prefix, shards))

    async def seal(self, order: Seal) -> GuardResult:
        """Retire a shard if nothing is left on it."""
        return await self._at([order.shard], lambda: self._streams.seal(order))

    async def tidy(self, orders: Sequence[DropGroup | MendLag | DropShard]) -> tuple[GuardResult, ...]:
        """Drop what was deleted, mend counters."""
        return await self._at(self._of(orders), lambda: self._streams.tidy(orders))

    async def trim(self, orders: Sequence[Trim]) -> tuple[Trimmed, ...]:
        """Remove what everybody has acknowledged."""
        return await self._at(self._of(orders), lambda: self._streams.trim(orders))

    def _of(self, orders: Sequence[Any]) -> list[ShardIndex]:
        return [order.shard for order in orders]

    async def _at(self, shards: Iterable[ShardIndex], call: Callable[[], Awaitable[T]]) -> T:
        if not self._reaches:
            return await call()
        found = {self._reaches[shard] for shard in shards if shard in self._reaches}
        if Reach.AWAY in found:
            raise StreamUnavailable("a shard's server does not answer")
        result = await call()
        if found:
            raise StreamUnavailable("the answer of a shard's server was lost")
        return result
