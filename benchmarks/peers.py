"""How other libraries consume from Redis streams; for `consume.py`, run by a Python that has them.

    python -m venv PEERS && PEERS/bin/pip install 'faststream[redis]' taskiq-redis
    PEERS/bin/python benchmarks/peers.py CONTENDER --url redis://... --pid SERVER --records 20000 --shards 16

One contender, one run, over a backlog of its own in the format that its own producer writes; prints the sample as JSON.
``--list`` prints the contenders that can be imported.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from measuring import PAYLOAD, measure
from redis.asyncio import Redis

BATCH = 100
TASKS = 100  # of taskiq's worker, by default


class Count:
    """Done once so many records were handled."""

    def __init__(self, records: int) -> None:
        self.left = records
        self.done = asyncio.Event()

    def add(self, more: int) -> None:
        """So many more."""
        self.left -= more
        if self.left <= 0:
            self.done.set()


async def multiply(redis: "Redis", sample: str, name: str, options: argparse.Namespace) -> None:
    """A backlog on every shard of copies of the one record in ``sample``."""
    ((_, fields),) = await redis.xrange(sample)
    for shard in range(options.shards):
        await redis.delete(f"{name}:{shard}")
        for _ in range(options.records // options.shards // 125):
            async with redis.pipeline(transaction=False) as pipe:
                for _ in range(125):
                    pipe.xadd(f"{name}:{shard}", fields)
                await pipe.execute()
        await redis.xgroup_create(f"{name}:{shard}", "g", "0")
    await redis.delete(sample)


@contextlib.asynccontextmanager
async def faststream(
    redis: "Redis", options: argparse.Namespace, *, batch: bool
) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """A subscriber for each shard, whose handler acknowledges by itself."""
    from faststream import AckPolicy
    from faststream.redis import RedisBroker, RedisStreamMessage, StreamSub

    broker, count = RedisBroker(options.url, logger=None), Count(options.records)

    async def handle(body: Any, message: RedisStreamMessage) -> None:
        await message.ack()
        count.add(len(body) if batch else 1)

    for shard in range(options.shards):
        sub = StreamSub(f"peer:{shard}", group="g", consumer="c", batch=batch, max_records=BATCH, polling_interval=100)
        broker.subscriber(stream=sub, ack_policy=AckPolicy.MANUAL)(handle)
    await broker.connect()
    await broker.publish(PAYLOAD, stream="sample")
    await multiply(redis, "sample", "peer", options)

    async def load(_: int) -> None:
        await broker.start()
        await count.done.wait()

    yield load
    await broker.stop()


@contextlib.asynccontextmanager
async def taskiq(redis: "Redis", options: argparse.Namespace) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Its worker, in this process, over one stream for each shard."""
    from taskiq.receiver import Receiver
    from taskiq_redis import RedisStreamBroker

    count, others = Count(options.records), {f"peer:{shard}": ">" for shard in range(1, options.shards)}
    broker = RedisStreamBroker(
        options.url, "peer:0", consumer_group_name="g", consumer_id="0", xread_count=BATCH, additional_streams=others
    )

    @broker.task
    async def handle(body: str) -> None:
        count.add(1)

    await handle.kicker().with_labels(queue_name="sample").kiq(PAYLOAD.decode())
    await multiply(redis, "sample", "peer", options)
    finish = asyncio.Event()

    async def load(_: int) -> None:
        receiver = Receiver(broker, max_async_tasks=TASKS)
        listening = asyncio.create_task(receiver.listen(finish))
        await count.done.wait()
        finish.set()
        await listening

    yield load
    await broker.shutdown()


CONTENDERS: dict[str, Callable[..., Any]] = {
    "FastStream, one by one": lambda redis, options: faststream(redis, options, batch=False),
    "FastStream, batches": lambda redis, options: faststream(redis, options, batch=True),
    "taskiq-redis": taskiq,
}
NEEDS = {"FastStream": "faststream", "taskiq-redis": "taskiq_redis"}


async def run(options: argparse.Namespace) -> None:
    """Prepare, measure, print."""
    async with Redis.from_url(options.url) as redis, CONTENDERS[options.contender](redis, options) as load:
        print(json.dumps(await measure(load, options.records, options.pid)))


def main() -> None:
    """List or run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", nargs="?", choices=CONTENDERS)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--url")
    parser.add_argument("--pid", type=int, default=os.getpid())
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--shards", type=int, default=16)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if options.list:
        known = [name for name, package in NEEDS.items() if importlib.util.find_spec(package)]
        print(json.dumps([name for name in CONTENDERS if name.startswith(tuple(known))] if known else []))
    else:
        asyncio.run(run(options))


if __name__ == "__main__":
    main()
