"""Older clients, and a metadata store that forgot its last commits."""

import asyncio

import pytest

from tests.integration.legacy.stage import admitting, crowded


@pytest.mark.parametrize("forgotten", range(1, 9))
def test_members_keep_what_is_theirs_and_every_shard_finds_one_reader_again(forgotten: int) -> None:
    async def scenario() -> None:
        async with admitting(4) as stage:
            members = [stage.older(f"web-m{number}") for number in range(3)]
            await stage.settle(members[0])
            await stage.settle(*members)
            stage.store.lose_suffix(forgotten)
            seen = []
            for _ in range(20):
                await stage.pass_time(3, *members)
                seen += crowded(*members)
            group = await stage.group()

            assert (seen, await stage.violations(), group["quarantine"], group["state"]) == ([], [], None, "STABLE")
            assert sorted(shard for member in members for shard in member.owned) == [0, 1, 2, 3]

    asyncio.run(scenario())


def test_while_the_group_is_in_quarantine_they_keep_reading_and_start_nothing() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await stage.settle(first, second)
            await first.leave()
            await second.beat()
            before = set(second.owned)
            stage.store.lose_suffix(2)
            told = [(await second.beat())["status"] for _ in range(2)]
            during = set(second.owned)
            await stage.pass_time(40, second)

        assert (before, during, second.owned) == ({0, 1}, {1}, {0, 1})
        assert told == ["SYNC_METADATA", "SYNC_METADATA"]

    asyncio.run(scenario())
