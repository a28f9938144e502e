"""Publishing from threads."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from redis import Redis

from streamshard import (
    ConfigurationError,
    MaybeWritten,
    NotWritten,
    Published,
    RoutingExpired,
    ScriptedCoordinator,
    StreamNotFound,
    SyncProducer,
)
from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.errors import CoordinatorUnreachable
from tests.integration.client.script import memory_streams, routing

SHARDS = 4


@pytest.fixture
def server(redis_url: str) -> Iterator[Any]:
    """A server with four shards, each with a first record."""
    with Redis.from_url(redis_url) as redis:
        for shard in range(SHARDS):
            redis.xadd(f"orders:{shard}", {"first": 1})
        yield redis


def scripted(*answers: Any) -> ScriptedCoordinator:
    return ScriptedCoordinator(routings=answers or (routing(SHARDS),))


def stored(redis: Any) -> set[bytes]:
    """Every value of the field ``n``."""
    entries = [entry for shard in range(SHARDS) for entry in redis.xrange(f"orders:{shard}")]
    return {fields[b"n"] for _, fields in entries if b"n" in fields}


def test_many_threads_share_one_producer(server: Any, redis_url: str) -> None:
    with SyncProducer("orders", "billing", scripted(), redis_url) as orders, ThreadPoolExecutor(16) as threads:
        published = list(threads.map(lambda n: orders.publish(f"k{n}", {"n": n}), range(500)))

    assert len({(each.key, each.id) for each in published}) == 500
    assert stored(server) == {b"%d" % n for n in range(500)}


def test_many_records_have_one_result_each(server: Any, redis_url: str) -> None:
    server.delete("orders:1")

    with SyncProducer("orders", "billing", scripted(), redis_url) as orders:
        results = orders.publish_many((None, {"n": n}) for n in range(8))

    assert sorted(type(result).__name__ for result in results) == ["NotWritten"] * 2 + ["Published"] * 6


def test_errors_are_those_of_the_producer() -> None:
    world = memory_streams(1)
    api = scripted(StreamNotFound("no stream orders"))

    with SyncProducer("orders", "billing", api, MemoryShardLog(world)) as orders:
        with pytest.raises(StreamNotFound):
            orders.check()
        with pytest.raises(StreamNotFound):
            orders.publish("a", {"n": 1})
        api.route(CoordinatorUnreachable("away"))
        with pytest.raises(RoutingExpired, match=r"no routing of orders/billing yet"):
            orders.publish("a", {"n": 1})
        with pytest.raises(TypeError, match=r"field 'n'"):
            orders.publish("a", {"n": None})  # type: ignore[arg-type]


def test_options_are_checked_where_they_are_given() -> None:
    with pytest.raises(ConfigurationError, match=r"max_len"):
        SyncProducer("orders", "billing", scripted(), max_len=0)
    with pytest.raises(ConfigurationError, match=r"prefix"):
        SyncProducer("or{ders", "billing", scripted())


def test_nothing_is_published_after_the_end_and_nothing_stays_behind(server: Any, redis_url: str) -> None:
    before = set(threading.enumerate())
    orders = SyncProducer("orders", "billing", scripted(), redis_url)
    orders.publish("a", {"n": 1})

    for _ in range(2):
        orders.close()

    with pytest.raises(NotWritten, match=r"the producer is closed"):
        orders.publish("a", {"n": 2})
    assert set(threading.enumerate()) == before
    assert stored(server) == {b"1"}


def test_one_that_was_never_used_needs_no_thread() -> None:
    before = set(threading.enumerate())

    with SyncProducer("orders", "billing", scripted(), "redis://127.0.0.1:1"):
        assert set(threading.enumerate()) == before


def test_whoever_waits_when_it_is_closed_is_told_the_truth() -> None:
    with EmbeddedServer() as server, Redis.from_url(server.url) as redis, ThreadPoolExecutor(1) as threads:
        redis.xadd("orders:0", {"first": 1})
        orders = SyncProducer("orders", "billing", scripted(routing(1)), server.url)
        orders.publish("a", {"n": 0})
        os.kill(server.pid, signal.SIGSTOP)
        waiting = threads.submit(orders.publish, "a", {"n": 1})
        time.sleep(0.2)

        orders.close()

        assert isinstance(waiting.exception(), MaybeWritten)
        os.kill(server.pid, signal.SIGCONT)


def test_a_forked_process_begins_anew(server: Any, redis_url: str) -> None:
    with SyncProducer("orders", "billing", scripted(), redis_url) as orders:
        orders.publish("a", {"n": 1})
        with warnings.catch_warnings():
            # Newer Pythons warn of every fork beside threads; that the library minds them is what is tested.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os._exit(0 if isinstance(orders.publish("b", {"n": 2}), Published) else 1)
        _, status = os.waitpid(child, 0)
        orders.publish("c", {"n": 3})

    assert (os.waitstatus_to_exitcode(status), stored(server)) == (0, {b"1", b"2", b"3"})
