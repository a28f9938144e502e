"""What every `StreamBackend` promises of making shards and their groups."""

from streamshard.core.effects import (
    ProvisionResult,
)
from streamshard.core.ids import Generation, GroupName, LayoutVersion, Token
from streamshard.core.stream import FenceMark
from tests.integration.streams.marks import fence, groups_at, look, raise_layout
from tests.integration.streams.rigs import (
    AUDIT,
    BILLING,
    KEY,
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
