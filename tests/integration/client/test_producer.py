"""Publishing: where records go, and what happens when the routing is old, missing or wrong."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import attrs
import pytest

from streamshard import (
    ConfigurationError,
    InvalidRequest,
    MaybeWritten,
    NotWritten,
    Producer,
    Published,
    RoutingExpired,
)
from streamshard.adapters.client.producer import Fields, Publishing
from streamshard.adapters.client.scripted import ScriptedCoordinator
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.ids import Lineage
from streamshard.core.routing import route
from streamshard.errors import CoordinatorUnreachable, GroupNotFound
from streamshard.testing.clock import ManualClock, SeededEntropy
from tests.integration.client.script import ORDERS, memory_streams, routing

Scenario = Callable[["Stage"], Coroutine[Any, Any, None]]


@attrs.frozen
class Stage:
    """A producer over shards in memory, a script and a clock."""

    producer: Producer
    api: ScriptedCoordinator
    clock: ManualClock
    world: MemoryStreams


def play(scenario: Scenario, shards: int = 4, **options: int) -> Stage:
    world, clock, api = memory_streams(shards), ManualClock(), ScriptedCoordinator(routings=[routing(shards)])
    publishing = Publishing(ORDERS, **options)  # type: ignore[arg-type]
    stage = Stage(Producer(publishing, api, MemoryShardLog(world), clock, SeededEntropy()), api, clock, world)
    asyncio.run(scenario(stage))
    return stage


async def refreshed(stage: Stage) -> None:
    """Publish, and let the refresh that this begins beside it come to its end."""
    await stage.producer.publish("refresh", {"n": 0})
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_key_goes_to_the_shard_that_everybody_computes() -> None:
    async def scenario(stage: Stage) -> None:
        for key in ("order-1", "order-2", b"\xff\x00", ""):
            raw = key if isinstance(key, bytes) else key.encode()
            published = await stage.producer.publish(key, {"n": 1})
            shard = route("murmur3-v1", raw, 4)
            assert published == Published(published.id, shard, f"orders:{shard}", 1)
            assert [r.fields for r in stage.world.entries(published.key) if r.id == published.id] == [{b"n": b"1"}]

    stage = play(scenario)
    assert stage.api.asked == 1


def test_without_a_key_the_shards_take_turns() -> None:
    async def scenario(stage: Stage) -> None:
        shards = [(await stage.producer.publish(None, {"n": n})).shard for n in range(8)]
        assert sorted(shards) == [0, 0, 1, 1, 2, 2, 3, 3]

    play(scenario)


def test_a_retired_shard_makes_it_look_again_and_route_again() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.producer.publish("order-2", {"n": 1})
        for shard in range(2, 4):
            stage.world.lose_shard(f"orders:{shard}")
        stage.api.route(routing(2, version=2))
        published = [await stage.producer.publish(f"order-{n}", {"n": n}) for n in range(20)]
        assert {p.shard for p in published} == {0, 1}

    stage = play(scenario)
    assert stage.api.asked == 2


def test_a_shard_that_stays_missing_is_surely_not_written() -> None:
    async def scenario(stage: Stage) -> None:
        stage.world.lose_shard("orders:0")
        with pytest.raises(NotWritten, match=r"orders:0 is retired or missing, also after 2 looks"):
            await stage.producer.publish("order-1", {"n": 1})
        assert stage.world.entries("orders:0") == ()

    stage = play(scenario, shards=1)
    assert stage.api.asked == 2


def test_a_stream_without_shards_takes_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.route(routing(0))
        with pytest.raises(NotWritten, match=r"orders has no shards"):
            await stage.producer.publish(None, {"n": 1})

    play(scenario)


def test_the_routing_is_renewed_long_before_it_ends() -> None:
    async def scenario(stage: Stage) -> None:
        for _ in range(10):
            await refreshed(stage)
            stage.clock.advance(20_000)

    assert play(scenario).api.asked in range(4, 11)


def test_while_no_coordinator_answers_the_old_routing_serves_until_its_lease_ends() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.producer.publish("a", {"n": 1})
        stage.api.route(CoordinatorUnreachable("connection refused"))
        stage.clock.advance(50_000)
        await stage.producer.publish("a", {"n": 2})
        stage.clock.advance(10_000)
        with pytest.raises(RoutingExpired, match=r"expired 3600 ms ago .* connection refused"):
            await stage.producer.publish("a", {"n": 3})

        stage.api.route(routing(4))
        stage.clock.advance(1_000)
        await stage.producer.publish("a", {"n": 4})

    play(scenario)


def test_an_unreachable_coordinator_is_not_asked_for_every_record() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.producer.publish("a", {"n": 1})
        stage.api.route(CoordinatorUnreachable("connection refused"))
        stage.clock.advance(40_000)
        for _ in range(50):
            await refreshed(stage)

    assert play(scenario).api.asked == 2


def test_many_at_once_ask_once() -> None:
    async def scenario(stage: Stage) -> None:
        await asyncio.gather(*(stage.producer.publish(f"k{n}", {"n": n}) for n in range(50)))

    assert play(scenario).api.asked == 1


def test_a_layout_that_runs_backwards_is_not_taken() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.route(routing(4, version=5))
        await stage.producer.publish("a", {"n": 1})
        stage.api.route(routing(2, version=4))
        stage.clock.advance(40_000)
        await refreshed(stage)
        assert (await stage.producer.publish("a", {"n": 1})).version == 5

        stage.api.route(attrs.evolve(routing(4, version=1), lineage=Lineage("b")))
        stage.clock.advance(1_000)
        await refreshed(stage)
        assert (await stage.producer.publish("a", {"n": 1})).version == 1

    play(scenario)


def test_a_missing_group_is_said_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        stage.api.route(GroupNotFound("no group orders/billing"))
        with pytest.raises(GroupNotFound):
            await stage.producer.check()
        with pytest.raises(GroupNotFound):
            await stage.producer.publish("a", {"n": 1})

    play(scenario)


def test_checking_early_gives_the_routing() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.producer.check() == routing(4)

    play(scenario)


def test_many_records_keep_the_order_of_their_keys_and_each_has_its_result() -> None:
    async def scenario(stage: Stage) -> None:
        records: list[tuple[str | bytes | None, Fields]] = [(f"k{n % 3}", {"n": n}) for n in range(30)]
        results = await stage.producer.publish_many([*records, (None, {"n": 30})])
        published = [result for result in results if isinstance(result, Published)]
        assert len(published) == 31
        for key in range(3):
            ids = [r.id for r in published[key:30:3]]
            assert ids == sorted(ids, key=lambda r: int(r.partition("-")[0]))

    play(scenario)


def test_a_failure_among_many_is_a_result_like_any_other() -> None:
    async def scenario(stage: Stage) -> None:
        stage.world.lose_shard("orders:1")
        results = await stage.producer.publish_many([(f"k{n}", {"n": n}) for n in range(20)])
        for n, result in enumerate(results):
            lost = route("murmur3-v1", f"k{n}".encode(), 4) == 1
            assert isinstance(result, NotWritten) == lost
        assert any(isinstance(result, NotWritten) for result in results)
        assert not any(isinstance(result, MaybeWritten) for result in results)

    play(scenario)


@pytest.mark.parametrize(
    ("key", "fields", "error", "why"),
    [
        (7, {"n": 1}, TypeError, "key: must be str or bytes, not int"),
        ("a", {"n": None}, TypeError, "field 'n': the value must be str, bytes, int or float, not NoneType"),
        ("a", {"n": True}, TypeError, "not bool"),
        ("a", {3: "n"}, TypeError, "field 3: the name must be str or bytes, not int"),
        ("a", {}, InvalidRequest, "fields: a record needs at least one field"),
    ],
)
def test_what_can_t_be_stored_is_refused_before_anything_is_sent(
    key: Any, fields: Any, error: type[Exception], why: str
) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(error, match=why):
            await stage.producer.publish(key, fields)
        with pytest.raises(error, match=why):
            await stage.producer.publish_many([("fine", {"n": 1}), (key, fields)])
        assert all(stage.world.entries(f"orders:{shard}") == () for shard in range(4))

    play(scenario)


def test_trimming_is_an_option() -> None:
    async def scenario(stage: Stage) -> None:
        for n in range(10):
            await stage.producer.publish("a", {"n": n})
        assert len(stage.world.entries("orders:0")) == 3

    play(scenario, shards=1, max_len=3)


@pytest.mark.parametrize("value", [0, -1, True, 2.5, "3"])
@pytest.mark.parametrize("name", ["max_len", "max_attempts", "refresh_interval"])
def test_options_out_of_range_are_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name}: must be a whole number of at least 1, not {value!r}"):
        Publishing(ORDERS, **{name: value})
