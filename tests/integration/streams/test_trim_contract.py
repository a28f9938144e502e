"""What every `Trimming` backend promises: nothing that any group needs goes, and what went unread is counted."""

from collections.abc import Sequence

import pytest

from streamshard.core.effects import Missed, Trim, Trimmed, TrimVerdict
from streamshard.core.ids import Generation, GroupName, LayoutVersion, RecordId
from streamshard.core.ports import Trimming
from streamshard.core.records import AckMode
from tests.integration.streams.rigs import (
    AUDIT,
    BILLING,
    KEY,
    ORDERS,
    START,
    ZERO,
    MakeRig,
    MemoryRig,
    RedisRig,
    Rig,
    access,
    play,
    provision,
    publish,
    read,
    seal,
)

MANY = 350
NODE = 100
"""Records in a node of a server's stream, at most: so many that could go may stay."""
OTHERS = GroupName("others")


def order(*registered: GroupName, limit: int = 10_000, generation: int = 1, layout: int = 1) -> Trim:
    return Trim(ORDERS, ZERO, Generation(generation), LayoutVersion(layout), registered or (BILLING,), limit)


async def trim(rig: Rig, wanted: Trim | None = None) -> Trimmed:
    assert isinstance(rig.backend, Trimming)
    (done,) = await rig.backend.trim([wanted or order()])
    return done


async def fill(rig: Rig, count: int = MANY) -> tuple[RecordId, ...]:
    return await publish(rig, *(str(number) for number in range(count)))


async def consume(rig: Rig, count: int = MANY, *, group: GroupName = BILLING) -> None:
    """Read and acknowledge so many, as the group."""
    grant = access(1, group=group)
    (reply,) = await rig.log.read([(grant, count)])
    await rig.log.acknowledge(grant, [record.id for record in reply.records], AckMode.ACK)


async def drop_oldest(rig: Rig, keep: int) -> None:
    """What a producer's MAXLEN does, or an operator's XTRIM."""
    if isinstance(rig, MemoryRig):
        entries = rig.world.streams[KEY].entries
        for entry in sorted(entries)[: len(entries) - keep]:
            del entries[entry]
    elif isinstance(rig, RedisRig):
        await rig.raw("XTRIM", KEY, "MAXLEN", keep)


async def add_foreign(rig: Rig, name: GroupName = OTHERS) -> None:
    if isinstance(rig, RedisRig):
        await rig.raw("XGROUP", "CREATE", KEY, name, "0")
    else:
        await rig.create_foreign(KEY, (name,))


def stays(before: Sequence[RecordId], after: Sequence[RecordId], needed: int) -> None:
    """All records from the one numbered ``needed`` on are there, and of those before it a node at most."""
    assert tuple(before[needed:]) == tuple(after[len(after) - len(before) + needed :])
    assert len(before) - needed <= len(after) <= len(before) - needed + NODE


def test_what_every_group_has_acknowledged_goes_and_the_rest_stays(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "0"))])
        ids = await fill(rig)
        await consume(rig)
        await consume(rig, 220, group=AUDIT)

        done = await trim(rig, order(BILLING, AUDIT))

        left = await rig.ids(KEY)
        stays(ids, left, 219)
        assert (done.verdict, done.removed, done.floor, done.holder) == (
            TrimVerdict.DONE, len(ids) - len(left), ids[219], AUDIT,
        )  # fmt: skip

    play(make_rig, scenario)


def test_what_is_pending_stays_whoever_it_was_given_to(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        ids = await fill(rig)
        await read(rig, 1, 130, consumer="dead")
        await rig.log.acknowledge(access(1), ids[:120], AckMode.ACK)
        await consume(rig)

        await trim(rig)

        stays(ids, await rig.ids(KEY), 120)

    play(make_rig, scenario)


def test_a_group_that_nobody_registered_counts_too(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        await add_foreign(rig)
        ids = await fill(rig)
        await consume(rig)

        done = await trim(rig)

        assert await rig.ids(KEY) == ids
        assert (done.removed, done.floor, done.holder) == (0, START, OTHERS)

    play(make_rig, scenario)


def test_a_group_that_was_set_back_gets_what_is_still_there(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        ids = await fill(rig)
        await consume(rig)
        await set_back(rig, ids[149])

        await trim(rig)

        stays(ids, await rig.ids(KEY), 149)
        assert [record.id for record in (await read(rig, 1, MANY)).records] == list(ids[150:])

    play(make_rig, scenario)


async def set_back(rig: Rig, to: RecordId) -> None:
    if isinstance(rig, MemoryRig):
        ms, _, sequence = to.partition("-")
        rig.world.streams[KEY].groups[BILLING].last_delivered = (int(ms), int(sequence))
    elif isinstance(rig, RedisRig):
        await rig.raw("XGROUP", "SETID", KEY, BILLING, to)


@pytest.mark.parametrize(
    ("wanted", "verdict"),
    [
        (order(generation=2, layout=5), TrimVerdict.MISSING),
        (order(layout=4), TrimVerdict.SUPERSEDED),
        (order(BILLING, AUDIT, layout=5), TrimVerdict.MISSING),
    ],
    ids=["of a life that was never made", "of an earlier layout", "with a group that is gone"],
)
def test_an_order_that_does_not_fit_the_shard_does_nothing(
    make_rig: MakeRig, wanted: Trim, verdict: TrimVerdict
) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"), layout=5)])
        ids = await fill(rig)
        await consume(rig)

        done = await trim(rig, wanted)

        assert (done, await rig.ids(KEY)) == (Trimmed(verdict), ids)

    play(make_rig, scenario)


def test_a_retired_or_missing_shard_is_left_alone(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        missing = await trim(rig)
        await rig.backend.provision([provision((BILLING, "0"))])
        await rig.backend.seal(seal(BILLING))

        sealed = await trim(rig)

        assert (missing, sealed) == (Trimmed(TrimVerdict.MISSING), Trimmed(TrimVerdict.SUPERSEDED))

    play(make_rig, scenario)


def test_a_key_whose_mark_was_lost_is_left_alone(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        ids = await fill(rig)
        await consume(rig)
        await rig.forget_fence(KEY)

        done = await trim(rig)

        assert (done, await rig.ids(KEY)) == (Trimmed(TrimVerdict.MISSING), ids)

    play(make_rig, scenario)


def test_no_more_goes_at_once_than_is_asked_for(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        ids = await fill(rig)
        await consume(rig)

        nothing, some = await trim(rig, order(limit=0)), await trim(rig, order(limit=200))

        assert nothing.removed == 0
        assert 100 <= some.removed <= 200
        assert len(await rig.ids(KEY)) == len(ids) - some.removed

    play(make_rig, scenario)


def test_the_lag_stays_right_after_a_trim(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "0"))])
        await fill(rig)
        await consume(rig, 300)
        await consume(rig, 250, group=AUDIT)

        await trim(rig, order(BILLING, AUDIT))
        await publish(rig, "one more")
        await consume(rig, 10)

        (probe,) = await rig.backend.probe(ORDERS, [ZERO])
        assert {group.name: group.lag for group in probe.groups} == {AUDIT: 101, BILLING: 41}

    play(make_rig, scenario)


def test_nothing_was_missed_where_only_this_trims(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "$"))])
        for _ in range(3):
            await fill(rig, 150)
            await consume(rig, 149)
            await consume(rig, 60, group=AUDIT)
            done = await trim(rig, order(BILLING, AUDIT))

        assert done.missed == (Missed(BILLING, 0, 0, exact=True), Missed(AUDIT, 0, 0, exact=True))

    play(make_rig, scenario)


def test_what_others_removed_unread_is_counted_once_and_the_lag_is_set_right(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "0"))])
        await fill(rig, 50)
        await consume(rig, 50, group=AUDIT)
        await trim(rig, order(BILLING, AUDIT, limit=0))
        await drop_oldest(rig, 20)

        first, again = [await trim(rig, order(BILLING, AUDIT, limit=0)) for _ in range(2)]

        assert first.missed == (Missed(BILLING, 30, 30, exact=True), Missed(AUDIT, 0, 0, exact=True))
        assert again.missed == (Missed(BILLING, 30, 0, exact=True), Missed(AUDIT, 0, 0, exact=True))
        await read(rig, 1, 5)
        (probe,) = await rig.backend.probe(ORDERS, [ZERO])
        assert {group.name: group.lag for group in probe.groups} == {AUDIT: 0, BILLING: 15}

    play(make_rig, scenario)


def test_every_further_loss_is_added_to_the_count(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        await fill(rig, 50)
        await drop_oldest(rig, 20)
        first = await trim(rig, order(limit=0))
        await consume(rig, 10)
        await trim(rig, order(limit=0))
        await drop_oldest(rig, 4)

        second = await trim(rig, order(limit=0))
        await drop_oldest(rig, 0)
        third = await trim(rig, order(limit=0))

        assert [done.missed for done in (first, second, third)] == [
            (Missed(BILLING, 30, 30, exact=True),),
            (Missed(BILLING, 36, 6, exact=True),),
            (Missed(BILLING, 40, 4, exact=True),),
        ]

    play(make_rig, scenario)


def test_a_loss_between_two_looks_in_which_the_group_read_on_is_a_least_number(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        await fill(rig, 50)
        await trim(rig, order(limit=0))
        await consume(rig, 10)
        await drop_oldest(rig, 20)

        done = await trim(rig, order(limit=0))

        assert done.missed == (Missed(BILLING, 20, 20, exact=False),)

    play(make_rig, scenario)


def test_what_was_gone_before_the_group_was_made_was_never_meant_for_it(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        await fill(rig, 50)
        await consume(rig, 50)
        await drop_oldest(rig, 20)
        await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "0"), layout=2)])

        before = await trim(rig, order(BILLING, AUDIT, layout=2, limit=0))
        await drop_oldest(rig, 15)
        after = await trim(rig, order(BILLING, AUDIT, layout=2, limit=0))

        assert before.missed == (Missed(BILLING, 0, 0, exact=True), Missed(AUDIT, 0, 0, exact=True))
        assert after.missed == (Missed(BILLING, 0, 0, exact=True), Missed(AUDIT, 5, 5, exact=True))

    play(make_rig, scenario)
