"""Publishing when answers are lost, shards are gone and coordinators are silent, absurd or without a store."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import attrs
import pytest

from streamshard import ConfigurationError, MaybeWritten, NotWritten, Producer, Published, RoutingExpired
from streamshard.adapters.client.producer import Fields, Key, Publishing
from streamshard.adapters.client.scripted import ScriptedCoordinator
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.ids import StreamPrefix
from streamshard.core.records import Append
from streamshard.core.replies import Routing
from streamshard.core.routing import route
from streamshard.errors import CoordinatorUnreachable, StoreUnavailable, StreamNotFound
from streamshard.testing.clock import ManualClock, SeededEntropy
from tests.integration.client.script import ORDERS, memory_streams, routing


class LossyLog(MemoryShardLog):
    """Its next orders meet with troubles: a lost answer after the write, a refusal before it, or a plain bug."""

    def __init__(self, world: MemoryStreams) -> None:
        super().__init__(world)
        self.troubles: deque[Exception | None] = deque()
        self.orders = 0
        self.named: list[tuple[str, int] | None] = []

    async def append_many(self, records: Sequence[Append]) -> list[Any]:
        self.orders += 1
        self.named.extend(record.once for record in records)
        trouble = self.troubles.popleft() if self.troubles else None
        if isinstance(trouble, NotWritten):
            return [trouble] * len(records)
        written = await super().append_many(records)
        if isinstance(trouble, MaybeWritten):
            return [trouble if isinstance(each, str) else each for each in written]
        if trouble is not None:
            raise trouble
        return list(written)


class PlainLog:
    """A log that offers nothing but what every one must."""

    def __init__(self, log: MemoryShardLog) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        if name == "append_many":
            raise AttributeError(name)
        return getattr(self._log, name)


@attrs.frozen
class Stage:
    producer: Producer
    api: ScriptedCoordinator
    clock: ManualClock
    world: MemoryStreams
    log: LossyLog

    def count(self) -> int:
        return sum(len(self.world.entries(key)) for key in self.world.streams)


LOST, REFUSED = MaybeWritten("no answer in time"), NotWritten("OOM")


def play(
    scenario: Callable[[Stage], Coroutine[Any, Any, None]], shards: int = 1, *troubles: Exception | None, **options: Any
) -> Stage:
    world, clock, api = memory_streams(shards), ManualClock(), ScriptedCoordinator(routings=[routing(shards)])
    log = LossyLog(world)
    log.troubles.extend(troubles)
    producer = Producer(Publishing(ORDERS, **options), api, log, clock, SeededEntropy())
    stage = Stage(producer, api, clock, world, log)

    async def main() -> None:
        ticking = asyncio.create_task(tick(clock))
        try:
            async with asyncio.timeout(10):
                await scenario(stage)
        finally:
            ticking.cancel()
            await producer.close()

    asyncio.run(main())
    return stage


async def tick(clock: ManualClock) -> None:
    """Let whoever sleeps wake up."""
    while True:
        await asyncio.sleep(0)
        if (wakeup := clock.next_wakeup()) is not None:
            clock.advance(max(0, wakeup - clock.boot()))


def test_a_lost_answer_is_told_and_nothing_is_sent_again() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(MaybeWritten, match=r"^no answer in time$"):
            await stage.producer.publish("a", {"n": 1})
        assert (stage.log.orders, stage.count()) == (1, 1)

    play(scenario, 1, LOST)


def test_a_refusal_is_told_and_nothing_is_sent_again() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(NotWritten, match=r"^OOM$"):
            await stage.producer.publish("a", {"n": 1})
        assert (stage.log.orders, stage.count()) == (1, 0)

    play(scenario, 1, REFUSED, retry_uncertain=True)


def test_with_leave_to_duplicate_it_sends_again() -> None:
    async def scenario(stage: Stage) -> None:
        published = await stage.producer.publish("a", {"n": 1})
        first, second = stage.world.entries("orders:0")
        assert (published.id, first.fields) == (second.id, second.fields)

    play(scenario, 1, LOST, retry_uncertain=True)


@pytest.mark.parametrize("second", [LOST, REFUSED])
def test_a_record_in_doubt_stays_so_whatever_becomes_of_the_second_attempt(second: Exception) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(MaybeWritten):
            await stage.producer.publish("a", {"n": 1})
        assert stage.log.orders == 2

    play(scenario, 1, LOST, second, retry_uncertain=True)


def test_a_record_in_doubt_whose_shard_is_gone_then_stays_in_doubt() -> None:
    async def scenario(stage: Stage) -> None:
        publishing = asyncio.create_task(stage.producer.publish("a", {"n": 1}))
        while not stage.count():
            await asyncio.sleep(0)
        stage.world.lose_shard("orders:0")
        with pytest.raises(MaybeWritten, match=r"no answer in time; then: orders:0 is retired or missing"):
            await publishing

    play(scenario, 1, LOST, retry_uncertain=True)


def test_a_record_in_doubt_whose_routing_expires_stays_in_doubt() -> None:
    async def scenario(stage: Stage) -> None:
        publishing = asyncio.create_task(stage.producer.publish("a", {"n": 1}))
        while not stage.count():
            await asyncio.sleep(0)
        stage.api.route(CoordinatorUnreachable("away"))
        stage.clock.advance(60_000)
        with pytest.raises(MaybeWritten, match=r"no answer in time; then: the routing of orders/billing expired"):
            await publishing

    play(scenario, 1, LOST, retry_uncertain=True)


LOST_ONCE = MaybeWritten("no answer in time", {"once": True})


def test_what_the_server_takes_once_is_sent_again_under_the_same_name() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.producer.publish("a", {"n": 1})
        first, second = stage.log.named
        assert first == second

    play(scenario, 1, LOST_ONCE)


def test_what_another_shard_may_hold_by_now_is_not_sent_to_a_second_one() -> None:
    async def scenario(stage: Stage) -> None:
        publishing = asyncio.create_task(stage.producer.publish("order-2", {"n": 1}))
        while not stage.count():
            await asyncio.sleep(0)
        stage.api.route(routing(1, version=2))
        stage.clock.advance(60_000)
        with pytest.raises(MaybeWritten, match=r"^no answer in time$"):
            await publishing
        assert (stage.log.orders, stage.count()) == (1, 1)

    assert route("murmur3-v1", b"order-2", 4) != 0
    play(scenario, 4, LOST_ONCE)


def test_two_records_never_share_a_name() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.producer.publish_many([("a", {"n": n}) for n in range(300)])
        assert len(set(stage.log.named)) == 300

    play(scenario)


def test_among_many_each_has_one_result_also_when_the_stream_goes_in_between() -> None:
    async def scenario(stage: Stage) -> None:
        records: list[tuple[Key, Fields]] = [("a", {"n": n}) for n in range(600)]
        publishing = asyncio.create_task(stage.producer.publish_many(records))
        while not stage.count():
            await asyncio.sleep(0)
        stage.api.route(StreamNotFound("no stream orders"))
        stage.clock.advance(60_000)

        results = await publishing

        kinds = [type(result) for result in results]
        assert kinds == [MaybeWritten] * 256 + [NotWritten] * 344
        assert str(results[-1]) == "no stream orders"

    play(scenario, 1, LOST, retry_uncertain=True)


def test_a_stream_that_is_not_there_raises_before_anything_of_many_is_sent() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.route(StreamNotFound("no stream orders"))
        with pytest.raises(StreamNotFound):
            await stage.producer.publish_many([("a", {"n": 1}), ("b", {"n": 2})])
        assert stage.log.orders == 0

    play(scenario)


def test_no_records_are_published_without_asking_anybody() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.producer.publish_many([]) == []
        assert stage.api.asked == 0

    play(scenario)


def test_what_is_sent_again_does_not_fall_behind_later_records_of_its_key() -> None:
    async def scenario(stage: Stage) -> None:
        results = await stage.producer.publish_many([("a", {"n": n}) for n in range(600)])
        assert all(isinstance(result, Published) for result in results)
        stored = [int((r.fields or {})[b"n"]) for r in stage.world.entries("orders:0")]
        assert stored == [*range(256), *range(256), *range(256, 600)]

    play(scenario, 1, LOST, retry_uncertain=True)


def test_large_records_are_not_all_sent_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        results = await stage.producer.publish_many([("a", {"x": bytes(600_000)}) for _ in range(4)])
        assert [type(result) for result in results] == [Published] * 4
        assert stage.log.orders == 4

    play(scenario)


def test_what_is_published_in_one_turn_is_sent_together_and_in_order() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.producer.check()
        published = await asyncio.gather(*(stage.producer.publish("a", {"n": n}) for n in range(100)))
        assert [each.id for each in published] == [record.id for record in stage.world.entries("orders:0")]

    assert play(scenario).log.orders == 1


def test_whoever_gives_up_before_it_is_sent_sends_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        giving_up = asyncio.create_task(stage.producer.publish("a", {"n": 1}))
        staying = asyncio.create_task(stage.producer.publish("a", {"n": 2}))
        await asyncio.sleep(0)
        giving_up.cancel()

        published = await staying

        assert [record.id for record in stage.world.entries("orders:0")] == [published.id]
        assert giving_up.cancelled()

    play(scenario)


def test_a_bug_of_a_log_is_heard_by_everybody_who_waits() -> None:
    async def scenario(stage: Stage) -> None:
        outcomes = await asyncio.gather(
            *(stage.producer.publish("a", {"n": n}) for n in range(3)), return_exceptions=True
        )
        assert [str(outcome) for outcome in outcomes] == ["a bug"] * 3

    play(scenario, 1, RuntimeError("a bug"))


def test_a_shard_that_is_gone_is_asked_about_once_in_a_while_not_for_every_record() -> None:
    async def scenario(stage: Stage) -> None:
        stage.world.lose_shard("orders:0")
        for _ in range(50):
            with pytest.raises(NotWritten, match=r"retired or missing"):
                await stage.producer.publish("a", {"n": 1})
        assert stage.api.asked == 2
        stage.clock.advance(1_000)
        with pytest.raises(NotWritten):
            await stage.producer.publish("a", {"n": 1})
        assert stage.api.asked == 3

    play(scenario)


class SilentCoordinator(ScriptedCoordinator):
    """Answers the first question and none after it."""

    async def routing(self, key: Any) -> Routing:
        if self.asked:
            self.asked += 1
            await asyncio.Event().wait()
        return await super().routing(key)


def test_a_coordinator_that_says_nothing_holds_up_nobody_while_the_routing_may_be_used() -> None:
    world, clock, api = memory_streams(1), ManualClock(), SilentCoordinator(routings=[routing(1)])

    async def scenario() -> None:
        producer = Producer(Publishing(ORDERS), api, MemoryShardLog(world), clock, SeededEntropy())
        await producer.publish("a", {"n": 1})
        clock.advance(40_000)
        async with asyncio.timeout(5):
            for n in range(10):
                await producer.publish("a", {"n": n})
                await asyncio.sleep(0)
        assert api.asked == 2
        await producer.close()

    asyncio.run(scenario())


def test_a_coordinator_without_its_store_is_one_that_does_not_answer() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.route(StoreUnavailable("the store is away"))
        with pytest.raises(RoutingExpired, match=r"no routing of orders/billing yet.*: the store is away"):
            await stage.producer.publish("a", {"n": 1})
        with pytest.raises(StoreUnavailable):
            await stage.producer.check()

    play(scenario)


@pytest.mark.parametrize(
    ("nonsense", "why"),
    [
        ({"protocol": "crc-0"}, "goes by 'crc-0', which is unknown here: upgrade streamshard"),
        ({"shard_count": -1}, "has -1 shards"),
        ({"shard_count": 10**6}, "has 1000000 shards"),
        ({"lease_ms": 0}, "came after its own lease of 0 ms"),
        ({"lease_ms": -5}, "came after its own lease of -5 ms"),
        ({"key": attrs.evolve(ORDERS, prefix=StreamPrefix("bills"))}, "got that of bills/billing"),
    ],
)
def test_nonsense_from_a_coordinator_is_named_before_anything_is_sent(nonsense: dict[str, Any], why: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.route(attrs.evolve(routing(1), **nonsense))
        with pytest.raises(RoutingExpired, match=why):
            await stage.producer.publish("a", {"n": 1})
        with pytest.raises(RoutingExpired):
            await stage.producer.publish_many([("a", {"n": 1})])
        assert (stage.log.orders, stage.count()) == (0, 0)

    play(scenario)


def test_an_exact_length_is_kept_exactly() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.producer.publish_many([("a", {"n": n}) for n in range(10)])
        assert len(stage.world.entries("orders:0")) == 3

    play(scenario, max_len=3, trim="exact")


@pytest.mark.parametrize(
    ("options", "named"),
    [({"trim": "about"}, "trim: must be 'approximate' or 'exact'"), ({"retry_uncertain": 1}, "retry_uncertain: must")],
)
def test_other_options_out_of_range_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        Publishing(ORDERS, **options)


def test_a_log_that_takes_one_record_at_a_time_is_served_one_by_one() -> None:
    world, api = memory_streams(2), ScriptedCoordinator(routings=[routing(2)])
    log: Any = PlainLog(MemoryShardLog(world))

    async def scenario() -> None:
        producer = Producer(Publishing(ORDERS), api, log, ManualClock(), SeededEntropy())
        results = await producer.publish_many([("a", {"n": 1}), ("b", {"n": 2}), (None, {"n": 3})])
        assert all(isinstance(result, Published) for result in results)
        world.go_down()
        (failed,) = await producer.publish_many([("a", {"n": 1})])
        assert isinstance(failed, NotWritten)
        with pytest.raises(ConfigurationError, match=r"trim: PlainLog trims approximately only"):
            Producer(Publishing(ORDERS, max_len=3, trim="exact"), api, log, ManualClock(), SeededEntropy())

    asyncio.run(scenario())
