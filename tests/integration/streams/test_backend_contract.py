"""What every `StreamBackend` promises."""

import pytest

from streamshard.core.effects import (
    DropGroup,
    GroupProbe,
    GuardResult,
    MendLag,
    ProvisionResult,
    RaiseLayout,
    RaiseResult,
    RaiseVerdict,
    ShardProbe,
)
from streamshard.core.ids import Generation, GroupName, LayoutVersion, ShardIndex, Token
from streamshard.core.records import AckMode
from streamshard.core.stream import FenceMark
from tests.integration.streams.rigs import (
    AUDIT,
    BILLING,
    KEY,
    ORDERS,
    START,
    ZERO,
    MakeRig,
    Rig,
    access,
    play,
    provision,
    publish,
    raise_to,
    seal,
)

DONE, FOREIGN = ProvisionResult.DONE, ProvisionResult.FOREIGN
REPORTS = GroupName("reports")


def raise_layout(layout: int, *, generation: int = 1) -> RaiseLayout:
    return RaiseLayout(ORDERS, ZERO, Generation(generation), LayoutVersion(layout))


def drop(group: GroupName, *, generation: int = 1, layout: int = 1) -> DropGroup:
    return DropGroup(ORDERS, ZERO, Generation(generation), LayoutVersion(layout), group)


def mend(group: GroupName, *, generation: int = 1, layout: int = 1) -> MendLag:
    return MendLag(ORDERS, ZERO, Generation(generation), LayoutVersion(layout), group)


async def fence(rig: Rig) -> FenceMark:
    (mark,) = await rig.backend.read_fences(ORDERS, [ZERO])
    return mark


async def look(rig: Rig) -> ShardProbe:
    (probe,) = await rig.backend.probe(ORDERS, [ZERO])
    return probe


async def groups_at(rig: Rig) -> dict[GroupName, str]:
    return {group.name: group.last_delivered for group in (await look(rig)).groups}


async def read_and_ack(rig: Rig, token: int = 5, group: GroupName = BILLING) -> None:
    grant = access(token, group=group)
    (reply,) = await rig.log.read([(grant, 100)])
    await rig.log.acknowledge(grant, [record.id for record in reply.records], AckMode.ACK)


class TestProvision:
    def test_makes_the_key_its_groups_and_its_mark(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            results = await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "0"), layout=3)])

            assert results == (DONE,)
            assert await fence(rig) == FenceMark(ZERO, True, Generation(1), False, LayoutVersion(3), {})
            assert await groups_at(rig) == {AUDIT: "0-0", BILLING: "0-0"}

        play(make_rig, scenario)

    def test_answers_each_order_in_its_place(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.create_foreign("orders:1", (REPORTS,))
            orders = [provision((BILLING, "0"), shard=shard) for shard in range(3)]

            assert await rig.backend.provision(orders) == (DONE, FOREIGN, DONE)

        play(make_rig, scenario)

    def test_no_orders_get_no_answers(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            assert await rig.backend.provision([]) == ()

        play(make_rig, scenario)

    def test_can_be_repeated_without_moving_a_group(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            order = provision((BILLING, "0"))
            await rig.backend.provision([order])
            first, _ = await publish(rig, "a", "b")
            await rig.log.read([(access(5), 1)])

            assert await rig.backend.provision([order]) == (DONE,)
            assert await groups_at(rig) == {BILLING: first}

        play(make_rig, scenario)

    def test_makes_a_key_that_producers_find_also_without_groups(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            assert await rig.backend.provision([provision()]) == (DONE,)

            assert len(await publish(rig, "a")) == 1
            assert (await look(rig)).groups == ()

        play(make_rig, scenario)

    def test_a_group_from_the_start_sees_the_backlog_and_one_from_the_end_does_not(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            first, last = await publish(rig, "a", "b")

            await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "$"), (REPORTS, "0"))])

            assert [(g.name, g.lag, g.first_undelivered) for g in (await look(rig)).groups] == [
                (AUDIT, 0, None),
                (BILLING, 2, first),
                (REPORTS, 2, first),
            ]
            assert (await groups_at(rig))[AUDIT] == last

        play(make_rig, scenario)

    def test_the_lag_of_a_group_from_the_end_is_known_while_it_grows(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision()])
            await publish(rig, "a", "b")
            await rig.backend.provision([provision((AUDIT, "$"))])

            await publish(rig, "c", "d", "e")

            assert [group.lag for group in (await look(rig)).groups] == [3]

        play(make_rig, scenario)

    def test_a_group_can_begin_behind_a_given_record(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision()])
            first, second = await publish(rig, "a", "b")

            await rig.backend.provision([provision((BILLING, first))])

            assert [group.first_undelivered for group in (await look(rig)).groups] == [second]

        play(make_rig, scenario)

    def test_leaves_a_stranger_with_records_alone(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.create_foreign(KEY, ())
            await publish(rig, "a")

            assert await rig.backend.provision([provision((BILLING, "0"))]) == (FOREIGN,)
            assert await fence(rig) == FenceMark(ZERO, True, None, False, None, {})
            assert await groups_at(rig) == {}

        play(make_rig, scenario)

    def test_leaves_a_stranger_with_groups_alone(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.create_foreign(KEY, (REPORTS,))

            assert await rig.backend.provision([provision((BILLING, "0"))]) == (FOREIGN,)

        play(make_rig, scenario)

    def test_takes_a_stranger_that_is_empty_and_has_only_ordered_groups(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.create_foreign(KEY, (BILLING,))

            assert await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "0"))]) == (DONE,)
            assert await groups_at(rig) == {AUDIT: "0-0", BILLING: "0-0"}

        play(make_rig, scenario)

    def test_adopts_a_stranger_when_told_to(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.create_foreign(KEY, (REPORTS,))
            ids = await publish(rig, "a")

            assert await rig.backend.provision([provision((BILLING, "0"), adopt=True)]) == (DONE,)
            assert await rig.ids(KEY) == ids
            assert await groups_at(rig) == {BILLING: "0-0", REPORTS: "0-0"}

        play(make_rig, scenario)

    def test_a_key_left_by_an_earlier_life_is_read_from_its_start(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision()])
            first, _ = await publish(rig, "a", "b")

            assert await rig.backend.provision([provision((BILLING, "$"), generation=2)]) == (DONE,)
            assert [group.first_undelivered for group in (await look(rig)).groups] == [first]
            assert (await fence(rig)).generation == 2

        play(make_rig, scenario)

    def test_is_refused_below_the_known_generation(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), generation=2)])

            assert await rig.backend.provision([provision((AUDIT, "0"))]) == (ProvisionResult.SUPERSEDED,)
            assert await groups_at(rig) == {BILLING: "0-0"}

        play(make_rig, scenario)

    def test_is_refused_below_the_known_layout(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.raise_layouts([raise_layout(4)])

            assert await rig.backend.provision([provision((BILLING, "0"), layout=3)]) == (ProvisionResult.SUPERSEDED,)
            assert not (await look(rig)).exists

        play(make_rig, scenario)

    def test_a_provisioner_that_wakes_after_the_seal_is_refused(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            order = provision((BILLING, "0"))
            await rig.backend.provision([order])
            await rig.backend.seal(seal(BILLING))

            assert await rig.backend.provision([order]) == (ProvisionResult.SUPERSEDED,)
            assert not (await look(rig)).exists
            assert await publish(rig, "a") == ()

        play(make_rig, scenario)

    def test_a_sealed_shard_comes_back_as_its_next_life_with_its_tokens(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.backend.raise_fences([raise_to(7)])
            await rig.backend.seal(seal(BILLING))

            assert await rig.backend.provision([provision((BILLING, "0"), generation=2)]) == (DONE,)
            expected = FenceMark(ZERO, True, Generation(2), False, LayoutVersion(1), {BILLING: Token(7)})
            assert await fence(rig) == expected

        play(make_rig, scenario)


class TestRaiseFences:
    def test_raises_a_mark_from_its_floor(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "0"))])

            results = await rig.backend.raise_fences([raise_to(7), raise_to(3, group=AUDIT), raise_to(9, floor=7)])

            assert results == (
                RaiseResult(RaiseVerdict.RAISED, Token(7)),
                RaiseResult(RaiseVerdict.RAISED, Token(3)),
                RaiseResult(RaiseVerdict.RAISED, Token(9)),
            )
            assert (await fence(rig)).tokens == {AUDIT: 3, BILLING: 9}

        play(make_rig, scenario)

    def test_a_token_as_large_as_they_get_keeps_every_digit(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            largest = 2**53 - 1

            await rig.backend.raise_fences([raise_to(largest - 1)])
            results = await rig.backend.raise_fences([raise_to(largest, floor=largest - 1)])

            assert results == (RaiseResult(RaiseVerdict.RAISED, Token(largest)),)
            assert (await fence(rig)).tokens == {BILLING: largest}

        play(make_rig, scenario)

    def test_can_be_repeated(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.backend.raise_fences([raise_to(7, floor=0)])

            assert await rig.backend.raise_fences([raise_to(7, floor=0)]) == (
                RaiseResult(RaiseVerdict.RAISED, Token(7)),
            )

        play(make_rig, scenario)

    def test_a_mark_above_the_floor_is_reported_and_left(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.backend.raise_fences([raise_to(9)])

            assert await rig.backend.raise_fences([raise_to(8, floor=7)]) == (
                RaiseResult(RaiseVerdict.ABOVE, Token(9)),
            )
            assert (await fence(rig)).tokens == {BILLING: 9}

        play(make_rig, scenario)

    @pytest.mark.parametrize("missing", ["key", "group"])
    def test_what_is_missing_gets_no_mark(self, make_rig: MakeRig, missing: str) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await (rig.lose_shard(KEY) if missing == "key" else rig.lose_group(KEY, BILLING))

            assert await rig.backend.raise_fences([raise_to(7)]) == (RaiseResult(RaiseVerdict.MISSING, Token(0)),)
            assert (await fence(rig)).tokens == {}

        play(make_rig, scenario)

    def test_a_shard_not_yet_made_in_this_life_is_missing(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            results = await rig.backend.raise_fences([raise_to(7, generation=2)])

            assert results == (RaiseResult(RaiseVerdict.MISSING, Token(0)),)

        play(make_rig, scenario)

    @pytest.mark.parametrize("cause", ["sealed", "generation", "layout"])
    def test_is_refused_when_something_later_is_known(self, make_rig: MakeRig, cause: str) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.backend.raise_fences([raise_to(4)])
            if cause == "sealed":
                await rig.backend.seal(seal(BILLING))
            elif cause == "generation":
                await rig.backend.provision([provision((BILLING, "0"), generation=2)])
            else:
                await rig.backend.raise_layouts([raise_layout(2)])

            results = await rig.backend.raise_fences([raise_to(7, floor=4)])

            assert results == (RaiseResult(RaiseVerdict.SUPERSEDED, Token(4)),)

        play(make_rig, scenario)

    def test_a_lost_fence_is_written_anew(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.forget_fence(KEY)

            assert await rig.backend.raise_fences([raise_to(7)]) == (RaiseResult(RaiseVerdict.RAISED, Token(7)),)
            expected = FenceMark(ZERO, True, Generation(1), False, LayoutVersion(1), {BILLING: Token(7)})
            assert await fence(rig) == expected

        play(make_rig, scenario)


class TestRaiseLayouts:
    def test_an_order_of_an_earlier_layout_is_refused_from_then_on(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), layout=2)])

            assert await rig.backend.raise_layouts([raise_layout(3)]) == (GuardResult.DONE,)
            assert await rig.backend.seal(seal(BILLING, layout=2)) is GuardResult.SUPERSEDED
            assert await rig.backend.raise_layouts([raise_layout(2)]) == (GuardResult.SUPERSEDED,)
            assert (await fence(rig)).layout == 3

        play(make_rig, scenario)

    def test_says_when_the_shard_is_sealed_already(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.backend.seal(seal(BILLING))

            assert await rig.backend.raise_layouts([raise_layout(2)]) == (GuardResult.SEALED,)
            assert (await fence(rig)).layout == 2

        play(make_rig, scenario)

    def test_is_refused_for_an_earlier_life(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), generation=2)])

            assert await rig.backend.raise_layouts([raise_layout(5)]) == (GuardResult.SUPERSEDED,)

        play(make_rig, scenario)


class TestReading:
    def test_what_never_was_has_no_marks_and_stays_so(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            nothing = FenceMark(ZERO, False, None, False, None, {})

            assert await fence(rig) == nothing
            assert await look(rig) == ShardProbe(ZERO, False, None, False, 0, ())
            assert await fence(rig) == nothing

        play(make_rig, scenario)

    def test_shards_are_answered_in_the_order_asked(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in range(3)])
            asked = [ShardIndex(2), ShardIndex(0), ShardIndex(5)]

            fences = await rig.backend.read_fences(ORDERS, asked)
            probes = await rig.backend.probe(ORDERS, asked)

            assert [(mark.shard, mark.key_exists) for mark in fences] == [(2, True), (0, True), (5, False)]
            assert [(probe.shard, probe.exists) for probe in probes] == [(2, True), (0, True), (5, False)]

        play(make_rig, scenario)

    def test_a_probe_shows_what_is_pending_and_what_is_undelivered(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "0"))])
            first, second, third = await publish(rig, "a", "b", "c")
            await rig.log.read([(access(5), 2)])

            probe = await look(rig)

            audit = GroupProbe(AUDIT, 0, 3, last_delivered=START, first_undelivered=first, oldest_pending=None)
            billing = GroupProbe(BILLING, 2, 1, last_delivered=second, first_undelivered=third, oldest_pending=first)
            assert probe == ShardProbe(ZERO, True, Generation(1), False, 3, (audit, billing))

        play(make_rig, scenario)

    def test_a_probe_sees_an_empty_shard_where_the_counter_is_off(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            *_, last = await publish(rig, "a", "b", "c")
            await rig.delete_record(KEY, last)
            await read_and_ack(rig)

            (group,) = (await look(rig)).groups

            assert (group.pending, group.first_undelivered, group.lag) == (0, None, None)

        play(make_rig, scenario)


class TestSeal:
    def test_retires_a_drained_shard_for_good(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await publish(rig, "a", "b")
            await read_and_ack(rig)

            assert await rig.backend.seal(seal(BILLING, layout=2)) is GuardResult.DONE
            expected = FenceMark(ZERO, False, Generation(1), True, LayoutVersion(2), {BILLING: Token(5)})
            assert await fence(rig) == expected
            assert await look(rig) == ShardProbe(ZERO, False, Generation(1), True, 0, ())
            assert await publish(rig, "c") == ()

        play(make_rig, scenario)

    def test_can_be_repeated(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            results = [await rig.backend.seal(seal(BILLING)) for _ in range(2)]

            assert results == [GuardResult.DONE, GuardResult.DONE]

        play(make_rig, scenario)

    def test_is_refused_while_a_record_is_undelivered(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            ids = await publish(rig, "a")

            assert await rig.backend.seal(seal(BILLING)) is GuardResult.NOT_EMPTY
            assert await rig.ids(KEY) == ids
            assert not (await fence(rig)).sealed

        play(make_rig, scenario)

    def test_is_refused_while_a_record_is_pending(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await publish(rig, "a")
            await rig.log.read([(access(5), 1)])

            assert await rig.backend.seal(seal(BILLING)) is GuardResult.NOT_EMPTY

        play(make_rig, scenario)

    def test_counts_groups_that_nobody_registered(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await publish(rig, "a")
            await read_and_ack(rig)
            await rig.create_foreign(KEY, (REPORTS,))

            assert await rig.backend.seal(seal(BILLING)) is GuardResult.NOT_EMPTY
            assert await rig.backend.seal(seal(BILLING, ignored=(REPORTS,))) is GuardResult.DONE

        play(make_rig, scenario)

    def test_never_ignores_a_registered_group(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await publish(rig, "a")

            assert await rig.backend.seal(seal(BILLING, ignored=(BILLING,))) is GuardResult.NOT_EMPTY

        play(make_rig, scenario)

    def test_wants_every_registered_group_to_be_there(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            assert await rig.backend.seal(seal(BILLING, AUDIT)) is GuardResult.NOT_EMPTY

        play(make_rig, scenario)

    def test_records_that_no_group_reads_are_not_thrown_away(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision()])
            await publish(rig, "a")

            assert await rig.backend.seal(seal()) is GuardResult.NOT_EMPTY

        play(make_rig, scenario)

    def test_an_unknown_lag_is_no_proof_until_it_is_mended(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            *_, last = await publish(rig, "a", "b", "c")
            await rig.delete_record(KEY, last)
            await read_and_ack(rig)

            assert await rig.backend.seal(seal(BILLING)) is GuardResult.NOT_EMPTY
            assert await rig.backend.tidy([mend(BILLING)]) == (GuardResult.DONE,)
            assert await rig.backend.seal(seal(BILLING)) is GuardResult.DONE

        play(make_rig, scenario)

    def test_a_vanished_key_is_marked_all_the_same(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.lose_shard(KEY)

            assert await rig.backend.seal(seal(BILLING)) is GuardResult.DONE
            assert (await fence(rig)).sealed

        play(make_rig, scenario)

    def test_a_shard_that_was_never_made_can_be_closed_to_a_late_provisioner(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.backend.seal(seal(BILLING))

            assert await rig.backend.seal(seal(BILLING, generation=2)) is GuardResult.DONE
            late = await rig.backend.provision([provision((BILLING, "0"), generation=2)])
            assert late == (ProvisionResult.SUPERSEDED,)

        play(make_rig, scenario)

    def test_a_key_that_came_back_is_sealed_again_only_when_it_is_drained(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.backend.seal(seal(BILLING))
            await rig.create_foreign(KEY, (BILLING,))
            await publish(rig, "a")

            assert await rig.backend.seal(seal(BILLING)) is GuardResult.NOT_EMPTY
            await rig.lose_shard(KEY)
            await rig.create_foreign(KEY, (BILLING,))
            assert await rig.backend.seal(seal(BILLING)) is GuardResult.DONE
            assert not (await look(rig)).exists

        play(make_rig, scenario)

    def test_a_seal_of_an_earlier_life_is_refused(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), generation=2)])

            assert await rig.backend.seal(seal(BILLING)) is GuardResult.SUPERSEDED
            assert (await look(rig)).exists

        play(make_rig, scenario)


class TestTidy:
    def test_drops_a_group_and_keeps_its_token(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "0"))])
            await rig.backend.raise_fences([raise_to(7)])

            results = [await rig.backend.tidy([drop(BILLING)]) for _ in range(2)]

            assert results == [(GuardResult.DONE,), (GuardResult.DONE,)]
            assert await groups_at(rig) == {AUDIT: "0-0"}
            assert (await fence(rig)).tokens == {BILLING: 7}

        play(make_rig, scenario)

    def test_drops_nothing_from_a_later_life_or_layout(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), generation=2, layout=4)])

            results = await rig.backend.tidy([drop(BILLING, layout=4), drop(BILLING, generation=2, layout=3)])

            assert results == (GuardResult.SUPERSEDED, GuardResult.SUPERSEDED)
            assert await groups_at(rig) == {BILLING: "0-0"}

        play(make_rig, scenario)

    def test_a_mended_counter_is_right_again_behind_the_next_record(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            *_, last = await publish(rig, "a", "b")
            await rig.delete_record(KEY, last)
            await read_and_ack(rig)

            assert await rig.backend.tidy([mend(BILLING)]) == (GuardResult.DONE,)
            assert [group.lag for group in (await look(rig)).groups] == [0]
            (later,) = await publish(rig, "c")
            assert [group.first_undelivered for group in (await look(rig)).groups] == [later]
            await read_and_ack(rig)
            assert [group.lag for group in (await look(rig)).groups] == [0]

        play(make_rig, scenario)

    @pytest.mark.parametrize("left", ["undelivered", "pending"])
    def test_mends_nothing_while_something_is_left(self, make_rig: MakeRig, left: str) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await publish(rig, "a")
            if left == "pending":
                await rig.log.read([(access(5), 1)])
            before = await look(rig)

            assert await rig.backend.tidy([mend(BILLING)]) == (GuardResult.NOT_EMPTY,)
            assert await look(rig) == before

        play(make_rig, scenario)
