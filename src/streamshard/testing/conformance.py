"""What every `MetadataStore` promises, as tests: subclass the contract and say how to connect.

Needs pytest. Each test opens its connections inside its own event loop and closes them again.
"""

import asyncio
import contextlib
from collections.abc import Callable

import attrs
import pytest

from streamshard.core.group import GroupRecord, Row
from streamshard.core.ids import (
    GroupKey,
    GroupName,
    InstanceId,
    Lineage,
    Nonce,
    StreamPrefix,
    Version,
    next_version,
)
from streamshard.core.ports import (
    GroupChange,
    GroupSnapshot,
    MetadataStore,
    RowWrite,
    StoreSource,
    StreamChange,
    StreamSnapshot,
    Transaction,
)
from streamshard.errors import RevisionConflict, SourceChanged, StaleSequence, StoreUnavailable
from streamshard.testing.conformance_rows import RenewalRowsContract
from streamshard.testing.samples import (
    BILLING,
    COMPARE,
    CREATE,
    CREATE_STREAM,
    FIRST,
    KEY,
    ONE,
    ORDERS,
    SECOND,
    THIRD,
    TWO,
    Connect,
    a_group,
    a_group_tombstone,
    a_row,
    a_stream,
    a_stream_tombstone,
    opened,
    put,
    source_of,
    state,
)


class MetadataStoreContract(RenewalRowsContract):
    """Subclass this as ``TestMyStore`` with a fixture ``connect``."""

    @pytest.fixture
    def connect(self) -> Connect:
        """Say how to open a connection to a store that is empty at the start of the test."""
        raise AssertionError("the subclass has to define the fixture 'connect'")

    def test_what_was_never_written_is_absent_and_not_an_error(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                return await state(store)

        assert asyncio.run(scenario()) == (None, None, {})

    def test_a_created_record_is_read_back_equal(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE_STREAM, CREATE)
                return await state(store)

        assert asyncio.run(scenario()) == (a_stream(), a_group(), {})

    def test_one_read_gives_the_record_with_its_rows_and_their_source(self, connect: Connect) -> None:
        async def scenario() -> tuple[GroupSnapshot, GroupSnapshot]:
            async with opened(connect) as store:
                await put(store, CREATE, row=a_row())
                await put(store, COMPARE, row=a_row(5, TWO))
                expected = GroupSnapshot(await source_of(store), a_group(), {ONE: a_row(), TWO: a_row(5, TWO)})
                return await store.load_group(KEY), expected

        found, expected = asyncio.run(scenario())

        assert found == expected

    def test_a_snapshot_does_not_change_when_the_store_does(self, connect: Connect) -> None:
        async def scenario() -> GroupSnapshot:
            async with opened(connect) as store:
                await put(store, CREATE, row=a_row())
                before = await store.load_group(KEY)
                await put(store, GroupChange(KEY, FIRST, a_group(SECOND)), row=a_row(2))
                return before

        before = asyncio.run(scenario())

        assert (before.record, dict(before.rows)) == (a_group(), {ONE: a_row()})

    def test_creating_what_exists_is_refused(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE_STREAM, CREATE)
                for again in (StreamChange(None, a_stream(SECOND)), GroupChange(KEY, None, a_group(SECOND))):
                    with pytest.raises(RevisionConflict):
                        await put(store, again)
                return await state(store)

        assert asyncio.run(scenario()) == (a_stream(), a_group(), {})

    def test_replacing_or_comparing_what_is_not_there_is_refused(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                for change in (
                    StreamChange(FIRST, a_stream(SECOND)),
                    GroupChange(KEY, FIRST, a_group(SECOND)),
                    COMPARE,
                ):
                    with pytest.raises(RevisionConflict):
                        await put(store, change)
                return await state(store)

        assert asyncio.run(scenario()) == (None, None, {})

    def test_comparing_with_absence_holds_while_nothing_is_there(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE_STREAM, GroupChange(KEY, None))
                return await state(store)

        assert asyncio.run(scenario()) == (a_stream(), None, {})

    def test_a_stale_writer_loses(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE_STREAM, CREATE)
                await put(store, StreamChange(FIRST, a_stream(SECOND)), GroupChange(KEY, FIRST, a_group(SECOND)))
                for stale in (StreamChange(FIRST, a_stream(THIRD)), GroupChange(KEY, FIRST, a_group(THIRD))):
                    with pytest.raises(RevisionConflict):
                        await put(store, stale)
                return await state(store)

        assert asyncio.run(scenario()) == (a_stream(SECOND), a_group(SECOND), {})

    @pytest.mark.parametrize(
        "other",
        [
            attrs.evolve(FIRST, lineage=Lineage("other")),
            attrs.evolve(FIRST, revision=9),
            attrs.evolve(FIRST, nonce=Nonce("other")),
        ],
    )
    def test_a_version_is_compared_whole(self, connect: Connect, other: Version) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE_STREAM, CREATE)
                for change in (StreamChange(other, a_stream(SECOND)), GroupChange(KEY, other)):
                    with pytest.raises(RevisionConflict):
                        await put(store, change)
                return await state(store)

        assert asyncio.run(scenario()) == (a_stream(), a_group(), {})

    def test_a_tombstone_is_replaced_only_by_naming_its_version(self, connect: Connect) -> None:
        reborn = Version(Lineage("another"), 1, Nonce("reborn"))

        async def scenario() -> list[tuple[object, object, object]]:
            async with opened(connect) as store:
                await put(store, CREATE_STREAM, CREATE)
                await put(
                    store, StreamChange(FIRST, a_stream_tombstone()), GroupChange(KEY, FIRST, a_group_tombstone())
                )
                dead = await state(store)
                for change in (StreamChange(None, a_stream(reborn)), GroupChange(KEY, None, a_group(reborn))):
                    with pytest.raises(RevisionConflict):
                        await put(store, change)
                still_dead = await state(store)
                await put(store, StreamChange(SECOND, a_stream(reborn)), GroupChange(KEY, SECOND, a_group(reborn)))
                return [dead, still_dead, await state(store)]

        nobody: dict[InstanceId, Row] = {}
        dead = (a_stream_tombstone(), a_group_tombstone(), nobody)
        assert asyncio.run(scenario()) == [dead, dead, (a_stream(reborn), a_group(reborn), {})]

    @pytest.mark.parametrize("broken", ["stream", "group", "other group", "row", "seq", "source"])
    def test_nothing_is_written_when_one_comparison_fails(self, connect: Connect, broken: str) -> None:
        """A commit over everything a commit can hold, each time with another comparison wrong."""
        shipping = GroupKey(ORDERS, GroupName("shipping"))
        good, wrong = FIRST, THIRD

        async def scenario() -> tuple[object, object]:
            async with opened(connect) as store:
                await put(store, CREATE_STREAM, CREATE, GroupChange(shipping, None, a_group(key=shipping)), row=a_row())
                source = await source_of(store)
                change = Transaction(
                    ORDERS,
                    attrs.evolve(source, connection=99) if broken == "source" else source,
                    StreamChange(wrong if broken == "stream" else good, a_stream(SECOND)),
                    (
                        GroupChange(KEY, wrong if broken == "group" else good, a_group(SECOND)),
                        GroupChange(shipping, wrong if broken == "other group" else good, a_group(SECOND, shipping)),
                    ),
                    RowWrite(BILLING, a_row(1 if broken == "seq" else 2)),
                    {(BILLING, TWO): Nonce("there") if broken == "row" else None},
                    ((BILLING, ONE),),
                )
                with pytest.raises((RevisionConflict, StaleSequence, SourceChanged)):
                    await store.commit(change)
                return await state(store), (await store.load_group(shipping)).record

        assert asyncio.run(scenario()) == ((a_stream(), a_group(), {ONE: a_row()}), a_group(key=shipping))

    @pytest.mark.parametrize(
        "another",
        [
            lambda source: attrs.evolve(source, identity="another store"),
            lambda source: attrs.evolve(source, connection=source.connection + 1),
        ],
    )
    def test_a_commit_that_names_another_source_is_refused(
        self, connect: Connect, another: Callable[[StoreSource], StoreSource]
    ) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                other = another(await source_of(store))
                with pytest.raises(SourceChanged):
                    await store.commit(Transaction(ORDERS, other, groups=(CREATE,)))
                return await state(store)

        assert asyncio.run(scenario()) == (None, None, {})

    def test_every_read_names_the_same_source_while_nothing_happens(self, connect: Connect) -> None:
        async def scenario() -> set[StoreSource]:
            async with opened(connect) as store:
                await put(store, CREATE_STREAM, CREATE)
                return {
                    (await store.load_stream(ORDERS)).source,
                    (await store.load_stream(StreamPrefix("none"))).source,
                    (await store.load_group(KEY)).source,
                }

        assert len(asyncio.run(scenario())) == 1

    def test_names_never_collide_whatever_they_contain(self, connect: Connect) -> None:
        pairs = [
            ("a:b", "c"), ("a", "b:c"), ("a", "b"), ("ab", ""), ("", "ab"), ("a/b", "c"), ("a", "b/c"), ("A", "B"),
            ("a'b", 'c"d'), ("a;--", "x"), ("é", "x"), ("e\u0301", "x"), ("주문", "그룹"), ("a ", "b"), ("a", " b"),
            ("1", "1"), ("01", "1"), ("1.0", "1"), ("%", "_"), ("a\0b", "c"), ("a", "\0"), ("😀", "x"), ("ﬀ", "x"),
        ]  # fmt: skip
        keys = [GroupKey(StreamPrefix(prefix), GroupName(group)) for prefix, group in pairs]

        async def scenario() -> list[object]:
            async with opened(connect) as store:
                for number, key in enumerate(keys):
                    row = RowWrite(key.group, a_row(number))
                    create = (GroupChange(key, None, a_group(key=key, epoch=number)),)
                    await store.commit(Transaction(key.prefix, await source_of(store), groups=create, row=row))
                found = [await store.load_group(key) for key in keys]
                return [(each.record, dict(each.rows)) for each in found]

        expected = [(a_group(key=key, epoch=number), {ONE: a_row(number)}) for number, key in enumerate(keys)]
        assert asyncio.run(scenario()) == expected

    def test_prefixes_are_those_of_live_streams_in_order(self, connect: Connect) -> None:
        async def scenario() -> tuple[StreamPrefix, ...]:
            async with opened(connect) as store:
                for name in ("b", "a", "😀", "ﬀ", "B", "gone", "a:b"):
                    prefix = StreamPrefix(name)
                    await put(store, StreamChange(None, a_stream(prefix=name)), prefix=prefix)
                gone = StreamPrefix("gone")
                await put(store, StreamChange(FIRST, a_stream_tombstone(prefix=gone)), prefix=gone)
                await put(store, CREATE)
                return await store.prefixes()

        assert asyncio.run(scenario()) == ("B", "a", "a:b", "b", "ﬀ", "😀")

    def test_a_commit_is_visible_to_other_connections_once_it_has_returned(self, connect: Connect) -> None:
        async def scenario() -> list[tuple[object, object, object]]:
            async with opened(connect) as store, opened(connect) as other:
                await put(store, CREATE_STREAM, CREATE, row=a_row())
                seen = [await state(other)]
                await put(other, COMPARE, row=a_row(2))
                return [*seen, await state(store)]

        assert asyncio.run(scenario()) == [
            (a_stream(), a_group(), {ONE: a_row()}),
            (a_stream(), a_group(), {ONE: a_row(2)}),
        ]

    def test_what_was_written_outlives_its_connection(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object]:
            async with opened(connect) as keeper:
                async with opened(connect) as store:
                    await put(store, CREATE_STREAM, CREATE)
                return (await keeper.load_stream(ORDERS)).record, (await keeper.load_group(KEY)).record

        assert asyncio.run(scenario()) == (a_stream(), a_group())

    def test_concurrent_increments_lose_none(self, connect: Connect) -> None:
        async def scenario() -> object:
            async with opened(connect) as first, opened(connect) as second:
                await put(first, CREATE)
                await asyncio.gather(*(increment(store, f"{n}") for n, store in enumerate([first, second] * 4)))
                return (await first.load_group(KEY)).record

        async def increment(store: MetadataStore, who: str) -> None:
            for turn in range(10):
                while True:
                    found = (await store.load_group(KEY)).record
                    assert isinstance(found, GroupRecord)
                    version = next_version(found.version, Nonce(f"{who}-{turn}"))
                    with contextlib.suppress(RevisionConflict):
                        await put(store, GroupChange(KEY, found.version, a_group(version, epoch=found.group_epoch + 1)))
                        break

        found = asyncio.run(scenario())

        assert isinstance(found, GroupRecord)
        assert (found.group_epoch, found.version.revision) == (81, 81)

    def test_commits_that_wait_together_are_judged_one_by_one(self, connect: Connect) -> None:
        async def scenario() -> tuple[list[type[object]], object]:
            async with opened(connect) as store:
                await put(store, CREATE)
                outcomes = await asyncio.gather(
                    put(store, COMPARE, row=a_row(2)),
                    put(store, COMPARE, row=a_row(2, mark="twin")),
                    put(store, GroupChange(KEY, THIRD), row=a_row(9)),
                    put(store, COMPARE, row=a_row(3)),
                    return_exceptions=True,
                )
                return [type(outcome) for outcome in outcomes], dict((await store.load_group(KEY)).rows)

        kinds, rows = asyncio.run(scenario())

        assert kinds == [type(None), StaleSequence, RevisionConflict, type(None)]
        assert rows == {ONE: a_row(3)}

    def test_closing_twice_is_closing_once(self, connect: Connect) -> None:
        async def scenario() -> None:
            async with opened(connect) as store:
                await store.close()
                await store.close()

        asyncio.run(scenario())

    def test_a_closed_store_says_so(self, connect: Connect) -> None:
        async def scenario() -> None:
            async with opened(connect) as store:
                source = await source_of(store)
                await store.close()
                for call in (
                    lambda: store.load_stream(ORDERS),
                    lambda: store.load_group(KEY),
                    lambda: store.prefixes(),
                    lambda: store.commit(Transaction(ORDERS, source, groups=(CREATE,))),
                ):
                    with pytest.raises(StoreUnavailable, match="closed"):
                        await call()

        asyncio.run(scenario())

    def test_an_empty_commit_is_only_a_comparison_of_the_source(self, connect: Connect) -> None:
        async def scenario() -> StreamSnapshot:
            async with opened(connect) as store:
                source = await source_of(store)
                await store.commit(Transaction(ORDERS, source))
                return await store.load_stream(ORDERS)

        assert asyncio.run(scenario()).record is None
