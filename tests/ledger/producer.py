"""A producer process that keeps the ledger; its one argument is JSON."""

import asyncio
import json
import logging
import signal
import sys
from pathlib import Path
from typing import Any

from streamshard.adapters.client.producer import Failure, Fields, Producer, Published
from streamshard.core.values import Value
from streamshard.entrypoints.app import StreamApp
from streamshard.entrypoints.demo.journal import Journal
from streamshard.errors import MaybeWritten, NotFound, RoutingExpired

ROUND_S = 0.05
MOST_A_ROUND = 100
KEYS = 997
REFRESH_S = 1.0
PAUSE_S = 0.2


class Press:
    """Publishes at a steady rate, and notes what it is about to send and what became of it."""

    def __init__(self, orders: Producer, journal: Journal, name: str, rate: int) -> None:
        self._orders, self._journal, self._name, self._rate = orders, journal, name, rate
        self._next = 0

    async def run(self, stopping: asyncio.Event) -> None:
        """Publish until told to stop; nothing is caught up on after a pause."""
        loop = asyncio.get_running_loop()
        before = loop.time()
        while not stopping.is_set():
            turn = loop.time()
            await self._publish(min(MOST_A_ROUND, max(1, round((turn - before) * self._rate))))
            before = turn
            await asyncio.sleep(max(0.0, turn + ROUND_S - loop.time()))

    async def _publish(self, count: int) -> None:
        numbers = range(self._next, self._next + count)
        self._next = numbers.stop
        self._journal.note("sending", first=numbers.start, count=count)
        keys = [f"order-{number % KEYS}" for number in numbers]
        records = [(key, self._fields(number)) for key, number in zip(keys, numbers, strict=True)]
        try:
            results = await self._orders.publish_many(records)
        except (RoutingExpired, NotFound) as expired:
            self._journal.note("failed", maybe=[], never=list(numbers), why=str(expired))
            await asyncio.sleep(PAUSE_S)
        else:
            self._note(list(zip(numbers, keys, results, strict=True)))
        await self._journal.kept()

    def _fields(self, number: int) -> Fields:
        fields: dict[str, Value] = {"by": self._name, "n": number}
        return fields

    def _note(self, results: list[tuple[int, str, Published | Failure]]) -> None:
        rows = [[n, key, r.shard, r.id, r.version] for n, key, r in results if isinstance(r, Published)]
        failed = [(n, r) for n, _, r in results if not isinstance(r, Published)]
        if rows:
            self._journal.note("published", records=rows)
        if failed:
            maybe = [n for n, r in failed if isinstance(r, MaybeWritten)]
            never = [n for n, r in failed if not isinstance(r, MaybeWritten)]
            self._journal.note("failed", maybe=maybe, never=never, why=str(failed[0][1]))


async def publish(given: dict[str, Any], journal: Journal) -> None:
    """Publish until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    app = StreamApp(given["urls"], given["redis"])
    orders = app.producer(given["stream"], given["group"], refresh_interval=REFRESH_S)
    async with app:
        await Press(orders, journal, given["life"], given["rate"]).run(stopping)


def main(options: str) -> None:
    """Publish until told to stop."""
    given = json.loads(options)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    journal = Journal(Path(given["journal"]))
    try:
        asyncio.run(publish(given, journal))
    finally:
        journal.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
