"""What Prometheus is not told: what is unknown, and what would be too much; and what a scrape leaves alone."""

import asyncio
from typing import Any

import pytest

from streamshard.adapters.streams.memory_inspector import MemoryStreamInspector
from streamshard.entrypoints.http.app import create_app
from streamshard.entrypoints.http.metrics_recorder import Detail, Recorder
from streamshard.entrypoints.http.traffic import Traffic
from tests.integration.http.scrape import SHARD_FAMILIES, scrape
from tests.integration.http.service import Running, running
from tests.integration.http.stage import owning


def limited(service: Running, detail: Detail) -> Any:
    """A client of the same coordinator, shown with other limits."""
    inspector = MemoryStreamInspector(service.world, service.clock.wall)
    return service.over(create_app(service.coordinator, traffic=Traffic(Recorder(detail)), inspector=inspector))


class TestUnknown:
    def test_a_lag_that_can_not_be_told_is_absent_and_so_is_the_sum(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service, ticked=True)
                del service.world.streams["orders:1"]

                found = await scrape(service.http)

                assert found.family("shard_lag_records", "shard") == {("0",): 0}
                assert found.family("shard_lag_known", "shard") == {("0",): 1, ("1",): 0}
                assert found.family("shard_stream_records", "shard") == {("0",): 0}
                assert found.family("group_lag_records", "group") == {}

        asyncio.run(scenario())

    def test_without_redis_the_rest_is_told(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service, ticked=True)
                service.world.go_down()

                found = await scrape(service.http)

                assert found.family("shard_lag_known", "shard") == {}
                assert found.value("group_state", stream="orders", group="billing", state="STABLE") == 1

        asyncio.run(scenario())

    def test_without_an_inspector_too(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service, ticked=True)
                async with service.over(create_app(service.coordinator)) as http:
                    found = await scrape(http)

                assert found.family("shard_lag_known", "shard") == {}
                assert found.family("shard_unowned_seconds", "shard") == {("0",): 0, ("1",): 0}

        asyncio.run(scenario())

    def test_before_the_first_tick_nobody_knows_what_has_no_owner(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service)

                found = await scrape(service.http)

                assert found.family("shard_unowned_seconds", "shard") == {}

        asyncio.run(scenario())


class TestDetail:
    @pytest.mark.parametrize(
        ("detail", "members", "shards"),
        [(Detail(1, 2), 2, 2), (Detail(0, 2), 0, 2), (Detail(1, 1), 2, 0), (Detail(1, 0), 2, 0)],
    )
    def test_above_the_limits_only_the_group_is_told_of(self, detail: Detail, members: int, shards: int) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service, ticked=True)
                async with limited(service, detail) as http:
                    found = await scrape(http)

                assert len(found.family("member_shards", "member", "kind")) == members
                assert {len(found.family(name, "shard")) for name in SHARD_FAMILIES} == {shards}
                assert found.value("group_lag_records", stream="orders", group="billing") == 0

        asyncio.run(scenario())


class TestScrapes:
    def test_those_who_ask_at_once_get_one_answer(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service, ticked=True)

                answers = await asyncio.gather(*(service.http.get("/metrics") for _ in range(8)))

                assert {(answer.status_code, answer.text) for answer in answers} == {(200, answers[0].text)}

        asyncio.run(scenario())

    def test_a_scrape_asks_the_store_nothing(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service, ticked=True)
                service.coordinator._desk.store = _Deaf()  # type: ignore[assignment]

                assert (await scrape(service.http)).value("up") == 1

        asyncio.run(scenario())


class _Deaf:
    """Stands where nobody may ask anything."""
