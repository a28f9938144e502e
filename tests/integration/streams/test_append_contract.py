"""What every log promises of many appends at once."""

import asyncio

import attrs

from streamshard.core.ports import AppendingMany
from streamshard.core.records import Access, AckMode, AckReply, Append
from tests.integration.streams.rigs import BILLING, KEY, MakeRig, RedisRig, Rig, access, play, provision


def many(rig: Rig) -> AppendingMany:
    assert isinstance(rig.log, AppendingMany)
    return rig.log


def numbered(count: int, key: str = KEY) -> list[Append]:
    return [Append(key, {b"n": b"%d" % n}) for n in range(count)]


class TestAppendMany:
    def test_each_is_told_its_own_id_in_order(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            ids = await many(rig).append_many(numbered(3_000))

            (reply,) = await rig.log.read([(access(5), 3_000)])
            assert [(r.id, r.fields) for r in reply.records] == [(ids[n], {b"n": b"%d" % n}) for n in range(3_000)]

        play(make_rig, scenario)

    def test_a_key_that_is_not_there_is_none_and_disturbs_no_other(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            first, second = numbered(2)

            results = await many(rig).append_many([first, attrs.evolve(first, key="orders:9"), second])

            assert results[1] is None
            assert (results[0], results[2]) == await rig.ids(KEY)
            assert await rig.ids("orders:9") == ()

        play(make_rig, scenario)

    def test_many_callers_share_what_is_sent_and_each_has_its_own_results(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            found = await asyncio.gather(*[many(rig).append_many(numbered(n)) for n in (1, 700, 0, 700, 3)])

            assert [len(results) for results in found] == [1, 700, 0, 700, 3]
            assert [record for results in found for record in results] == list(await rig.ids(KEY))

        play(make_rig, scenario)

    def test_an_exact_length_is_kept_exactly(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])

            ids = await many(rig).append_many([attrs.evolve(r, max_len=7, exact=True) for r in numbered(300)])

            assert list(await rig.ids(KEY)) == ids[-7:]

        play(make_rig, scenario)

    def test_large_records_come_through_whole(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            large = [bytes([n]) * 5_000_000 for n in range(4)]

            ids = await asyncio.gather(*[many(rig).append_many([Append(KEY, {b"x": text})]) for text in large])

            (reply,) = await rig.log.read([(access(5), 10)])
            assert [(r.id, r.fields) for r in reply.records] == [
                (found[0], {b"x": text}) for found, text in zip(ids, large, strict=True)
            ]

        play(make_rig, scenario)


def test_a_caller_that_gives_up_in_line_sends_nothing_and_others_are_served(redis_url: str) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        giving_up = asyncio.create_task(many(rig).append_many(numbered(5)))
        staying = asyncio.create_task(many(rig).append_many(numbered(1)))
        await asyncio.sleep(0)
        giving_up.cancel()

        results = await staying

        assert giving_up.cancelled()
        assert tuple(results) == await rig.ids(KEY)

    play(lambda: RedisRig(redis_url), scenario)


class TestAcknowledgeTogether:
    def test_each_has_its_own_answer(self, make_rig: MakeRig) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in range(3)])
            for shard in range(3):
                await rig.log.append(f"orders:{shard}", {"n": 1}, None)
            replies = await rig.log.read([(access(5, shard=shard), 1) for shard in range(3)])
            ids = [[record.id for record in reply.records] for reply in replies]

            found = await asyncio.gather(
                rig.log.acknowledge(access(5, shard=0), ids[0], AckMode.ACK),
                rig.log.acknowledge(access(4, shard=1), ids[1], AckMode.ACK),
                rig.log.acknowledge(access(5, shard=2), ids[2], AckMode.ACK),
                rig.log.acknowledge(access(5, shard=7), ids[2], AckMode.ACK),
            )

            assert list(found) == [
                AckReply(Access.OK, 1),
                AckReply(Access.FENCED),
                AckReply(Access.OK, 1),
                AckReply(Access.MISSING),
            ]

        play(make_rig, scenario)

    def test_a_server_that_forgot_the_script_is_taught_it_again(self, server_url: str) -> None:
        async def scenario(rig: Rig) -> None:
            assert isinstance(rig, RedisRig)
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.log.append(KEY, {"n": 1}, None)
            (reply,) = await rig.log.read([(access(5), 1)])
            await rig.raw("SCRIPT", "FLUSH")

            answer = await rig.log.acknowledge(access(5), [record.id for record in reply.records], AckMode.ACK)

            assert answer == AckReply(Access.OK, 1)

        play(lambda: RedisRig(server_url), scenario)
