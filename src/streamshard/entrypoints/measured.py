"""A metadata store whose operations are timed: between the coordinator and the store that does the work."""

from collections.abc import Mapping, Sequence

from streamshard.core.ids import GroupKey, StreamPrefix, Version
from streamshard.core.ports import Glancing, GroupSnapshot, MetadataStore, StreamSnapshot, Transaction
from streamshard.core.tally import Histogram
from streamshard.entrypoints.http.metrics_recorder import Recorder, now


class MeasuredStore:
    """Does as the store inside does; what it refuses takes its time too."""

    def __init__(self, store: MetadataStore, kind: str, recorder: Recorder) -> None:
        self._store = store
        self._streams = recorder.store(kind, "load_stream")
        self._groups = recorder.store(kind, "load_group")
        self._commits = recorder.store(kind, "commit")
        self._prefixes = recorder.store(kind, "prefixes")

    async def load_stream(self, prefix: StreamPrefix) -> StreamSnapshot:
        """As the store inside."""
        began = now()
        try:
            return await self._store.load_stream(prefix)
        finally:
            self._streams.note(now() - began)

    async def load_group(self, key: GroupKey) -> GroupSnapshot:
        """As the store inside."""
        began = now()
        try:
            return await self._store.load_group(key)
        finally:
            self._groups.note(now() - began)

    async def commit(self, transaction: Transaction) -> None:
        """As the store inside."""
        began = now()
        try:
            await self._store.commit(transaction)
        finally:
            self._commits.note(now() - began)

    async def prefixes(self) -> tuple[StreamPrefix, ...]:
        """As the store inside."""
        began = now()
        try:
            return await self._store.prefixes()
        finally:
            self._prefixes.note(now() - began)

    async def close(self) -> None:
        """As the store inside."""
        await self._store.close()


class MeasuredGlances(MeasuredStore):
    """The same of a store that offers glances."""

    def __init__(self, store: MetadataStore, glancing: Glancing, kind: str, recorder: Recorder) -> None:
        super().__init__(store, kind, recorder)
        self._glancing = glancing
        self._versions: Histogram = recorder.store(kind, "versions")

    async def versions(self, keys: Sequence[GroupKey | StreamPrefix]) -> Mapping[GroupKey | StreamPrefix, Version]:
        """As the store inside."""
        began = now()
        try:
            return await self._glancing.versions(keys)
        finally:
            self._versions.note(now() - began)


def measured(store: MetadataStore, kind: str, recorder: Recorder) -> MetadataStore:
    """``store`` with its operations timed under ``kind``; it offers what that one offers."""
    if isinstance(store, Glancing):
        return MeasuredGlances(store, store, kind, recorder)
    return MeasuredStore(store, kind, recorder)
