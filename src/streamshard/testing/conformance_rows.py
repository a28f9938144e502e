"""The part of the store's contract that is about renewal rows."""

import asyncio
import contextlib

import pytest

from streamshard.core.ids import (
    GroupName,
    InstanceId,
    Nonce,
)
from streamshard.core.ports import (
    GroupChange,
    RowWrite,
    Transaction,
)
from streamshard.errors import RevisionConflict, StaleSequence
from streamshard.testing.samples import (
    BILLING,
    COMPARE,
    CREATE,
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
    opened,
    put,
    source_of,
    state,
)


class RenewalRowsContract:
    """Mixed into `MetadataStoreContract`."""

    def test_rows_go_when_a_tombstone_takes_the_records_place(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE, row=a_row())
                await put(store, GroupChange(KEY, FIRST, a_group_tombstone()))
                await put(store, GroupChange(KEY, SECOND, a_group(THIRD)))
                return await state(store)

        assert asyncio.run(scenario()) == (None, a_group(THIRD), {})

    def test_a_row_needs_a_record_to_stand_beside(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                with pytest.raises(RevisionConflict):
                    await put(store, row=a_row())
                await put(store, CREATE)
                await put(store, GroupChange(KEY, FIRST, a_group_tombstone()))
                for change in ((), (GroupChange(KEY, SECOND),)):
                    with pytest.raises(RevisionConflict):
                        await put(store, *change, row=a_row())
                return await state(store)

        assert asyncio.run(scenario()) == (None, a_group_tombstone(), {})

    def test_rows_stay_when_a_record_is_replaced_by_a_record(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE, row=a_row())
                await put(store, GroupChange(KEY, FIRST, a_group(SECOND)))
                return await state(store)

        assert asyncio.run(scenario()) == (None, a_group(SECOND), {ONE: a_row()})

    @pytest.mark.parametrize("seq", [4, 5])
    def test_a_seq_that_is_not_above_the_stored_one_is_stale(self, connect: Connect, seq: int) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE, row=a_row(5))
                with pytest.raises(StaleSequence):
                    await put(store, GroupChange(KEY, FIRST, a_group(SECOND)), row=a_row(seq, mark="late"))
                return await state(store)

        assert asyncio.run(scenario()) == (None, a_group(), {ONE: a_row(5)})

    def test_seqs_of_instances_do_not_touch_each_other(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE, row=a_row(5))
                await put(store, COMPARE, row=a_row(1, TWO))
                return await state(store)

        assert asyncio.run(scenario()) == (None, a_group(), {ONE: a_row(5), TWO: a_row(1, TWO)})

    def test_a_moved_record_is_told_before_a_stale_seq(self, connect: Connect) -> None:
        async def scenario() -> None:
            async with opened(connect) as store:
                await put(store, CREATE, row=a_row(5))
                with pytest.raises(RevisionConflict):
                    await put(store, GroupChange(KEY, SECOND), row=a_row(5))

        asyncio.run(scenario())

    def test_force_writes_a_row_whatever_its_seq(self, connect: Connect) -> None:
        forced = a_row(0, mark="forced")

        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE, row=a_row(5))
                write = RowWrite(BILLING, forced, force=True)
                await store.commit(Transaction(ORDERS, await source_of(store), groups=(COMPARE,), row=write))
                return await state(store)

        assert asyncio.run(scenario()) == (None, a_group(), {ONE: forced})

    @pytest.mark.parametrize(
        ("instance", "mark", "same"),
        [(ONE, "mark-1", True), (ONE, "other", False), (ONE, None, False), (TWO, None, True), (TWO, "mark-1", False)],
    )
    def test_rows_are_compared_by_mark_or_by_absence(
        self,
        connect: Connect,
        instance: InstanceId,
        mark: Nonce | None,
        same: bool,  # noqa: FBT001
    ) -> None:
        async def scenario() -> object:
            async with opened(connect) as store:
                await put(store, CREATE, row=a_row())
                change = Transaction(
                    ORDERS,
                    await source_of(store),
                    groups=(GroupChange(KEY, FIRST, a_group(SECOND)),),
                    same_rows={(BILLING, instance): mark},
                )
                with contextlib.nullcontext() if same else pytest.raises(RevisionConflict):
                    await store.commit(change)
                return (await store.load_group(KEY)).record

        assert asyncio.run(scenario()) == a_group(SECOND if same else FIRST)

    def test_dropped_rows_are_gone_and_others_stay(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE, row=a_row())
                await put(store, COMPARE, row=a_row(1, TWO))
                absent = InstanceId("absent")
                drop = ((BILLING, ONE), (BILLING, absent), (GroupName("no group"), ONE))
                await store.commit(Transaction(ORDERS, await source_of(store), groups=(COMPARE,), drop_rows=drop))
                return await state(store)

        assert asyncio.run(scenario()) == (None, a_group(), {TWO: a_row(1, TWO)})

    def test_a_row_dropped_and_written_at_once_is_the_new_one(self, connect: Connect) -> None:
        async def scenario() -> tuple[object, object, object]:
            async with opened(connect) as store:
                await put(store, CREATE, row=a_row(1))
                await store.commit(
                    Transaction(
                        ORDERS,
                        await source_of(store),
                        groups=(COMPARE,),
                        row=RowWrite(BILLING, a_row(2, TWO)),
                        drop_rows=((BILLING, ONE), (BILLING, TWO)),
                    )
                )
                return await state(store)

        assert asyncio.run(scenario()) == (None, a_group(), {TWO: a_row(2, TWO)})
