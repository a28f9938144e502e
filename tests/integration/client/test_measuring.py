"""What an application's own registry is told, if it has one; and that nothing is told without."""

import asyncio
import subprocess
import sys
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from streamshard import Batch, ConfigurationError, Message, NotWritten, ScriptedCoordinator, StreamApp
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.errors import InvalidRequest, RoutingExpired
from tests.integration.client.rig import memory_rig
from tests.integration.client.script import app_over, fill, memory_streams, nothing_pending, routing, until
from tests.integration.docs.pages import DOCS, quoted, table
from tests.integration.http.scrape import Scrape, understood

OF = {"stream": "orders", "group": "billing"}


def scraped(registry: CollectorRegistry) -> Scrape:
    return understood(generate_latest(registry).decode())


class TestListeners:
    def test_records_are_counted_by_what_became_of_them(self) -> None:
        world, registry = memory_streams(1), CollectorRegistry()

        async def scenario() -> None:
            bad, _, _ = await fill(MemoryShardLog(world), 0, 3)
            app, _ = app_over(world, 0)
            app.measure(registry)

            @app.listener("orders", group="billing", max_deliveries=2, redeliver_after=0.1, sweep_every=0.05)
            async def handle(message: Message) -> None:
                if message.id == bad:
                    raise ValueError("no such customer")
                await message.ack()

            async with app:
                await until(lambda: nothing_pending(world))
                found = scraped(registry)
            assert found.value("client_messages_total", **OF, result="handled") == 2
            assert found.value("client_messages_total", **OF, result="failed") == 2
            assert found.value("client_redeliveries_total", **OF) == 1
            assert found.value("client_dead_letters_total", **OF) == 1
            assert found.value("client_handler_duration_seconds_count", **OF) == 4

        asyncio.run(scenario())

    def test_a_batch_is_so_many_records_and_one_call(self) -> None:
        world, registry = memory_streams(1), CollectorRegistry()

        async def scenario() -> None:
            await fill(MemoryShardLog(world), 0, 5)
            app, _ = app_over(world, 0)
            app.measure(registry)

            @app.listener("orders", group="billing", batch=5, ack="on_success")
            def handle(batch: Batch) -> None:
                assert len(batch) == 5

            async with app:
                await until(lambda: nothing_pending(world))
            work = app._measuring.work(app._listeners[0].key) if app._measuring is not None else None
            assert work is not None
            assert (work.handled, sum(work.durations.counts)) == (5, 1)

        asyncio.run(scenario())

    def test_members_tell_of_their_leases(self) -> None:
        registry = CollectorRegistry()

        async def scenario() -> None:
            async with memory_rig(2) as rig:
                app = StreamApp(rig.coordinator, rig.log)
                app.measure(registry)

                @app.listener("orders", group="billing", member_id="web")
                async def handle(message: Message) -> None:
                    raise AssertionError("there is nothing to handle")

                async with app:
                    await until(lambda: bool(scraped(registry).family("client_lease_remaining_seconds", "member")))
                    found = scraped(registry)
                assert 0 < found.family("client_lease_remaining_seconds", "member")[("web-m0",)] < 2
                assert 0 <= found.family("client_heartbeat_delay_seconds", "member")[("web-m0",)] < 2

        asyncio.run(scenario())


class TestProducers:
    def test_records_are_counted_by_what_became_of_them(self) -> None:
        registry = CollectorRegistry()

        async def scenario() -> None:
            async with memory_rig(2) as rig:
                app = StreamApp(rig.coordinator, rig.log)
                app.measure(registry)
                producer, other = app.producer("orders", "billing"), app.producer("orders", "billing")
                async with app:
                    await producer.publish("a", {"n": 1})
                    await other.publish_many([("a", {"n": 1}), ("b", {"n": 2})])
                    await _raises(InvalidRequest, lambda: producer.publish("a", {}))
                    found = scraped(registry)
                results = found.family("client_publish_total", "result")
                assert results[("published",)] == 3
                assert results[("refused",)] == 1
                assert 0 <= found.family("client_routing_age_seconds", "group")[("billing",)] < 5

        asyncio.run(scenario())

    def test_what_was_not_written_counts_apart(self) -> None:
        world, registry = memory_streams(1), CollectorRegistry()

        async def scenario() -> None:
            api = ScriptedCoordinator(routings=[routing(1)])
            app = StreamApp(api, MemoryShardLog(world))
            app.measure(registry)
            producer = app.producer("orders", "billing")
            async with app:
                await producer.publish("a", {"n": 1})
                world.go_down()
                await _raises(NotWritten, lambda: producer.publish("a", {"n": 2}))
                found = scraped(registry)
            assert found.family("client_publish_total", "stream", "result") == {
                ("orders", "published"): 1,
                ("orders", "not_written"): 1,
                ("orders", "maybe_written"): 0,
                ("orders", "expired"): 0,
                ("orders", "refused"): 0,
            }

        asyncio.run(scenario())

    def test_without_a_routing_every_record_of_a_call_has_expired(self) -> None:
        world, registry = memory_streams(1), CollectorRegistry()

        async def scenario() -> None:
            app = StreamApp("http://127.0.0.1:1", MemoryShardLog(world))
            app.measure(registry)
            producer = app.producer("orders", "billing")
            async with app:
                await _raises(RoutingExpired, lambda: producer.publish_many([("a", {"n": 1}), ("b", {"n": 2})]))
                found = scraped(registry)
            assert found.value("client_publish_total", stream="orders", result="expired") == 2
            assert found.family("client_routing_age_seconds", "group") == {}

        asyncio.run(scenario())


class TestRegistry:
    def test_it_is_told_nothing_any_more_once_the_app_has_stopped(self) -> None:
        world, registry = memory_streams(1), CollectorRegistry()

        async def scenario() -> None:
            app, _ = app_over(world, 0)
            app.measure(registry)
            async with app:
                assert scraped(registry).types != {}

        asyncio.run(scenario())
        assert scraped(registry).types == {}

    def test_a_registry_takes_one_app(self) -> None:
        world, registry = memory_streams(1), CollectorRegistry()

        async def scenario() -> None:
            first, _ = app_over(world, 0)
            second, _ = app_over(world, 0)
            first.measure(registry)
            with pytest.raises(ConfigurationError, match="give each app its own"):
                second.measure(registry)
            async with first, second:
                assert scraped(registry).types != {}

        asyncio.run(scenario())

    def test_it_comes_before_the_producers_and_once(self) -> None:
        world = memory_streams(1)

        async def scenario() -> None:
            app, _ = app_over(world, 0)
            app.producer("orders", "billing")
            with pytest.raises(ConfigurationError, match="before the first producer"):
                app.measure(CollectorRegistry())
            twice, _ = app_over(world, 0)
            twice.measure(CollectorRegistry())
            with pytest.raises(ConfigurationError, match="and once"):
                twice.measure(CollectorRegistry())
            async with app, twice:
                pass

        asyncio.run(scenario())

    def test_without_one_the_library_is_not_even_imported(self) -> None:
        script = "import sys, streamshard; streamshard.StreamApp; print('prometheus_client' in sys.modules)"

        told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

        assert told.stdout == "False\n"

    def test_the_page_lists_what_it_is_told(self) -> None:
        registry = CollectorRegistry()

        async def scenario() -> Scrape:
            async with memory_rig(1) as rig:
                app = StreamApp(rig.coordinator, rig.log)
                app.measure(registry)

                @app.listener("orders", group="billing", ack="on_success")
                async def handle(message: Message) -> None:
                    await asyncio.sleep(0)

                producer = app.producer("orders", "billing")
                async with app:
                    await producer.publish("a", {"n": 1})
                    await until(lambda: bool(scraped(registry).family("client_lease_remaining_seconds", "member")))
                    return scraped(registry)

        found = asyncio.run(scenario())

        rows = table((DOCS / "reference" / "metrics.md").read_text(), "In an application")
        assert {quoted(row[0])[0]: (row[1], frozenset(quoted(row[2]))) for row in rows} == _families(found)


def _families(found: Scrape) -> dict[str, tuple[str, frozenset[str]]]:
    families: dict[str, tuple[str, frozenset[str]]] = {}
    for name, kind in found.types.items():
        labels = {label for each, at in found.values if each.startswith(name) for label, _ in at}
        families[name] = (kind, frozenset(labels - {"le"}))
    return families


async def _raises(kind: type[Exception], call: Callable[[], object]) -> None:
    with pytest.raises(kind):
        await call()  # type: ignore[misc]
