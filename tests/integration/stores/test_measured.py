"""A store that is timed keeps the promises of the port, and tells how long each operation took."""

import asyncio

import pytest

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.core.ports import Glancing, MetadataStore
from streamshard.entrypoints.http.metrics_recorder import Recorder
from streamshard.entrypoints.measured import measured
from streamshard.errors import RevisionConflict
from streamshard.testing.conformance import MetadataStoreContract
from streamshard.testing.conformance_glances import GlancingContract
from streamshard.testing.samples import CREATE_STREAM, KEY, ORDERS, Connect, put


class TestMeasuredStore(MetadataStoreContract, GlancingContract):
    """In memory; each connection is one of the same store."""

    @pytest.fixture
    def connect(self) -> Connect:
        store = MemoryStore()

        async def another() -> MetadataStore:
            return measured(store.connect(), "memory", Recorder())

        return another


class Plain:
    """A store that offers no more than it has to."""

    def __init__(self, store: MemoryStore) -> None:
        self.load_stream, self.load_group, self.commit = store.load_stream, store.load_group, store.commit
        self.prefixes, self.close = store.prefixes, store.close


def test_each_operation_is_counted_under_its_name() -> None:
    async def scenario() -> None:
        recorder = Recorder()
        store = measured(MemoryStore(), "memory", recorder)
        assert isinstance(store, Glancing)

        await store.load_stream(ORDERS)
        await store.load_group(KEY)
        await store.load_group(KEY)
        await store.prefixes()
        await store.versions([KEY])

        assert _counts(recorder) == {"load_stream": 1, "load_group": 2, "commit": 0, "prefixes": 1, "versions": 1}
        await store.close()

    asyncio.run(scenario())


def test_what_is_refused_takes_its_time_too() -> None:
    async def scenario() -> None:
        recorder = Recorder()
        store = measured(MemoryStore(), "memory", recorder)
        await put(store, CREATE_STREAM)

        with pytest.raises(RevisionConflict):
            await put(store, CREATE_STREAM)

        assert _counts(recorder)["commit"] == 2
        await store.close()

    asyncio.run(scenario())


def test_a_store_without_glances_offers_none() -> None:
    store = measured(Plain(MemoryStore()), "plain", Recorder())

    assert not isinstance(store, Glancing)


def _counts(recorder: Recorder) -> dict[str, int]:
    return {operation: sum(timed.counts) for (_, operation), timed in recorder.stores.items()}
