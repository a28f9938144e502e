"""The faults a memory store can be told to have, and that it never suspends."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from streamshard.adapters.stores.memory import REMEMBERED_COMMITS, Fault, MemoryStore
from streamshard.core.group import GroupRecord
from streamshard.core.ids import Nonce, next_version
from streamshard.core.ports import GroupChange, StreamChange, Transaction
from streamshard.errors import CommitUncertain, RevisionConflict, SourceChanged, StoreUnavailable
from streamshard.testing.samples import (
    COMPARE,
    CREATE,
    CREATE_STREAM,
    FIRST,
    KEY,
    ONE,
    ORDERS,
    SECOND,
    THIRD,
    a_group,
    a_group_tombstone,
    a_row,
    a_stream,
    put,
    state,
)

T = TypeVar("T")


def _now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that must not suspend."""
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    result: T = stopped.value.value
    return result


def test_no_call_ever_suspends() -> None:
    store = MemoryStore()

    _now(put(store, CREATE_STREAM, CREATE, row=a_row()))

    assert _now(state(store)) == (a_stream(), a_group(), {ONE: a_row()})
    assert _now(store.prefixes()) == (ORDERS,)
    _now(store.close())


def test_an_unavailable_store_has_done_nothing_and_recovers() -> None:
    store = MemoryStore()
    change = Transaction(ORDERS, store.source, groups=(CREATE,))

    store.fail_next(Fault.UNAVAILABLE)
    with pytest.raises(StoreUnavailable):
        _now_raising(store.commit(change))
    store.fail_next(Fault.UNAVAILABLE)
    with pytest.raises(StoreUnavailable):
        _now_raising(store.load_group(KEY))

    assert _now(state(store)) == (None, None, {})


@pytest.mark.parametrize(("fault", "record"), [(Fault.UNCERTAIN_APPLIED, a_group()), (Fault.UNCERTAIN_LOST, None)])
def test_an_uncertain_commit_was_applied_or_not(fault: Fault, record: GroupRecord | None) -> None:
    store = MemoryStore()

    store.fail_next(fault)
    with pytest.raises(CommitUncertain):
        _now_raising(store.commit(Transaction(ORDERS, store.source, groups=(CREATE,))))

    assert _now(state(store)) == (None, record, {})


def test_an_uncertain_commit_is_not_applied_against_its_comparisons() -> None:
    store = MemoryStore()
    _now(put(store, CREATE))

    store.fail_next(Fault.UNCERTAIN_APPLIED)
    with pytest.raises(CommitUncertain):
        _now_raising(put(store, GroupChange(KEY, THIRD, a_group(SECOND))))

    assert _now(state(store)) == (None, a_group(), {})


def test_faults_of_a_commit_wait_for_a_commit_and_for_their_own_connection() -> None:
    store = MemoryStore()
    other = store.connect()

    store.fail_next(Fault.UNCERTAIN_LOST)
    _now(put(other, CREATE))

    assert _now(state(store)) == (None, a_group(), {})
    with pytest.raises(CommitUncertain):
        _now_raising(put(store, COMPARE))


def test_a_new_connection_refuses_what_was_read_over_the_old_one() -> None:
    store = MemoryStore()
    other = store.connect()
    before = store.source

    store.reconnect()

    assert (store.source.identity, store.source.connection) == (before.identity, before.connection + 1)
    assert other.source == before
    with pytest.raises(SourceChanged):
        _now_raising(store.commit(Transaction(ORDERS, before, groups=(CREATE,))))


def test_another_identity_is_seen_over_every_connection() -> None:
    store = MemoryStore()
    other = store.connect()

    store.replace_identity("memory:restored")

    assert {store.source.identity, other.source.identity} == {"memory:restored"}


def test_lost_commits_are_forgotten_newest_first() -> None:
    store = MemoryStore()
    _now(put(store, CREATE_STREAM, CREATE))
    _now(put(store, GroupChange(KEY, FIRST, a_group(SECOND))))
    _now(put(store, StreamChange(FIRST, a_stream(SECOND)), GroupChange(KEY, SECOND, a_group(THIRD))))

    assert store.lose_suffix(1) == 1
    assert _now(state(store)) == (a_stream(), a_group(SECOND), {})
    assert store.lose_suffix(1) == 1
    assert _now(state(store)) == (a_stream(), a_group(), {})
    assert store.lose_suffix(5) == 1
    assert _now(state(store)) == (None, None, {})


def test_renewals_are_no_commits_of_records_and_outlive_a_lost_one() -> None:
    store = MemoryStore()
    _now(put(store, CREATE))
    _now(put(store, GroupChange(KEY, FIRST, a_group(SECOND))))
    _now(put(store, GroupChange(KEY, SECOND), row=a_row()))

    store.lose_suffix(1)

    assert _now(state(store)) == (None, a_group(), {ONE: a_row()})


def test_rows_go_with_the_last_record_they_stood_beside() -> None:
    store = MemoryStore()
    _now(put(store, CREATE, row=a_row()))

    store.lose_suffix(1)

    assert _now(state(store)) == (None, None, {})


def test_a_lost_deletion_brings_the_record_back_without_its_rows() -> None:
    store = MemoryStore()
    _now(put(store, CREATE, row=a_row()))
    _now(put(store, GroupChange(KEY, FIRST, a_group_tombstone())))

    store.lose_suffix(1)

    assert _now(state(store)) == (None, a_group(), {})


def test_rows_can_be_lost_alone() -> None:
    store = MemoryStore()
    _now(put(store, CREATE, row=a_row()))

    store.lose_rows()

    assert _now(state(store)) == (None, a_group(), {})


def test_only_so_many_commits_are_remembered() -> None:
    store = MemoryStore()
    _now(put(store, CREATE))
    version = FIRST
    for turn in range(REMEMBERED_COMMITS + 10):
        after = next_version(version, Nonce(f"{turn}"))
        _now(put(store, GroupChange(KEY, version, a_group(after))))
        version = after

    assert store.lose_suffix(10_000) == REMEMBERED_COMMITS
    with pytest.raises(RevisionConflict):
        _now_raising(put(store, CREATE))


def _now_raising(coroutine: Coroutine[Any, Any, object]) -> None:
    asyncio.run(coroutine)
