"""Older and present-day members in one group."""

import asyncio
import random

import pytest

from streamshard.core.ids import GroupName
from tests.integration.legacy.older import OlderClient
from tests.integration.legacy.stage import LEASE_S, Client, Stage, admitting, crowded


def mark(stage: Stage) -> int:
    """The highest token of the group that the fence of shard 0 knows."""
    return stage.service.world.fences["orders:0"].tokens[GroupName("billing")]


def test_a_present_day_member_waits_until_an_older_one_has_let_go() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older, present = stage.older(), stage.present("web-m1")
            await stage.settle(older)
            older.busy = {1}
            await stage.settle(present, older)
            waiting = set(present.tokens), set(older.reading)
            older.busy = set()
            await stage.settle(older, present)

        assert waiting == (set(), {0, 1})
        assert (older.reading, present.reading) == ({0}, {1})

    asyncio.run(scenario())


def test_an_older_member_waits_until_a_present_day_one_has_let_go() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older, present = stage.older("web-m1"), stage.present("web-m0")
            await stage.settle(present)
            await older.beat()
            before = set(older.owned), set(older.pending)
            await stage.settle(present, older)

        assert (before, older.owned, present.reading) == ((set(), {1}), {1}, {0})

    asyncio.run(scenario())


def test_the_shards_of_an_older_member_that_fell_silent_wait_for_its_whole_lease() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older, present = stage.older(), stage.present("web-m1")
            await stage.settle(older, present)
            await stage.pass_time(LEASE_S - 1, present)
            before = set(present.tokens)
            await stage.pass_time(3, present)

        assert (before, set(present.tokens)) == ({1}, {0, 1})

    asyncio.run(scenario())


def test_the_shards_of_a_present_day_member_that_fell_silent_are_not_read_twice() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older, present = stage.older(), stage.present("web-m1")
            await stage.settle(older, present)
            seen = []
            for _ in range(LEASE_S + 3):
                await stage.pass_time(1)
                await older.beat()
                seen += crowded(older, present)

        assert (seen, older.owned, present.reading) == ([], {0, 1}, set())

    asyncio.run(scenario())


def test_a_grant_to_an_older_member_raises_the_fence_against_the_owner_before_it() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older, present = stage.older(), stage.present("web-m1")
            await stage.settle(present)
            token = present.tokens[0]
            before = mark(stage)
            await stage.pass_time(LEASE_S + 3, older)
            after = mark(stage)

        assert (before, older.owned) == (token, {0, 1})
        assert after > token

    asyncio.run(scenario())


def test_a_present_day_process_takes_over_the_name_of_an_older_one() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older, present = stage.older(), stage.present("web-m0")
            await stage.settle(older)
            refused = await present.beat()
            await older.leave()
            await stage.settle(present)
            late = await older.send(older.body(memberEpoch=-1))

        assert (refused["retryReason"], present.reading) == ("NAME_HELD", {0, 1})
        assert late["status"] == "UNKNOWN_MEMBER_ID"

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_members_do_no_shard_has_two_readers_and_in_the_end_each_has_one(seed: int) -> None:
    """Members come, hang for less than a lease, drain slowly, go with and without a word."""

    async def scenario() -> None:
        chance = random.Random(seed)
        async with admitting(5) as stage:
            alive: list[Client] = []
            for number in range(40):
                await _happens(chance, stage, alive, number)
                await stage.pass_time(3, *(c for c in alive if chance.random() < 0.8))
                assert crowded(*alive) == []
            for client in alive:
                if isinstance(client, OlderClient):
                    client.busy = set()
            survivors = [*alive, stage.older("last")]
            await stage.pass_time(90, *survivors)

            assert (crowded(*survivors), await stage.violations()) == ([], [])
            assert set().union(*(client.reading for client in survivors)) == {0, 1, 2, 3, 4}

    asyncio.run(scenario())


async def _happens(chance: random.Random, stage: Stage, alive: list[Client], number: int) -> None:
    what = chance.random()
    if what < 0.3 and len(alive) < 5:
        name = f"web-m{number}"
        alive.append(stage.older(name) if chance.random() < 0.5 else stage.present(name, number + 1))
    elif what < 0.4 and alive:
        gone = alive.pop(chance.randrange(len(alive)))
        if isinstance(gone, OlderClient) and not gone.busy:
            await gone.leave()
    elif what < 0.6:
        for client in alive:
            if isinstance(client, OlderClient):
                client.busy = {shard for shard in range(5) if chance.random() < 0.2}
