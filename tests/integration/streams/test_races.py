"""What must hold whoever comes first, tried on real servers."""

import asyncio
import random

from streamshard.adapters.streams.redis_log import RedisShardLog
from streamshard.core.effects import GuardResult, ProvisionResult, Seal
from streamshard.core.ids import Generation, LayoutVersion, RecordId, ShardIndex
from streamshard.core.records import Access
from tests.integration.streams.rigs import BILLING, KEY, ORDERS, RedisRig, Rig, access, play, provision, raise_to

ROUNDS = 2_000
LANES = 4


def seal_of(shard: int) -> Seal:
    return Seal(ORDERS, ShardIndex(shard), Generation(1), LayoutVersion(1), (BILLING,))


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_record_prevents_the_seal_or_is_refused_by_it(server_url: str) -> None:
    async def scenario(rig: Rig) -> None:
        shards = range(ROUNDS)
        await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in shards])
        pick = random.Random(7)
        sealed: dict[int, bool] = {}
        written: dict[int, bool] = {}

        async def retire(shard: int) -> None:
            await turns(pick.randrange(4))
            sealed[shard] = await rig.backend.seal(seal_of(shard)) is GuardResult.DONE

        async def publish(shard: int) -> None:
            await turns(pick.randrange(4))
            written[shard] = await rig.log.append(f"orders:{shard}", {"n": shard}, None) is not None

        async def lane(first: int) -> None:
            for shard in shards[first::LANES]:
                await asyncio.gather(retire(shard), publish(shard))

        await asyncio.gather(*[lane(first) for first in range(LANES)])

        assert [shard for shard in shards if written[shard] == sealed[shard]] == []
        assert set(sealed.values()) == {True, False}, "one side always won: nothing was raced"
        probes = await rig.backend.probe(ORDERS, [ShardIndex(shard) for shard in shards])
        assert [probe.length for probe in probes] == [int(written[shard]) for shard in shards]

    play(lambda: RedisRig(server_url), scenario)


def test_a_late_provisioner_never_brings_a_retired_shard_back(server_url: str) -> None:
    async def scenario(rig: Rig) -> None:
        orders = [provision((BILLING, "0"), shard=shard) for shard in range(200)]
        await rig.backend.provision(orders)

        racing = [task for o in orders for task in (rig.backend.seal(seal_of(o.shard)), rig.backend.provision([o]))]
        outcomes = await asyncio.gather(*racing)

        assert set(outcomes[::2]) == {GuardResult.DONE}
        assert set(outcomes[1::2]) <= {(ProvisionResult.DONE,), (ProvisionResult.SUPERSEDED,)}
        probes = await rig.backend.probe(ORDERS, [order.shard for order in orders])
        assert {(probe.exists, probe.sealed) for probe in probes} == {(False, True)}

    play(lambda: RedisRig(server_url), scenario)


def test_records_are_delivered_under_tokens_that_never_fall(server_url: str) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        await asyncio.gather(*[rig.log.append(KEY, {"n": n}, None) for n in range(1_000)])
        tokens = [number // 10 + 1 for number in range(1_000)]
        random.Random(7).shuffle(tokens)
        tokens.sort(key=lambda token: token // 20)
        delivered: dict[RecordId, int] = {}
        fenced = 0

        async def reader(token: int) -> None:
            nonlocal fenced
            (reply,) = await rig.log.read([(access(token, consumer=f"c{token}"), 2)])
            fenced += reply.access is Access.FENCED
            for record in reply.records:
                assert record.id not in delivered
                delivered[record.id] = token

        await asyncio.gather(*[reader(token) for token in tokens])

        in_order = [delivered[record] for record in await rig.ids(KEY) if record in delivered]
        assert in_order == sorted(in_order)
        assert fenced > 0
        assert len(set(in_order)) > 1

    play(lambda: RedisRig(server_url), scenario)


def test_of_two_coordinators_that_raise_from_one_floor_the_lower_never_ends_on_top(server_url: str) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        orders = [raise_to(token, floor=0) for token in range(1, 101)]
        random.Random(7).shuffle(orders)

        results = [verdict for (verdict,) in await asyncio.gather(*[rig.backend.raise_fences([o]) for o in orders])]

        raised = [result.mark for result in results if result.verdict.value == "RAISED"]
        assert len(raised) == 1
        assert {result.mark for result in results} == set(raised)

    play(lambda: RedisRig(server_url), scenario)


def test_two_logs_share_a_shard_without_handing_out_a_record_twice(server_url: str) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        ids = await asyncio.gather(*[rig.log.append(KEY, {"n": n}, None) for n in range(300)])
        other = RedisShardLog.from_url(server_url)

        try:
            reads = [log.read([(access(5), 3)]) for _ in range(60) for log in (rig.log, other)]
            replies = [reply for (reply,) in await asyncio.gather(*reads)]
        finally:
            await other.close()

        taken = [record.id for reply in replies for record in reply.records]
        assert sorted(taken) == sorted(record for record in ids if record is not None)

    play(lambda: RedisRig(server_url), scenario)
