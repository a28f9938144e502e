"""Connections to Redis: few for many callers, cancelled and closed in any moment."""

import asyncio
import os
import random
import signal
from collections.abc import Callable

import pytest

from streamshard.adapters.streams.connections import AnswerLost, Connections, NotSent
from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.adapters.streams.redis_backend import RedisStreamBackend
from streamshard.adapters.streams.redis_log import RedisShardLog
from streamshard.core.ids import Millis
from streamshard.errors import ConfigurationError, MaybeWritten, NotWritten, StreamUnavailable
from tests.integration.streams.redis_rig import SHORT, run
from tests.integration.streams.rigs import (
    BILLING,
    KEY,
    ORDERS,
    START,
    ZERO,
    RedisRig,
    access,
    provision,
)


class TestConnections:
    def test_more_callers_than_connections_wait_their_turn(self, redis_url: str) -> None:
        async def scenario() -> None:
            connections = Connections(redis_url, limit=2)
            try:
                echoed = await asyncio.gather(*[connections.exchange([("ECHO", n)]) for n in range(300)])
                (clients,) = await connections.exchange([("CLIENT", "LIST")])
            finally:
                await connections.close()

            assert echoed == [[b"%d" % n] for n in range(300)]
            assert isinstance(clients, bytes)
            assert clients.count(b"id=") == 2

        asyncio.run(scenario())

    def test_who_finds_none_free_in_time_is_told_which_option_to_raise(self, redis_url: str) -> None:
        async def scenario() -> None:
            connections = Connections(redis_url, limit=1, timeout=SHORT)
            blocked = asyncio.create_task(connections.exchange([("BLPOP", "nothing", 0)], Millis(5_000)))
            try:
                await asyncio.sleep(0.05)

                with pytest.raises(NotSent, match="max_connections"):
                    await connections.exchange([("PING",)])
            finally:
                blocked.cancel()
                await asyncio.gather(blocked, return_exceptions=True)
                await connections.close()

        asyncio.run(scenario())

    def test_cancelled_exchanges_never_leave_their_replies_to_others(self, redis_url: str) -> None:
        async def scenario() -> None:
            connections = Connections(redis_url, limit=3)
            pick = random.Random(7)
            try:
                for turn in range(100):
                    tasks = [
                        asyncio.create_task(connections.exchange([("ECHO", f"{turn}.{n}")] * 20)) for n in range(6)
                    ]
                    for _ in range(pick.randrange(12)):
                        await asyncio.sleep(0)
                    for task in pick.sample(tasks, 3):
                        task.cancel()
                    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
                    for n, outcome in enumerate(outcomes):
                        expected = [f"{turn}.{n}".encode()] * 20
                        assert isinstance(outcome, asyncio.CancelledError) or outcome == expected
                assert await connections.exchange([("PING",)] * 3) == [b"PONG"] * 3
            finally:
                await connections.close()

        asyncio.run(scenario())

    def test_the_driver_s_options_in_a_url_are_refused(self, redis_url: str) -> None:
        with pytest.raises(ConfigurationError, match="protocol: is decided by streamshard"):
            Connections(redis_url + "?protocol=3&decode_responses=True", limit=1)

    def test_nothing_goes_out_after_the_end(self, redis_url: str) -> None:
        async def scenario() -> None:
            backend, log = RedisStreamBackend.from_url(redis_url), RedisShardLog.from_url(redis_url)
            await backend.provision([provision((BILLING, "0"))])
            await log.append(KEY, {"a": 1}, None)

            for _ in range(2):
                await backend.close()
                await log.close()

            with pytest.raises(StreamUnavailable, match="closed"):
                await backend.probe(ORDERS, [ZERO])
            with pytest.raises(StreamUnavailable, match="closed"):
                await log.read([(access(5), 1)])
            with pytest.raises(NotWritten, match="closed"):
                await log.append(KEY, {"a": 1}, None)

        asyncio.run(scenario())

    def test_what_is_under_way_at_the_end_is_told_the_truth(self, own_server: EmbeddedServer) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            log = RedisShardLog.from_url(own_server.url)
            await log.append(KEY, {"n": 0}, None)
            waiting = asyncio.create_task(log.wait({"orders:5": START}, Millis(60_000)))
            await asyncio.sleep(0.05)
            os.kill(own_server.pid, signal.SIGSTOP)
            sent = asyncio.create_task(log.append(KEY, {"n": 1}, None))
            await asyncio.sleep(0.05)
            queued = asyncio.create_task(log.append(KEY, {"n": 2}, None))
            await asyncio.sleep(0)

            await log.close()
            os.kill(own_server.pid, signal.SIGCONT)

            outcomes = await asyncio.gather(waiting, sent, queued, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [AnswerLost, MaybeWritten, NotWritten]

        run(own_server.url, scenario)

    @pytest.mark.parametrize(
        ("make", "named"),
        [
            (lambda: RedisShardLog.from_url("http://127.0.0.1"), "redis"),
            (lambda: RedisShardLog.from_url("redis://127.0.0.1", max_connections=0), "max_connections"),
            (lambda: RedisStreamBackend.from_url("redis://127.0.0.1", timeout=Millis(0)), "timeout"),
        ],
        ids=["url", "connections", "timeout"],
    )
    def test_an_option_out_of_range_is_named(self, make: Callable[[], object], named: str) -> None:
        with pytest.raises(ConfigurationError, match=named):
            make()
