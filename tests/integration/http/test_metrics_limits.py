"""What Prometheus is not told: what is unknown, and what would be too much; and what a scrape leaves alone."""

import asyncio
from typing import Any

import pytest

from streamshard.adapters.streams.memory_inspector import MemoryStreamInspector
from streamshard.entrypoints.http.app import create_app
from streamshard.entrypoints.http.metrics_recorder import Detail, Recorder
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.entrypoints.settings import serve_settings
from streamshard.entrypoints.wiring import service
from tests.integration.http.scrape import SHARD_FAMILIES, scrape
from tests.integration.http.service import Running, running
from tests.integration.http.stage import owning


def limited(site: Running, detail: Detail) -> Any:
    """A client of the same coordinator, shown with other limits."""
    inspector = MemoryStreamInspector(site.world, site.clock.wall)
    return site.over(create_app(site.coordinator, traffic=Traffic(Recorder(detail)), inspector=inspector))


class TestUnknown:
    def test_a_lag_that_can_not_be_told_is_absent_and_so_is_the_sum(self) -> None:
        async def scenario() -> None:
            async with running() as site:
                await owning(site, ticked=True)
                del site.world.streams["orders:1"]

                found = await scrape(site.http)

                assert found.family("shard_lag_records", "shard") == {("0",): 0}
                assert found.family("shard_lag_known", "shard") == {("0",): 1, ("1",): 0}
                assert found.family("shard_stream_records", "shard") == {("0",): 0}
                assert found.family("group_lag_records", "group") == {}

        asyncio.run(scenario())

    def test_without_redis_the_rest_is_told(self) -> None:
        async def scenario() -> None:
            async with running() as site:
                await owning(site, ticked=True)
                site.world.go_down()

                found = await scrape(site.http)

                assert found.family("shard_lag_known", "shard") == {}
                assert found.value("group_state", stream="orders", group="billing", state="STABLE") == 1

        asyncio.run(scenario())

    def test_without_an_inspector_too(self) -> None:
        async def scenario() -> None:
            async with running() as site:
                await owning(site, ticked=True)
                async with site.over(create_app(site.coordinator)) as http:
                    found = await scrape(http)

                assert found.family("shard_lag_known", "shard") == {}
                assert found.family("shard_unowned_seconds", "shard") == {("0",): 0, ("1",): 0}

        asyncio.run(scenario())

    def test_before_the_first_tick_nobody_knows_what_has_no_owner(self) -> None:
        async def scenario() -> None:
            async with running() as site:
                await owning(site)

                found = await scrape(site.http)

                assert found.family("shard_unowned_seconds", "shard") == {}

        asyncio.run(scenario())


class TestDetail:
    @pytest.mark.parametrize(
        ("detail", "members", "shards"),
        [(Detail(1, 2), 2, 2), (Detail(0, 2), 0, 2), (Detail(1, 1), 2, 0), (Detail(1, 0), 2, 0)],
    )
    def test_above_the_limits_only_the_group_is_told_of(self, detail: Detail, members: int, shards: int) -> None:
        async def scenario() -> None:
            async with running() as site:
                await owning(site, ticked=True)
                async with limited(site, detail) as http:
                    found = await scrape(http)

                assert len(found.family("member_shards", "member", "kind")) == members
                assert {len(found.family(name, "shard")) for name in SHARD_FAMILIES} == {shards}
                assert found.value("group_lag_records", stream="orders", group="billing") == 0

        asyncio.run(scenario())

    def test_a_coordinator_that_is_served_has_the_limits_of_its_settings(self) -> None:
        async def scenario() -> None:
            chosen = serve_settings({"metrics_members": "0", "metrics_shards": "7"}, {"STREAMSHARD_STORE": "memory:"})
            async with service(chosen) as built:
                assert built.recorder.detail == Detail(0, 7)

        asyncio.run(scenario())


class TestScrapes:
    def test_those_who_ask_at_once_get_one_answer(self) -> None:
        async def scenario() -> None:
            async with running() as site:
                await owning(site, ticked=True)

                answers = await asyncio.gather(*(site.http.get("/metrics") for _ in range(8)))

                assert {(answer.status_code, answer.text) for answer in answers} == {(200, answers[0].text)}

        asyncio.run(scenario())

    def test_a_scrape_asks_the_store_nothing(self) -> None:
        async def scenario() -> None:
            async with running() as site:
                await owning(site, ticked=True)
                site.coordinator._desk.store = _Deaf()  # type: ignore[assignment]

                assert (await scrape(site.http)).value("up") == 1

        asyncio.run(scenario())


class _Deaf:
    """Stands where nobody may ask anything."""
