"""What is in doubt, sent again for free where the server takes a record once; real servers, cut connections."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis

from streamshard import MaybeWritten, Producer, Published, ScriptedCoordinator
from streamshard.adapters.client.producer import Publishing
from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.adapters.streams.redis_log import NAMES, RECORDS_A_NAME, RedisShardLog
from streamshard.core.ids import Millis
from tests.integration.client.script import ORDERS, routing
from tests.servers import FLAVOURS, Servers


class Deaf:
    """A proxy that, while told to, hands on what is said and cuts the connection before it is answered."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.cuts = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        above, below = await asyncio.open_connection("127.0.0.1", self._port)
        handing_back = asyncio.create_task(self._hand_back(above, writer))
        try:
            while said := await reader.read(1 << 20):
                if b"XADD" in said and self.cuts:
                    self.cuts -= 1
                    handing_back.cancel()
                    await asyncio.gather(handing_back, return_exceptions=True)
                    below.write(said)
                    await above.read(1)
                    return
                below.write(said)
        finally:
            handing_back.cancel()
            await asyncio.gather(handing_back, return_exceptions=True)
            below.close()
            writer.close()

    async def _hand_back(self, above: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Apart from what is said: an answer may come in many pieces, or before all is said."""
        while answer := await above.read(1 << 20):
            writer.write(answer)


Scenario = Callable[[Producer, "Redis", Deaf], Awaitable[None]]


def play(url: str, scenario: Scenario) -> None:
    async def main() -> None:
        proxy = Deaf(urlsplit(url).port or 0)
        async with await asyncio.start_server(proxy, "127.0.0.1", 0) as listening, Redis.from_url(url) as redis:
            port = listening.sockets[0].getsockname()[1]
            log = RedisShardLog.from_url(f"redis://127.0.0.1:{port}", timeout=Millis(5_000))
            for shard in range(2):
                await redis.xgroup_create(f"orders:{shard}", "billing", mkstream=True)
            api, ports = ScriptedCoordinator(routings=[routing(2)]), (SystemClock(), SystemEntropy())
            producer = Producer(Publishing(ORDERS), api, log, *ports)
            await scenario(producer, redis, proxy)
            await producer.close()
            await log.close()

    asyncio.run(main())


async def takes_once(redis: "Redis") -> bool:
    return bool(await redis.eval("return redis.call('COMMAND', 'INFO', 'XCFGSET')[1] and 1 or 0", 0))


async def length(redis: "Redis") -> int:
    return int(await redis.xlen("orders:0")) + int(await redis.xlen("orders:1"))


@pytest.fixture(params=FLAVOURS)
def url(request: pytest.FixtureRequest, servers: Servers) -> str:
    return servers.url(request.param)


def test_a_lost_answer_is_asked_for_again_where_that_can_write_nothing_twice(url: str) -> None:
    async def scenario(producer: Producer, redis: "Redis", proxy: Deaf) -> None:
        await producer.publish("a", {"n": 0})
        proxy.cuts = 1
        if await takes_once(redis):
            assert isinstance(await producer.publish("a", {"n": 1}), Published)
        else:
            with pytest.raises(MaybeWritten):
                await producer.publish("a", {"n": 1})
        assert await length(redis) == 2

    play(url, scenario)


def test_many_lost_answers_are_asked_for_again_likewise(url: str) -> None:
    async def scenario(producer: Producer, redis: "Redis", proxy: Deaf) -> None:
        await producer.publish("a", {"n": 0})
        proxy.cuts = 1
        results = await producer.publish_many([(f"k{n}", {"n": n}) for n in range(250)])
        kind = Published if await takes_once(redis) else MaybeWritten
        assert {type(result) for result in results} == {kind}
        assert await length(redis) == 251

    play(url, scenario)


def test_what_is_never_answered_stays_in_doubt_and_is_there_once(url: str) -> None:
    async def scenario(producer: Producer, redis: "Redis", proxy: Deaf) -> None:
        await producer.publish("a", {"n": 0})
        proxy.cuts = 9
        with pytest.raises(MaybeWritten):
            await producer.publish("a", {"n": 1})
        assert await length(redis) == 2

    play(url, scenario)


def test_names_are_not_used_again_before_a_server_may_forget_them(url: str) -> None:
    async def scenario(producer: Producer, redis: "Redis", proxy: Deaf) -> None:
        laps = 2 * RECORDS_A_NAME * NAMES + 10
        results = await producer.publish_many([("a", {"n": n}) for n in range(laps)])
        assert len({result.id for result in results if isinstance(result, Published)}) == laps
        assert await length(redis) == laps

    play(url, scenario)
