"""Every store keeps the promises of the port."""

from pathlib import Path

import pytest

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.stores.sqlite import SqliteStore
from streamshard.core.ports import MetadataStore
from streamshard.testing.conformance import MetadataStoreContract
from streamshard.testing.conformance_glances import GlancingContract
from streamshard.testing.samples import Connect


class TestMemoryStore(MetadataStoreContract, GlancingContract):
    """In memory; each connection is one of the same store."""

    @pytest.fixture
    def connect(self) -> Connect:
        store = MemoryStore()

        async def another() -> MetadataStore:
            return store.connect()

        return another


class TestSqliteStore(MetadataStoreContract, GlancingContract):
    """On disk; each connection is a store of its own on the same file."""

    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        async def another() -> MetadataStore:
            return await SqliteStore.open(tmp_path / "meta.db")

        return another
