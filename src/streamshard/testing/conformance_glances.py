"""What a `MetadataStore` promises that can be asked for versions: mix this into its contract."""

import asyncio
from collections.abc import Mapping

import pytest

from streamshard.core.ids import GroupKey, GroupName, StreamPrefix, Version
from streamshard.core.ports import Glancing, GroupChange, MetadataStore, StreamChange
from streamshard.errors import StoreUnavailable
from streamshard.testing.samples import (
    CREATE,
    CREATE_STREAM,
    FIRST,
    KEY,
    ORDERS,
    SECOND,
    Connect,
    a_group,
    a_group_tombstone,
    a_row,
    a_stream_tombstone,
    opened,
    put,
)

Found = Mapping[GroupKey | StreamPrefix, Version]


async def ask(store: MetadataStore, *keys: GroupKey | StreamPrefix) -> Found:
    """The versions that there are."""
    assert isinstance(store, Glancing)
    return await store.versions(keys)


class GlancingContract:
    """For stores that coordinators may ask at a short pace what others have committed."""

    def test_versions_are_those_of_the_records_and_what_there_is_none_of_is_left_out(self, connect: Connect) -> None:
        nobody = GroupKey(ORDERS, GroupName("nobody"))

        async def scenario() -> tuple[Found, Found]:
            async with opened(connect) as store:
                before = await ask(store, ORDERS, KEY)
                await put(store, CREATE_STREAM, CREATE)
                return before, await ask(store, KEY, nobody, ORDERS, StreamPrefix("void"))

        assert asyncio.run(scenario()) == ({}, {ORDERS: FIRST, KEY: FIRST})

    def test_a_tombstone_has_a_version_too(self, connect: Connect) -> None:
        async def scenario() -> Found:
            async with opened(connect) as store:
                await put(store, CREATE_STREAM, CREATE)
                gone = StreamChange(FIRST, a_stream_tombstone())
                await put(store, gone, GroupChange(KEY, FIRST, a_group_tombstone()))
                return await ask(store, ORDERS, KEY)

        assert asyncio.run(scenario()) == {ORDERS: SECOND, KEY: SECOND}

    def test_a_commit_is_seen_by_every_connection_and_a_renewal_is_no_other_version(self, connect: Connect) -> None:
        async def scenario() -> list[Found]:
            async with opened(connect) as store, opened(connect) as other:
                await put(store, CREATE)
                seen = [await ask(other, KEY)]
                await put(store, GroupChange(KEY, FIRST), row=a_row())
                seen.append(await ask(other, KEY))
                await put(store, GroupChange(KEY, FIRST, a_group(SECOND)))
                return [*seen, await ask(other, KEY)]

        assert asyncio.run(scenario()) == [{KEY: FIRST}, {KEY: FIRST}, {KEY: SECOND}]

    def test_nothing_is_asked_of_nothing(self, connect: Connect) -> None:
        async def scenario() -> Found:
            async with opened(connect) as store:
                return await ask(store)

        assert asyncio.run(scenario()) == {}

    def test_a_store_that_is_closed_has_no_versions(self, connect: Connect) -> None:
        async def scenario() -> None:
            async with opened(connect) as store:
                await put(store, CREATE)
                await store.close()
                with pytest.raises(StoreUnavailable):
                    await ask(store, KEY)

        asyncio.run(scenario())
