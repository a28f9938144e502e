"""What a `ShardLog` promises that counts deliveries one by one: on every server, and in memory."""

import pytest

from streamshard.core.ports import Redelivering
from streamshard.core.records import Access, AckMode, AckReply, ClaimReply, DeliveryReply, Record
from streamshard.errors import InvalidRequest, StreamUnavailable
from tests.integration.streams.rigs import BILLING, START, MakeRig, Rig, access, play, provision, publish, raise_to


def redelivering(rig: Rig) -> Redelivering:
    assert isinstance(rig.log, Redelivering)
    return rig.log


async def delivered(rig: Rig, *texts: str) -> list[Record]:
    """Records that a consumer took and left pending."""
    await rig.backend.provision([provision((BILLING, "0"))])
    await publish(rig, *texts)
    (reply,) = await rig.log.read([(access(5, consumer="gone"), 100)])
    return list(reply.records)


class TestSurvey:
    def test_takes_over_what_is_pending_and_counts_no_delivery(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            first, second, third = await delivered(rig, "a", "b", "c")

            pages = [
                await redelivering(rig).survey(access(5), START, 2),
                await redelivering(rig).survey(access(5), third.id, 2),
            ]

            assert pages == [
                ClaimReply(Access.OK, (first, second), third.id, third.id),
                ClaimReply(Access.OK, (third,), None, third.id),
            ]
            assert await rig.log.drop_consumer(access(5, consumer="gone"))

        play(make_rig, scenario)

    def test_a_record_deleted_meanwhile_has_no_fields(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            first, second = await delivered(rig, "a", "b")
            await rig.delete_record("orders:0", first.id)

            reply = await redelivering(rig).survey(access(5), START, 10)

            assert reply.records == (Record(first.id, None), second)

        play(make_rig, scenario)

    def test_is_fenced_and_needs_a_group(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await delivered(rig, "a")
            await rig.backend.raise_fences([raise_to(9, floor=5)])
            assert (await redelivering(rig).survey(access(5), START, 10)).access is Access.FENCED
            await rig.lose_group("orders:0", BILLING)
            assert (await redelivering(rig).survey(access(9), START, 10)).access is Access.MISSING
            with pytest.raises(InvalidRequest, match="count"):
                await redelivering(rig).survey(access(9), START, 0)

        play(make_rig, scenario)


class TestDeliver:
    def test_counts_one_more_delivery_of_what_is_pending(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            first, second, third = await delivered(rig, "a", "b", "c")
            await rig.delete_record("orders:0", second.id)
            await rig.log.acknowledge(access(5), [third.id], AckMode.ACK)
            ids = [first.id, second.id, third.id]

            replies = [await redelivering(rig).deliver(access(5), ids) for _ in range(2)]

            assert replies == [DeliveryReply(Access.OK, {first.id: 2}), DeliveryReply(Access.OK, {first.id: 3})]
            page = await redelivering(rig).survey(access(5), START, 10)
            assert [(record.id, record.deliveries) for record in page.records] == [(first.id, 3)]

        play(make_rig, scenario)

    def test_is_fenced_and_needs_a_group(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            (record,) = await delivered(rig, "a")
            await rig.backend.raise_fences([raise_to(9, floor=5)])
            assert await redelivering(rig).deliver(access(5), [record.id]) == DeliveryReply(Access.FENCED)
            await rig.lose_group("orders:0", BILLING)
            assert await redelivering(rig).deliver(access(9), [record.id]) == DeliveryReply(Access.MISSING)

        play(make_rig, scenario)


class TestGiveBack:
    def test_leaves_a_record_under_nobody_s_name_where_the_server_can(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            (record,) = await delivered(rig, "a")
            if not (await redelivering(rig).abilities()).gives_back:
                with pytest.raises(StreamUnavailable, match="Redis refused the order"):
                    await redelivering(rig).give_back(access(5), [record.id])
                return

            assert await redelivering(rig).give_back(access(5), [record.id]) == AckReply(Access.OK, 1)
            assert await rig.log.drop_consumer(access(5, consumer="gone"))
            assert (await redelivering(rig).survey(access(5), START, 10)).records == (record,)

        play(make_rig, scenario)

    def test_is_fenced(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            (record,) = await delivered(rig, "a")
            await rig.backend.raise_fences([raise_to(9, floor=5)])
            assert await redelivering(rig).give_back(access(5), [record.id]) == AckReply(Access.FENCED)

        play(make_rig, scenario)


class TestBury:
    def test_makes_the_stream_and_keeps_every_octet(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            first = await redelivering(rig).bury("orders:dlq", {b"\x00\xff": b"\r\n"})
            second = await redelivering(rig).bury("orders:dlq", {b"a": b""})
            assert await rig.ids("orders:dlq") == (first, second)

        play(make_rig, scenario)


class TestAbilities:
    def test_a_server_is_named_and_asked(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            found = await redelivering(rig).abilities()
            assert found.server.split()[0] in ("Valkey", "Redis", "streams")
            if found.server.startswith(("Valkey", "Redis 7.")):
                assert (found.deletes_acknowledged, found.gives_back) == (False, False)
            if found.server.startswith("Redis 8.2"):
                assert (found.deletes_acknowledged, found.gives_back) == (True, False)

        play(make_rig, scenario)
