"""What the kit for applications' tests promises."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette

from streamshard import (
    Batch,
    ConfigurationError,
    CoordinatorUnreachable,
    LeaseLost,
    Message,
    NotWritten,
    Published,
    RoutingExpired,
    StreamApp,
)
from streamshard.adapters.streams.memory_log import MemoryShardLog
from tests.integration.client.script import app_over, memory_streams, until


def an_app() -> StreamApp:
    return StreamApp("http://127.0.0.1:1", redis="redis://127.0.0.1:1")


def test_records_are_handled_before_publish_returns() -> None:
    app = an_app()

    @app.listener("orders", group="billing")
    async def handle(message: Message) -> None:
        await message.ack()

    with app.test() as kit:
        published = [kit.publish("orders", f"k{n}", {"n": n}) for n in range(20)]

        assert [each.id for each in kit.handled] == [each.id for each in published]
        assert [each.text("n") for each in kit.handled] == [str(n) for n in range(20)]
        assert all(each.acknowledged and each.error is None for each in kit.handled)
        assert kit.pending("orders", "billing") == ()
        assert {each.key for each in kit.handled} == {f"orders:{shard}" for shard in range(4)}


def test_handlers_may_be_plain_functions_and_take_their_time() -> None:
    app, threads = an_app(), set()

    @app.listener("orders", group="billing")
    def handle(message: Message) -> None:
        threads.add(threading.current_thread())
        time.sleep(0.05)
        message.ack_blocking()

    with app.test() as kit:
        kit.publish_many("orders", [(f"k{n}", {"n": n}) for n in range(8)])

        assert len(kit.handled) == 8
        assert kit.pending("orders", "billing") == ()
        assert threading.current_thread() not in threads


def test_what_a_handler_returns_to_be_awaited_is_awaited_as_in_an_app() -> None:
    class Handling:
        async def __call__(self, message: Message) -> None:
            await message.ack()

    handlers: list[Callable[[Message], Any]] = [Handling(), lambda message: Handling()(message)]
    for handler in handlers:
        app = StreamApp("http://127.0.0.1:1")
        app.listener("orders", group="billing")(handler)

        with app.test(shards=1) as kit:
            kit.publish("orders", "k", {"n": 1})
            assert kit.pending("orders", "billing") == ()


def test_batches_are_batches() -> None:
    app, sizes = an_app(), []

    @app.listener("orders", group="billing", batch=10)
    async def handle(batch: Batch) -> None:
        sizes.append(len(batch))
        await batch.ack()

    with app.test(shards=1) as kit:
        results = kit.publish_many("orders", [("a", {"n": n}) for n in range(25)])

        assert all(isinstance(result, Published) for result in results)
        assert (sum(sizes), max(sizes), len(kit.handled)) == (25, 10, 25)


def test_what_fails_comes_again_when_time_has_passed_and_not_before() -> None:
    app = an_app()

    @app.listener("orders", group="billing", redeliver_after=30)
    async def handle(message: Message) -> None:
        if message.delivery_count < 3:
            raise ValueError("not yet")
        await message.ack()

    with app.test() as kit:
        kit.publish("orders", "a", {"n": 1})
        assert [(each.delivery_count, str(each.error)) for each in kit.handled] == [(1, "not yet")]
        kit.advance(29)
        assert len(kit.handled) == 1

        kit.advance(40)

        assert [(each.delivery_count, each.acknowledged) for each in kit.handled] == [(1, False), (2, False), (3, True)]


def test_records_that_fail_too_often_are_dead_letters() -> None:
    app = an_app()

    @app.listener("orders", group="billing", redeliver_after=1, max_deliveries=2)
    async def handle(message: Message) -> None:
        raise ValueError("never")

    with app.test() as kit:
        kit.publish("orders", "a", {"n": 1})
        kit.advance(10)

        assert len(kit.handled) == 2
        assert len(kit.dead_letters("orders")) == 1
        assert kit.pending("orders", "billing") == ()


def test_time_that_a_handler_sleeps_is_the_test_s_too() -> None:
    app, done = an_app(), []

    @app.listener("orders", group="billing")
    async def handle(message: Message) -> None:
        await asyncio.sleep(300)
        await message.ack()
        done.append(message.id)

    began = time.monotonic()
    with app.test() as kit:
        kit.publish("orders", "a", {"n": 1})
        assert (done, len(kit.pending("orders", "billing"))) == ([], 1)

        kit.advance(301)

        assert (len(done), kit.pending("orders", "billing")) == (1, ())
    assert time.monotonic() - began < 60


def test_a_lease_that_runs_out_takes_the_right_to_acknowledge() -> None:
    app = an_app()

    @app.listener("orders", group="billing")
    async def handle(message: Message) -> None:
        await asyncio.sleep(20)
        await message.ack()

    with app.test() as kit:
        kit.publish("orders", "a", {"n": 1})
        kit.cut_coordinator()
        kit.advance(21)
        assert [type(each.error) for each in kit.handled] == [LeaseLost]
        assert len(kit.pending("orders", "billing")) == 1

        kit.restore_coordinator()
        kit.advance(60)

        assert kit.handled[-1].acknowledged
        assert kit.pending("orders", "billing") == ()


def test_producers_of_the_app_write_into_the_kit_and_get_their_own_world_back() -> None:
    app = an_app()
    orders = app.producer("orders", "billing")

    with app.test() as kit:
        published = kit.run(orders.publish("a", {"n": 1}))
        assert [record.id for record in kit.records("orders")] == [published.id]
        kit.cut_coordinator()
        kit.advance(120)
        with pytest.raises(RoutingExpired):
            kit.run(orders.publish("a", {"n": 2}))
        kit.restore_coordinator()
        kit.advance(1)
        kit.stop_redis()
        with pytest.raises(NotWritten):
            kit.run(orders.publish("a", {"n": 3}))
        kit.start_redis()
        kit.run(orders.publish("a", {"n": 4}))
        assert len(kit.records("orders")) == 2

    with pytest.raises(CoordinatorUnreachable):
        asyncio.run(orders.check())


def test_several_groups_and_members_share_one_stream() -> None:
    app = an_app()

    @app.listener("orders", group="billing", concurrency=3)
    async def bill(message: Message) -> None:
        await message.ack()

    @app.listener("orders", group="mailing", ack="on_success")
    async def mail(message: Message) -> None:
        return

    with app.test(shards=6) as kit:
        kit.publish_many("orders", [(f"k{n}", {"n": n}) for n in range(30)])

        groups = [each.group.group for each in kit.handled]
        assert (groups.count("billing"), groups.count("mailing")) == (30, 30)  # type: ignore[arg-type]
        assert (kit.pending("orders", "billing"), kit.pending("orders", "mailing")) == ((), ())


def test_one_app_can_be_tested_again_and_again() -> None:
    app = an_app()

    @app.listener("orders", group="billing")
    async def handle(message: Message) -> None:
        await message.ack()

    before = set(threading.enumerate())
    for _ in range(3):
        with app.test() as kit:
            kit.publish("orders", "a", {"n": 1})
            assert len(kit.handled) == 1
    assert set(threading.enumerate()) == before


def test_a_run_says_the_same_each_time() -> None:
    def run() -> list[Any]:
        app = an_app()

        @app.listener("orders", group="billing", concurrency=2, redeliver_after=5)
        async def handle(message: Message) -> None:
            if message.delivery_count > 1:
                await message.ack()

        with app.test() as kit:
            kit.publish_many("orders", [(f"k{n}", {"n": n}) for n in range(10)])
            kit.advance(20)
            return [(each.key, each.id, each.delivery_count) for each in kit.handled]

    first = run()

    assert len(first) == 20
    assert first == run()


def test_work_that_waits_for_time_says_so() -> None:
    with an_app().test() as kit:
        with pytest.raises(TimeoutError, match=r"not done within 1 s"):
            kit.run(asyncio.sleep(5), within=1)
        kit.run(asyncio.sleep(5), within=5)
        assert kit.now == 6.0


def test_a_stream_that_nobody_named_is_an_error() -> None:
    with an_app().test() as kit, pytest.raises(ConfigurationError, match=r"no listener and no producer .* 'orders'"):
        kit.publish("orders", "a", {"n": 1})


def test_an_app_lives_as_long_as_the_web_application_around_it() -> None:
    world = memory_streams(1)
    app, _ = app_over(world, 0)
    handled = []

    @app.listener("orders", group="billing")
    async def handle(message: Message) -> None:
        await message.ack()
        handled.append(message.id)

    async def scenario() -> None:
        web = Starlette(lifespan=app.lifespan)
        async with web.router.lifespan_context(web):
            written = await MemoryShardLog(world).append("orders:0", {"n": 1}, None)
            await until(lambda: handled == [written])
        assert app.members[0].ended

    asyncio.run(scenario())
