"""What every `ShardLog` promises of reading, waiting and appending."""

import asyncio

import pytest

from streamshard.core.ids import GroupName, Millis
from streamshard.core.records import Access, ReadReply, Record
from streamshard.core.stream import FenceMark
from streamshard.errors import InvalidRequest
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
    read,
    seal,
)


async def marks(rig: Rig) -> dict[GroupName, int]:
    (mark,) = await rig.backend.read_fences(ORDERS, [ZERO])
    return dict(mark.tokens)


class TestRead:
    def test_gives_new_records_in_order_and_the_position_behind_them(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            first, second, third = await publish(rig, "a", "b", "c")

            replies = [await read(rig, 5, 2), await read(rig, 5, 2), await read(rig, 5, 2)]

            assert replies == [
                ReadReply(Access.OK, (Record(first, {b"text": b"a"}), Record(second, {b"text": b"b"})), second),
                ReadReply(Access.OK, (Record(third, {b"text": b"c"}),), third),
                ReadReply(Access.OK, (), third),
            ]

        play(make_rig, scenario)

    def test_serves_many_shards_at_once_each_by_its_own_fence(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in (0, 1)])
            await rig.backend.raise_fences([raise_to(9)])
            (there,) = await publish(rig, "b", key="orders:1")

            replies = await rig.log.read([(access(5), 10), (access(5, shard=1), 10), (access(5, shard=2), 10)])

            assert replies == (
                ReadReply(Access.FENCED),
                ReadReply(Access.OK, (Record(there, {b"text": b"b"}),), there),
                ReadReply(Access.MISSING),
            )

        play(make_rig, scenario)

    def test_wants_nothing_gets_nothing(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await publish(rig, "a")

            assert await rig.log.read([]) == ()
            assert await read(rig, 5, 0) == ReadReply(Access.OK, (), START)

        play(make_rig, scenario)

    def test_raises_the_mark_to_its_own_token(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "0"))])

            await read(rig, 5)
            await rig.log.read([(access(3, group=AUDIT), 1)])

            assert await marks(rig) == {AUDIT: 3, BILLING: 5}

        play(make_rig, scenario)

    def test_a_lower_token_is_fenced_and_takes_nothing(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await read(rig, 6)
            ids = await publish(rig, "a")

            assert await read(rig, 5) == ReadReply(Access.FENCED)
            assert tuple(record.id for record in (await read(rig, 6)).records) == ids

        play(make_rig, scenario)

    def test_tokens_are_compared_as_whole_numbers(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            largest = 2**53 - 1
            await read(rig, largest)

            assert await read(rig, largest - 1) == ReadReply(Access.FENCED)
            assert (await read(rig, largest)).access is Access.OK

        play(make_rig, scenario)

    @pytest.mark.parametrize("token", [1_000 + 10**13 + 1, 2**53, 2**60])
    def test_a_token_that_nobody_can_have_issued_does_not_lock_the_shard(self, make_rig: MakeRig, token: int) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await read(rig, 1_000)

            assert await read(rig, token) == ReadReply(Access.FENCED)
            assert await marks(rig) == {BILLING: 1_000}

        play(make_rig, scenario)

    def test_a_sealed_shard_says_so(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.backend.seal(seal(BILLING))

            assert await read(rig, 5) == ReadReply(Access.SEALED)

        play(make_rig, scenario)

    def test_a_grant_of_an_earlier_life_is_over(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), generation=2)])

            assert await read(rig, 5) == ReadReply(Access.SEALED)
            assert await marks(rig) == {}

        play(make_rig, scenario)

    def test_a_shard_not_yet_made_in_this_life_is_missing(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            assert await read(rig, 5, generation=2) == ReadReply(Access.MISSING)

        play(make_rig, scenario)

    @pytest.mark.parametrize("missing", ["key", "group"])
    def test_what_vanished_is_missing_and_is_not_made_again(self, make_rig: MakeRig, missing: str) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await (rig.lose_shard(KEY) if missing == "key" else rig.lose_group(KEY, BILLING))

            assert [await read(rig, 5), await read(rig, 5, 0)] == [ReadReply(Access.MISSING)] * 2
            (probe,) = await rig.backend.probe(ORDERS, [ZERO])
            assert (probe.exists, probe.groups) == (missing == "group", ())

        play(make_rig, scenario)

    def test_goes_on_where_the_fence_was_lost(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.forget_fence(KEY)

            assert (await read(rig, 5)).access is Access.OK
            assert await rig.backend.read_fences(ORDERS, [ZERO]) == (
                FenceMark(ZERO, True, None, False, None, {BILLING: access(5).token}),
            )

        play(make_rig, scenario)


class TestWait:
    def test_returns_at_once_when_there_is_news_already(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await publish(rig, "a")

            async with asyncio.timeout(5):
                await rig.log.wait({KEY: START}, Millis(60_000))

        play(make_rig, scenario)

    def test_is_woken_by_a_record_on_any_of_its_shards(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in (0, 1)])

            async with asyncio.timeout(5):
                waiting = asyncio.create_task(rig.log.wait({KEY: START, "orders:1": START}, Millis(60_000)))
                await asyncio.sleep(0.05)
                assert not waiting.done()
                await publish(rig, "b", key="orders:1")
                await waiting

        play(make_rig, scenario)

    def test_delivers_nothing(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            (record,) = await publish(rig, "a")

            await rig.log.wait({KEY: START}, Millis(1_000))

            (probe,) = await rig.backend.probe(ORDERS, [ZERO])
            assert [(g.pending, g.first_undelivered) for g in probe.groups] == [(0, record)]

        play(make_rig, scenario)

    def test_ends_on_its_timeout_with_old_news_no_news_and_no_keys(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            (record,) = await publish(rig, "a")

            async with asyncio.timeout(5):
                await rig.log.wait({KEY: record}, Millis(20))
                await rig.log.wait({"orders:7": START}, Millis(20))
                await rig.log.wait({}, Millis(20))
                await rig.log.wait({KEY: record}, Millis(0))

        play(make_rig, scenario)

    def test_can_be_cancelled_and_leaves_everything_in_order(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            for _ in range(20):
                waiting = asyncio.create_task(rig.log.wait({KEY: START}, Millis(60_000)))
                await asyncio.sleep(0.002)
                waiting.cancel()
                assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], asyncio.CancelledError)

            (record,) = await publish(rig, "a")
            async with asyncio.timeout(5):
                await rig.log.wait({KEY: START}, Millis(60_000))
            assert (await read(rig, 5)).last_delivered == record

        play(make_rig, scenario)


class TestAppend:
    def test_keeps_every_byte(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            every_byte = bytes(range(256))

            await rig.log.append(KEY, {"n": -7, "x": 0.1, "s": "주문", every_byte: every_byte, "e": ""}, None)

            (record,) = (await read(rig, 5)).records
            assert record.fields == {
                b"n": b"-7",
                b"x": b"0.1",
                b"s": "주문".encode(),
                every_byte: every_byte,
                b"e": b"",
            }

        play(make_rig, scenario)

    def test_never_makes_a_key(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            assert await rig.log.append(KEY, {"a": 1}, None) is None
            assert await rig.ids(KEY) == ()

        play(make_rig, scenario)

    def test_many_at_once_are_each_told_their_own_id(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            ids = await asyncio.gather(*[rig.log.append(KEY, {"n": n}, None) for n in range(1_000)])

            records = (await read(rig, 5, 2_000)).records
            assert [(r.id, r.fields) for r in records] == [(ids[n], {b"n": b"%d" % n}) for n in range(1_000)]

        play(make_rig, scenario)

    def test_a_record_that_is_none_disturbs_no_other(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            results = await asyncio.gather(
                rig.log.append(KEY, {"a": 1}, None),
                rig.log.append("orders:9", {"a": 2}, None),
                rig.log.append(KEY, {"a": 3}, None),
            )

            assert results[1] is None
            assert (results[0], results[2]) == await rig.ids(KEY)

        play(make_rig, scenario)

    @pytest.mark.parametrize("value", [None, True, [1], {"a": 1}, object()])
    def test_a_value_of_another_type_is_a_type_error_that_names_the_field(
        self, make_rig: MakeRig, value: object
    ) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            with pytest.raises(TypeError, match="'amount'"):
                await rig.log.append(KEY, {"amount": value}, None)  # type: ignore[dict-item]
            with pytest.raises(TypeError, match="name must be"):
                await rig.log.append(KEY, {7: "x"}, None)  # type: ignore[dict-item]
            assert await rig.ids(KEY) == ()

        play(make_rig, scenario)

    def test_a_record_without_fields_and_a_length_of_zero_are_refused(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            with pytest.raises(InvalidRequest, match="fields"):
                await rig.log.append(KEY, {}, None)
            with pytest.raises(InvalidRequest, match="max_len"):
                await rig.log.append(KEY, {"a": 1}, 0)
            assert await rig.ids(KEY) == ()

        play(make_rig, scenario)

    def test_a_maximal_length_keeps_at_least_the_newest(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            ids = [await rig.log.append(KEY, {"n": n}, 10) for n in range(400)]

            kept = await rig.ids(KEY)
            assert 10 <= len(kept) < 400
            assert list(kept) == ids[-len(kept) :]

        play(make_rig, scenario)
