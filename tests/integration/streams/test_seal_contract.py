"""What every `StreamBackend` promises of retiring shards, dropping groups and mending counters."""

import pytest

from streamshard.core.effects import (
    GuardResult,
    ProvisionResult,
    ShardProbe,
)
from streamshard.core.ids import Generation, GroupName, LayoutVersion, Token
from streamshard.core.stream import FenceMark
from tests.integration.streams.marks import drop, fence, groups_at, look, mend, read_and_ack
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

REPORTS = GroupName("reports")


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
