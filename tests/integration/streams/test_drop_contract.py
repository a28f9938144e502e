"""Dropping a shard with its data: guarded by generation and layout like every order, the same on every server."""

import attrs
import pytest

from streamshard.core.effects import DropShard, GuardResult, ProvisionResult
from streamshard.core.ids import Generation, GroupName, LayoutVersion, ShardIndex
from streamshard.core.records import Access
from tests.integration.streams.rigs import (
    BILLING,
    KEY,
    ORDERS,
    ZERO,
    MakeRig,
    RedisRig,
    Rig,
    access,
    play,
    provision,
    publish,
    raise_to,
)

DROP = DropShard(ORDERS, ZERO, Generation(1), LayoutVersion(2))


async def drop(rig: Rig, *orders: DropShard) -> tuple[GuardResult, ...]:
    return await rig.backend.tidy(orders or (DROP,))


def test_whatever_is_on_the_key_goes_and_the_fence_says_so(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        await rig.backend.raise_fences([raise_to(5)])
        await publish(rig, "a", "b")
        await rig.log.read([(access(5), 1)])

        results = await drop(rig)

        (mark,) = await rig.backend.read_fences(ORDERS, [ZERO])
        assert (results, mark.key_exists) == ((GuardResult.DONE,), False)
        assert (mark.generation, mark.sealed, mark.layout, mark.tokens) == (1, True, 2, {BILLING: 5})

    play(make_rig, scenario)


def test_its_reader_is_told_and_its_producer_writes_nothing(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        await drop(rig)

        (reply,) = await rig.log.read([(access(5), 1)])

        assert reply.access is Access.SEALED
        assert await rig.log.append(KEY, {"a": "1"}, None) is None

    play(make_rig, scenario)


def test_it_may_be_repeated_also_where_nothing_ever_was(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        assert await drop(rig) == (GuardResult.DONE,)
        assert await drop(rig) == (GuardResult.DONE,)

    play(make_rig, scenario)


@pytest.mark.parametrize(("generation", "layout"), [(2, 1), (1, 3)])
def test_a_later_life_or_layout_is_left_alone(make_rig: MakeRig, generation: int, layout: int) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"), generation=generation, layout=layout)])
        (record,) = await publish(rig, "a")

        assert await drop(rig) == (GuardResult.SUPERSEDED,)
        assert await rig.ids(KEY) == (record,)

    play(make_rig, scenario)


def test_the_next_life_can_be_made(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"))])
        await drop(rig)

        same = await rig.backend.provision([provision((BILLING, "0"), layout=3)])
        following = await rig.backend.provision([provision((BILLING, "0"), generation=2, layout=3)])

        assert (same, following) == ((ProvisionResult.SUPERSEDED,), (ProvisionResult.DONE,))

    play(make_rig, scenario)


def test_a_key_that_came_back_in_a_dropped_life_is_dropped_again(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await drop(rig)
        await rig.create_foreign(KEY, (GroupName("other"),))

        assert await drop(rig) == (GuardResult.DONE,)
        (mark,) = await rig.backend.read_fences(ORDERS, [ZERO])
        assert not mark.key_exists

    play(make_rig, scenario)


def test_several_shards_are_dropped_in_the_order_asked_for(make_rig: MakeRig) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.backend.provision([provision((BILLING, "0"), shard=1, generation=2)])

        results = await drop(rig, attrs.evolve(DROP, shard=ShardIndex(1)), DROP)

        assert results == (GuardResult.SUPERSEDED, GuardResult.DONE)

    play(make_rig, scenario)


def test_a_key_of_another_type_is_somebody_elses(server_url: str) -> None:
    async def scenario(rig: Rig) -> None:
        assert isinstance(rig, RedisRig)
        await rig.raw("SET", KEY, "mine")

        assert await drop(rig) == (GuardResult.DONE,)
        assert await rig.raw("GET", KEY) == b"mine"

    play(lambda: RedisRig(server_url), scenario)
