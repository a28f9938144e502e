"""What every `ShardLog` promises."""

import asyncio

import pytest

from streamshard.core.ids import GroupName, Millis, RecordId, ShardIndex
from streamshard.core.records import Access, AckMode, AckReply, ClaimReply, ReadReply, Record
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
    seal,
)


async def read(rig: Rig, token: int, count: int = 100, *, generation: int = 1, consumer: str = "c1") -> ReadReply:
    (reply,) = await rig.log.read([(access(token, generation=generation, consumer=consumer), count)])
    return reply


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


class TestClaim:
    def test_takes_over_what_is_pending_under_any_name_page_by_page(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            first, second, third = await publish(rig, "a", "b", "c")
            await read(rig, 5, 1, consumer="c1")
            await read(rig, 5, 2, consumer="c2")
            heir = access(6, consumer="c3")

            page = await rig.log.claim(heir, START, 2)
            assert page.cursor is not None
            rest = await rig.log.claim(heir, page.cursor, 2)

            taken = (Record(first, {b"text": b"a"}, 2), Record(second, {b"text": b"b"}, 2))
            assert page == ClaimReply(Access.OK, taken, third, third)
            assert rest == ClaimReply(Access.OK, (Record(third, {b"text": b"c"}, 2),), None, third)

        play(make_rig, scenario)

    def test_counts_every_delivery(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await publish(rig, "a", "b")
            await read(rig, 5, 1)

            counts = []
            for _ in range(3):
                reply = await rig.log.claim(access(5), START, 10)
                counts.append([record.deliveries for record in reply.records])

            assert counts == [[2], [3], [4]]

        play(make_rig, scenario)

    def test_an_empty_pending_list_gives_an_empty_last_page(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await publish(rig, "a")

            assert await rig.log.claim(access(5), START, 10) == ClaimReply(Access.OK, (), None, START)

        play(make_rig, scenario)

    def test_an_entry_deleted_while_pending_comes_without_fields_and_in_its_place(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            first, second, third = await publish(rig, "a", "b", "c")
            await read(rig, 5)
            await rig.delete_record(KEY, second)

            reply = await rig.log.claim(access(5), START, 10)

            assert [(record.id, record.fields) for record in reply.records] == [
                (first, {b"text": b"a"}),
                (second, None),
                (third, {b"text": b"c"}),
            ]
            await rig.log.acknowledge(access(5), [record.id for record in reply.records], AckMode.ACK)
            assert (await rig.log.claim(access(5), START, 10)).records == ()

        play(make_rig, scenario)

    def test_is_fenced_sealed_and_missing_like_a_read(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await read(rig, 6)

            fenced = await rig.log.claim(access(5), START, 10)
            missing = await rig.log.claim(access(6, group=AUDIT), START, 10)
            await rig.backend.seal(seal(BILLING))
            sealed = await rig.log.claim(access(6), START, 10)

            assert [fenced, missing, sealed] == [
                ClaimReply(Access.FENCED),
                ClaimReply(Access.MISSING),
                ClaimReply(Access.SEALED),
            ]

        play(make_rig, scenario)

    def test_raises_the_mark_so_that_the_old_reader_is_fenced(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            (record,) = await publish(rig, "a")
            await read(rig, 5)

            await rig.log.claim(access(6, consumer="c2"), START, 10)

            assert await read(rig, 5) == ReadReply(Access.FENCED)
            assert await rig.log.acknowledge(access(5), [record], AckMode.ACK) == AckReply(Access.FENCED)

        play(make_rig, scenario)

    def test_a_page_of_nothing_is_refused(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            with pytest.raises(InvalidRequest, match="count"):
                await rig.log.claim(access(5), START, 0)

        play(make_rig, scenario)


class TestAcknowledge:
    @pytest.mark.parametrize("mode", list(AckMode))
    def test_counts_what_was_pending_and_is_not_any_more(self, make_rig: MakeRig, mode: AckMode) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            first, second, third = await publish(rig, "a", "b", "c")
            await read(rig, 5, 2)

            replies = [
                await rig.log.acknowledge(access(5), [first, third], mode),
                await rig.log.acknowledge(access(5), [first], mode),
                await rig.log.acknowledge(access(5), [], mode),
            ]

            assert replies == [AckReply(Access.OK, 1), AckReply(Access.OK, 0), AckReply(Access.OK, 0)]
            assert [r.id for r in (await rig.log.claim(access(5), START, 10)).records] == [second]

        play(make_rig, scenario)

    @pytest.mark.parametrize("mode", list(AckMode))
    def test_takes_more_ids_than_a_script_can_unpack(self, make_rig: MakeRig, mode: AckMode) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            ids = [RecordId(f"{n}-1") for n in range(9_000)]
            (real,) = await publish(rig, "a")
            await read(rig, 5)

            assert await rig.log.acknowledge(access(5), [*ids, real], mode) == AckReply(Access.OK, 1)

        play(make_rig, scenario)

    @pytest.mark.parametrize("mode", list(AckMode))
    def test_settles_an_entry_deleted_while_pending(self, make_rig: MakeRig, mode: AckMode) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            (record,) = await publish(rig, "a")
            await read(rig, 5)
            await rig.delete_record(KEY, record)

            assert await rig.log.acknowledge(access(5), [record], mode) == AckReply(Access.OK, 1)
            (probe,) = await rig.backend.probe(ORDERS, [ZERO])
            assert [group.pending for group in probe.groups] == [0]

        play(make_rig, scenario)

    @pytest.mark.parametrize("mode", list(AckMode))
    def test_never_deletes_what_another_group_has_still_to_read(self, make_rig: MakeRig, mode: AckMode) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), (AUDIT, "0"))])
            ids = await publish(rig, "a")
            await read(rig, 5)

            await rig.log.acknowledge(access(5), ids, mode)

            assert await rig.ids(KEY) == ids
            (reply,) = await rig.log.read([(access(5, group=AUDIT), 10)])
            assert tuple(record.id for record in reply.records) == ids

        play(make_rig, scenario)

    def test_is_sealed_and_missing_like_a_read(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            ids = [RecordId("1-1")]

            missing = await rig.log.acknowledge(access(5, group=AUDIT), ids, AckMode.ACK)
            await rig.backend.seal(seal(BILLING))
            sealed = await rig.log.acknowledge(access(5), ids, AckMode.ACK)

            assert [missing, sealed] == [AckReply(Access.MISSING), AckReply(Access.SEALED)]

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


class TestDropConsumer:
    def test_a_name_goes_only_when_nothing_is_pending_under_it(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            ids = await publish(rig, "a")
            await read(rig, 5)

            assert await rig.log.drop_consumer(access(5)) is False
            await rig.log.acknowledge(access(5), ids, AckMode.ACK)
            assert await rig.log.drop_consumer(access(5)) is True

        play(make_rig, scenario)

    def test_what_is_not_there_is_gone(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            assert await rig.log.drop_consumer(access(5, consumer="nobody")) is True
            assert await rig.log.drop_consumer(access(5, group=AUDIT)) is True
            assert await rig.log.drop_consumer(access(5, shard=7)) is True
            (probe,) = await rig.backend.probe(ORDERS, [ShardIndex(7)])
            assert not probe.exists

        play(make_rig, scenario)
