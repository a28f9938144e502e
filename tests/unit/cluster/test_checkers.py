"""The judges themselves: bad histories, made by hand, are each flagged; good ones are not."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from streamshard.adapters.streams.memory_world import Fence, Group, MemoryStreams, Stream
from streamshard.core.group import GroupRecord, Quarantine
from streamshard.core.ids import (
    Epoch,
    Generation,
    GroupName,
    InstanceId,
    LayoutVersion,
    Millis,
    Nonce,
    RecordId,
    Token,
    WallMillis,
    extend_ring,
    next_version,
)
from streamshard.core.records import Access, Record
from streamshard.testing.checkers import Books, Ledger, Marks, Violation, one_reader_per_shard
from streamshard.testing.cluster import KEY, Cluster
from streamshard.testing.processes import Command, Consumer, Run
from tests.unit.cluster.test_schedules import ZERO, settled

ORDERS_0 = "orders:0"
BILLING = KEY.group


def a_reader() -> tuple[Cluster, Consumer, Run]:
    cluster, (a,) = settled(1, "a")
    return cluster, a, a.runs[ZERO]


def committed(record: GroupRecord) -> GroupRecord:
    """Its next version, with nothing else changed."""
    version = next_version(record.version, Nonce("next"))
    return attrs.evolve(
        record,
        version=version,
        ring=extend_ring(record.ring, version.nonce),
        metadata_version=record.metadata_version + 1,
    )


def stepped(**changes: Any) -> tuple[Books, GroupRecord, tuple[Consumer, ...]]:
    """A record that was seen, and what it is said to have become."""
    cluster, a, _ = a_reader()
    books, record = Books(), cluster.group
    books.look(KEY, record, [a])
    return books, attrs.evolve(committed(record), **changes), (a,)


def two_hold_one_shard() -> None:
    cluster, a, _ = a_reader()
    b = cluster.join("b")
    b.session = attrs.evolve(a.session, held=dict(a.session.held))
    b.clock = a.clock
    one_reader_per_shard([a, b])


def an_old_token_gets_through_after_a_newer_one_was_told() -> None:
    _, a, run = a_reader()
    marks = Marks()
    marks.told([a])
    older = Run(attrs.evolve(run.access, token=Token(run.access.token - 1)))
    marks.passed(Command(older, "read"), Access.OK)


def an_old_token_gets_through_after_a_newer_one_has() -> None:
    _, _, run = a_reader()
    marks = Marks()
    marks.passed(Command(run, "read"), Access.OK)
    older = Run(attrs.evolve(run.access, token=Token(run.access.token - 1)))
    marks.passed(Command(older, "acknowledge"), Access.OK)


def a_holding_vanishes_from_under_its_reader() -> None:
    books, after, consumers = stepped(holdings={})
    books.look(KEY, after, consumers)


def the_group_epoch_runs_backwards() -> None:
    books, after, consumers = stepped(group_epoch=Epoch(0))
    books.look(KEY, after, consumers)


def the_metadata_version_runs_backwards() -> None:
    books, after, consumers = stepped(metadata_version=0)
    books.look(KEY, after, consumers)


def the_layout_version_runs_backwards() -> None:
    books, after, consumers = stepped(layout_version=LayoutVersion(0))
    books.look(KEY, after, consumers)


def a_token_is_issued_twice() -> None:
    books, after, _ = stepped()
    other = attrs.evolve(after.holdings[ZERO], instance=InstanceId("another"))
    books._issued(KEY, ZERO, other)


def a_token_is_issued_below_the_last() -> None:
    books, after, _ = stepped()
    holding = after.holdings[ZERO]
    books._issued(KEY, ZERO, attrs.evolve(holding, token=Token(holding.token - 1)))


def a_shard_is_granted_in_quarantine() -> None:
    cluster, a, _ = a_reader()
    record = cluster.group
    frozen = attrs.evolve(record, holdings={}, quarantine=Quarantine("lost", WallMillis(1)))
    books = Books(last={KEY: frozen})
    token = Token(record.last_tokens[ZERO] + 1)
    granted = attrs.evolve(record.holdings[ZERO], token=token, floor=Token(token - 1))
    books.look(KEY, attrs.evolve(committed(frozen), holdings={ZERO: granted}, last_tokens={ZERO: token}), [a])


def a_token_is_above_the_last_on_record() -> None:
    books, after, consumers = stepped(last_tokens={})
    books.look(KEY, after, consumers)


def records_come_out_of_order() -> None:
    _, a, run = a_reader()
    ledger = Ledger()
    for text in ("2-0", "1-0"):
        ledger.hand(a, run, Record(RecordId(text), {}))


def world_of(stream: Stream | None, fence: Fence) -> MemoryStreams:
    world = MemoryStreams()
    if stream is not None:
        world.streams[ORDERS_0] = stream
    world.fences[ORDERS_0] = fence
    return world


SEALED = Fence(Generation(1), sealed=True)


def a_retired_key_exists() -> None:
    Ledger().look(world_of(Stream(), SEALED))


def an_earlier_life_of_a_key_is_back() -> None:
    ledger = Ledger()
    ledger.look(world_of(Stream(), Fence(Generation(2))))
    ledger.look(world_of(Stream(), Fence(Generation(1))))


def a_key_is_retired_with_a_record_on_it() -> None:
    ledger = Ledger()
    ledger.accept(ORDERS_0, RecordId("1-0"))
    ledger.look(world_of(None, SEALED))


def trimmed(group: Group, *, handled: bool) -> None:
    """A record goes that a handler may have had."""
    _, a, run = a_reader()
    stream = Stream({(1, 0): {}}, {BILLING: group}, (1, 0), 1)
    ledger, world = Ledger(), world_of(stream, Fence(Generation(1)))
    ledger.accept(ORDERS_0, RecordId("1-0"))
    ledger.look(world)
    if handled:
        ledger.hand(a, run, Record(RecordId("1-0"), {}))
    stream.entries.clear()
    ledger.look(world)


def what_is_pending_is_trimmed() -> None:
    group = Group((1, 0))
    group.pending[1, 0] = None  # type: ignore[assignment]
    trimmed(group, handled=True)


def what_was_not_read_is_trimmed() -> None:
    trimmed(Group((0, 0)), handled=True)


def what_nobody_handled_is_trimmed() -> None:
    trimmed(Group((1, 0)), handled=False)


def a_shard_is_retired_before_the_others_have_handled_it() -> None:
    _, a, run = a_reader()
    ledger = Ledger()
    for text in ("1-0", "2-0"):
        ledger.accept(ORDERS_0, RecordId(text))
    ledger.hand(a, run, Record(RecordId("1-0"), {}))
    ledger.look(world_of(None, SEALED))


def a_member_s_epoch_runs_backwards() -> None:
    cluster, a, _ = a_reader()
    record = cluster.group
    books = Books(last={KEY: record})
    older = {name: attrs.evolve(m, epoch=Epoch(m.epoch - 1)) for name, m in record.members.items()}
    books.look(KEY, attrs.evolve(committed(record), members=older), [a])


BAD: list[tuple[str, Callable[[], None]]] = [
    ("I1a", two_hold_one_shard),
    ("I1b", an_old_token_gets_through_after_a_newer_one_was_told),
    ("I1b", an_old_token_gets_through_after_a_newer_one_has),
    ("I2", a_holding_vanishes_from_under_its_reader),
    ("group epoch ran backwards", the_group_epoch_runs_backwards),
    ("metadata version ran backwards", the_metadata_version_runs_backwards),
    ("layout version ran backwards", the_layout_version_runs_backwards),
    ("I3", a_token_is_issued_twice),
    ("I3", a_token_is_issued_below_the_last),
    ("which is not new", a_shard_is_granted_in_quarantine),
    ("the last token on record does not cover", a_token_is_above_the_last_on_record),
    ("epoch", a_member_s_epoch_runs_backwards),
    ("I12", records_come_out_of_order),
    ("I6", a_retired_key_exists),
    ("I6", an_earlier_life_of_a_key_is_back),
    ("I5", a_key_is_retired_with_a_record_on_it),
    ("I5", a_shard_is_retired_before_the_others_have_handled_it),
    ("I11", what_is_pending_is_trimmed),
    ("I11", what_was_not_read_is_trimmed),
    ("I11", what_nobody_handled_is_trimmed),
]


@pytest.mark.parametrize(("invariant", "history"), BAD, ids=lambda case: getattr(case, "__name__", None))
def test_a_bad_history_is_flagged(invariant: str, history: Callable[[], None]) -> None:
    with pytest.raises(Violation, match=invariant):
        history()


def two_read_two_shards() -> None:
    cluster, (a, b) = settled(2, "a", "b")
    one_reader_per_shard([a, b])
    assert cluster.books.moves == 1


def one_whose_lease_is_over_still_holds_what_another_reads() -> None:
    cluster, a, _ = a_reader()
    b = cluster.join("b")
    b.session, b.clock = a.session, a.clock
    a.killed = True
    one_reader_per_shard([a, b])


def the_same_token_gets_through_again() -> None:
    _, a, run = a_reader()
    marks = Marks()
    marks.told([a])
    for verb in ("claim", "read", "acknowledge"):
        marks.passed(Command(run, verb), Access.OK)


def a_later_token_gets_through() -> None:
    _, a, run = a_reader()
    marks = Marks()
    marks.told([a])
    marks.passed(Command(Run(attrs.evolve(run.access, token=Token(run.access.token + 1))), "read"), Access.OK)


def an_old_token_is_refused() -> None:
    _, a, run = a_reader()
    marks = Marks()
    marks.told([a])
    older = Run(attrs.evolve(run.access, token=Token(run.access.token - 1)))
    for access in (Access.FENCED, Access.SEALED, Access.MISSING):
        marks.passed(Command(older, "read"), access)


def a_record_is_looked_at_again() -> None:
    books, after, consumers = stepped()
    books.look(KEY, after, consumers)


def a_record_that_is_not_there() -> None:
    Books().look(KEY, None, [])


def a_reader_that_is_gone_is_released() -> None:
    books, after, (a,) = stepped()
    a.killed = True
    books._released(after.holdings, {}, [a])


def a_commit_that_the_store_lost_is_made_again() -> None:
    cluster, a, _ = a_reader()
    books, record = Books(), cluster.group
    books.look(KEY, record, [a])
    books.lost_writes(KEY, None)
    books.look(KEY, record, [a])


def a_record_is_handled_again() -> None:
    _, a, run = a_reader()
    ledger = Ledger()
    for text in ("1-0", "2-0", "1-0"):
        ledger.hand(a, run, Record(RecordId(text), {}))


def ids_are_numbers_and_no_texts() -> None:
    _, a, run = a_reader()
    ledger = Ledger()
    for text in ("9-0", "10-0", "10-9", "10-10"):
        ledger.hand(a, run, Record(RecordId(text), {}))


def a_new_group_begins_from_the_start() -> None:
    _, a, run = a_reader()
    ledger = Ledger()
    ledger.hand(a, run, Record(RecordId("2-0"), {}))
    ledger.begin_anew(ORDERS_0)
    run.group_life = 1
    ledger.hand(a, run, Record(RecordId("1-0"), {}))


def a_key_is_retired_when_all_was_handled() -> None:
    _, a, run = a_reader()
    ledger = Ledger()
    ledger.accept(ORDERS_0, RecordId("1-0"))
    ledger.hand(a, run, Record(RecordId("1-0"), {}))
    ledger.look(world_of(None, SEALED))


def a_retired_key_comes_in_its_next_life() -> None:
    ledger = Ledger()
    ledger.look(world_of(None, SEALED))
    ledger.look(world_of(Stream(), Fence(Generation(2))))


def a_key_without_marks() -> None:
    world = MemoryStreams()
    world.streams["somebody's"] = Stream()
    Ledger().look(world)


def what_everybody_acknowledged_is_trimmed() -> None:
    trimmed(Group((1, 0)), handled=True)


def what_a_stranger_has_read_is_trimmed() -> None:
    stream = Stream({(1, 0): {}}, {GroupName("stranger"): Group((1, 0))}, (1, 0), 1)
    Ledger().look(world_of(stream, Fence(Generation(1))))


def a_key_is_another_one_by_now() -> None:
    ledger = Ledger()
    ledger.look(world_of(Stream({(1, 0): {}}), Fence(Generation(1))))
    ledger.look(world_of(Stream(), Fence(Generation(2))))


def nothing_was_accepted() -> None:
    assert Ledger().unhandled() == {}


def a_cluster_lives_its_day() -> None:
    cluster, _ = settled(3, "a", "b")
    cluster.scale(2)
    cluster.run(Millis(9_000))


GOOD: list[Callable[[], None]] = [
    two_read_two_shards,
    one_whose_lease_is_over_still_holds_what_another_reads,
    the_same_token_gets_through_again,
    a_later_token_gets_through,
    an_old_token_is_refused,
    a_record_is_looked_at_again,
    a_record_that_is_not_there,
    a_reader_that_is_gone_is_released,
    a_commit_that_the_store_lost_is_made_again,
    a_record_is_handled_again,
    ids_are_numbers_and_no_texts,
    a_new_group_begins_from_the_start,
    a_key_is_retired_when_all_was_handled,
    a_retired_key_comes_in_its_next_life,
    a_key_without_marks,
    what_everybody_acknowledged_is_trimmed,
    what_a_stranger_has_read_is_trimmed,
    a_key_is_another_one_by_now,
    nothing_was_accepted,
    a_cluster_lives_its_day,
]


@pytest.mark.parametrize("history", GOOD, ids=lambda case: case.__name__)
def test_a_good_history_is_not(history: Callable[[], None]) -> None:
    history()
