"""Operations that can be held in the middle: ports that stop before and after every call, and what drives them."""

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar

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
from streamshard.core.ids import GroupKey, ShardIndex, StreamPrefix, stream_key
from streamshard.core.ports import (
    GroupSnapshot,
    MetadataStore,
    StreamBackend,
    StreamSnapshot,
    Transaction,
    Trimming,
)
from streamshard.core.stream import FenceMark
from streamshard.errors import StreamshardError

T = TypeVar("T")

SLEEPING = "sleep"
"""Where an errand stands that waits for its clock."""


@types.coroutine
def stand(where: str) -> Generator[str, None, None]:
    """Suspend, and say where."""
    yield where


class Errand(Generic[T]):
    """A coroutine driven step by step, without an event loop; it may be left standing between any two."""

    def __init__(self, call: Coroutine[Any, Any, T]) -> None:
        self._call = call
        self._result: list[T] = []
        self.at = "start"
        """The call of a port that it stands before (``>``) or behind (``<``), `SLEEPING`, or how it ended."""
        self.error: StreamshardError | None = None
        self.done = False

    @property
    def result(self) -> T:
        """What came of it; raises what it raised."""
        if self.error is not None:
            raise self.error
        return self._result[0]

    def step(self) -> None:
        """Go on to the next call of a port, or to the end."""
        try:
            self.at = self._call.send(None) or SLEEPING
        except StopIteration as stop:
            self._result.append(stop.value)
            self.at, self.done = "end", True
        except StreamshardError as error:
            self.error = error
            self.at, self.done = type(error).__name__, True

    def go_to(self, where: str) -> bool:
        """Go on until it stands at ``where``; False if it ended or fell asleep before."""
        while not self.done and self.at != where:
            self.step()
            if self.at == SLEEPING:
                return False
        return not self.done

    def cancel(self) -> None:
        """Never go on: its process was killed."""
        self._call.close()
        self.at, self.done = "killed", True


async def _through(name: str, call: Callable[[], Awaitable[T]]) -> T:
    await stand(f"> {name}")
    result = await call()
    await stand(f"< {name}")
    return result


class SteppedStore:
    """A `MetadataStore` that stops before and after every call to another one.

    ``watch`` is called between two changes of what is stored, in the very moment of a commit.
    """

    def __init__(self, store: MetadataStore, watch: Callable[[], None]) -> None:
        self._store = store
        self._watch = watch

    async def load_stream(self, prefix: StreamPrefix) -> StreamSnapshot:
        """Read one stream's record."""
        return await _through("load_stream", lambda: self._store.load_stream(prefix))

    async def load_group(self, key: GroupKey) -> GroupSnapshot:
        """Read one group's record and rows."""
        return await _through("load_group", lambda: self._store.load_group(key))

    async def commit(self, transaction: Transaction) -> None:
        """Apply atomically."""
        await _through("commit", lambda: self._commit(transaction))

    async def prefixes(self) -> tuple[StreamPrefix, ...]:
        """Every stream that has a record."""
        return await _through("prefixes", self._store.prefixes)

    async def close(self) -> None:
        """Close the other one."""
        await self._store.close()

    async def _commit(self, transaction: Transaction) -> None:
        try:
            await self._store.commit(transaction)
        finally:
            self._watch()


class SteppedBackend:
    """A `StreamBackend` that stops before and after every call to another one; ``watch`` as for the store.

    ``dropped`` hears the key of every shard on which a deleted group was destroyed.
    """

    def __init__(self, streams: StreamBackend, watch: Callable[[], None], dropped: Callable[[str], None]) -> None:
        self._streams = streams
        self._watch = watch
        self._dropped = dropped

    async def provision(self, orders: Sequence[Provision]) -> tuple[ProvisionResult, ...]:
        """Make shard keys, groups and marks."""
        return await self._changing("provision", lambda: self._streams.provision(orders))

    async def raise_fences(self, orders: Sequence[RaiseFence]) -> tuple[RaiseResult, ...]:
        """Raise token marks."""
        return await self._changing("raise_fences", lambda: self._streams.raise_fences(orders))

    async def raise_layouts(self, orders: Sequence[RaiseLayout]) -> tuple[GuardResult, ...]:
        """Raise layout marks."""
        return await self._changing("raise_layouts", lambda: self._streams.raise_layouts(orders))

    async def read_fences(self, prefix: StreamPrefix, shards: Sequence[ShardIndex]) -> tuple[FenceMark, ...]:
        """Read the marks of shards."""
        return await _through("read_fences", lambda: self._streams.read_fences(prefix, shards))

    async def probe(self, prefix: StreamPrefix, shards: Sequence[ShardIndex]) -> tuple[ShardProbe, ...]:
        """Look at shards exactly."""
        return await _through("probe", lambda: self._streams.probe(prefix, shards))

    async def seal(self, order: Seal) -> GuardResult:
        """Retire a shard if nothing is left on it."""
        return await self._changing("seal", lambda: self._streams.seal(order))

    async def tidy(self, orders: Sequence[DropGroup | MendLag | DropShard]) -> tuple[GuardResult, ...]:
        """Drop the groups of deleted ones, mend counters."""
        return await self._changing("tidy", lambda: self._tidy(orders))

    async def trim(self, orders: Sequence[Trim]) -> tuple[Trimmed, ...]:
        """Remove what everybody has acknowledged."""
        streams = self._streams
        assert isinstance(streams, Trimming), "the shards in memory can be trimmed"
        return await self._changing("trim", lambda: streams.trim(orders))

    async def _tidy(self, orders: Sequence[DropGroup | MendLag | DropShard]) -> tuple[GuardResult, ...]:
        results = await self._streams.tidy(orders)
        for order, result in zip(orders, results, strict=True):
            if isinstance(order, DropGroup) and result is GuardResult.DONE:
                self._dropped(stream_key(order.prefix, order.shard))
        return results

    async def _changing(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        async def watched() -> T:
            try:
                return await call()
            finally:
                self._watch()

        return await _through(name, watched)


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    errand = Errand(call)
    errand.step()
    assert errand.done, f"it stands at {errand.at}"
    return errand.result
