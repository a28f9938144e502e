"""What every `ShardLog` promises of records that were delivered: claiming, acknowledging, and whose they are."""

import pytest

from streamshard.core.ids import RecordId, ShardIndex
from streamshard.core.records import Access, AckMode, AckReply, ClaimReply, ReadReply, Record
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
    read,
    seal,
)


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
