"""What every `StreamBackend` promises of raising marks, and of reading them."""

import pytest

from streamshard.core.effects import (
    GroupProbe,
    GuardResult,
    RaiseResult,
    RaiseVerdict,
    ShardProbe,
)
from streamshard.core.ids import Generation, LayoutVersion, ShardIndex, Token
from streamshard.core.stream import FenceMark
from tests.integration.streams.marks import fence, look, raise_layout, read_and_ack
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
