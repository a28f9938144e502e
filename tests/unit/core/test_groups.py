"""The first and the last version of a group: what is carried over a grave, and how long it waits."""

import attrs

from streamshard.core.commands import Intent
from streamshard.core.group import GroupRecord, GroupTombstone, Quarantine
from streamshard.core.groups import bury_group, found_group
from streamshard.core.ids import Epoch, GroupName, LayoutVersion, Lineage, Nonce, Token, Version, WallMillis
from streamshard.core.replies import Status
from streamshard.core.stream import EntryState, GroupEntry
from tests.unit.core.builders import (
    A1,
    GEN,
    KEY,
    LEASE,
    S0,
    VERSION,
    WAIT,
    WALL,
    A,
    Bench,
    client,
    context,
    group,
    holding,
    layout,
    member,
    settled,
)

ENTRY = GroupEntry(GroupName("billing"), EntryState.CREATING, "0")


def a_record() -> GroupRecord:
    held = {S0: holding(A, A1, 10)}
    return group(member(A, A1), holdings=held, targets={S0: A}, shards=1, past_lineages=(Lineage("first"),))


def a_grave() -> GroupTombstone:
    return bury_group(a_record(), context(7, "burial"))


def test_a_new_group_adopts_the_streams_layout_and_has_nobody() -> None:
    founded = found_group(KEY, ENTRY, None, context(7, "birth", layout(0, 1, 2, version=4)))

    assert founded == GroupRecord(
        key=KEY,
        version=Version(Lineage("lineage of birth"), 1, Nonce("birth")),
        ring=(Nonce("birth"),),
        store="store",
        layout_version=LayoutVersion(4),
        layout={shard: GEN for shard in layout(0, 1, 2).shards},
    )


def test_a_group_takes_older_clients_if_its_entry_says_so() -> None:
    assert found_group(KEY, attrs.evolve(ENTRY, allow_legacy=True), None, context()).allow_legacy


def test_a_grave_keeps_what_old_readers_may_still_be_reading() -> None:
    record = a_record()

    assert a_grave() == GroupTombstone(
        key=KEY,
        version=Version(VERSION.lineage, 2, Nonce("burial")),
        group_epoch=record.group_epoch,
        metadata_version=record.metadata_version,
        holdings=record.holdings,
        last_tokens=record.last_tokens,
        longest_leases={A1: LEASE},
        past_lineages=(Lineage("first"),),
        deleted_at=WallMillis(WALL + 7),
    )


def test_a_group_over_a_grave_goes_on_above_every_old_number_in_quarantine() -> None:
    reborn = found_group(KEY, ENTRY, a_grave(), context(9, "rebirth", layout(0)))

    assert reborn == attrs.evolve(
        found_group(KEY, ENTRY, None, context(9, "rebirth", layout(0))),
        version=Version(Lineage("lineage of rebirth"), 3, Nonce("rebirth")),
        group_epoch=Epoch(3),
        assignment_epoch=Epoch(3),
        metadata_version=2,
        holdings={S0: holding(A, A1, 10, draining=True)},
        last_tokens={S0: Token(10)},
        longest_leases={A1: LEASE},
        past_lineages=(Lineage("first"), VERSION.lineage),
        quarantine=Quarantine(
            "re-created while instances of the deleted group may still be reading", WallMillis(WALL + 9)
        ),
    )


def test_over_the_grave_of_an_empty_group_there_is_nobody_to_wait_for() -> None:
    empty = bury_group(group(last_tokens={S0: Token(8)}), context())

    reborn = found_group(KEY, ENTRY, empty, context(nonce="rebirth"))

    assert (reborn.quarantine, reborn.last_tokens) == (None, {S0: Token(8)})


def reborn_with_an_old_reader() -> tuple[Bench, Bench]:
    """A bench whose group was deleted by force under a reader, and the one it is re-created on."""
    old, _ = settled(A)
    grave = bury_group(old.record, old.context())
    return old, Bench(found_group(KEY, ENTRY, grave, context(old.now, "rebirth")), now=old.now)


def test_a_force_deleted_and_recreated_group_waits_for_its_old_reader() -> None:
    _, bench = reborn_with_an_old_reader()
    newcomer = client(A, 2)
    bench.talk(newcomer)

    bench.wait(WAIT - 1_000, newcomer)

    assert bench.holders() == {0: A1, 1: A1}
    assert newcomer.held == {}


def test_after_that_wait_the_newcomer_is_granted_under_higher_tokens() -> None:
    old, bench = reborn_with_an_old_reader()
    newcomer = client(A, 2)
    bench.talk(newcomer)

    bench.wait(WAIT + 1_000, newcomer)

    assert bench.holders() == {0: newcomer.instance, 1: newcomer.instance}
    assert all(bench.record.last_tokens[s] > token for s, token in old.record.last_tokens.items())


def test_the_old_reader_is_unknown_to_the_new_group() -> None:
    old, bench = reborn_with_an_old_reader()
    reader = client(A)
    reader.seq, reader.epoch = 90, old.record.members[A].epoch

    assert bench.hear(reader.attempt()).status is Status.UNKNOWN_MEMBER_ID


def test_the_old_readers_goodbye_frees_what_it_held() -> None:
    _, bench = reborn_with_an_old_reader()
    reader = client(A)
    reader.seq = 90

    bench.hear(reader.attempt(Intent.LEAVE))

    assert (bench.record.holdings, bench.record.longest_leases) == ({}, {})
