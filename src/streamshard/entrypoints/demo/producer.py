"""The producer process of the demo: publishes at a steady rate, and notes what was acknowledged."""

import asyncio
import logging
import signal
import sys
from collections import Counter
from pathlib import Path

from streamshard.adapters.client.producer import Failure, Producer, Published
from streamshard.entrypoints.app import StreamApp
from streamshard.entrypoints.demo.journal import Journal
from streamshard.entrypoints.demo.plan import GROUP, STREAM
from streamshard.errors import MaybeWritten

ROUND_S = 0.03
MOST_A_ROUND = 150
KEYS = 997
REFRESH_S = 1.0


class Press:
    """Publishes what is due, catching up after a pause."""

    def __init__(self, orders: Producer, journal: Journal, rate: int) -> None:
        self._orders = orders
        self._journal = journal
        self._rate = rate
        self._seq = 0
        self._published = 0

    async def run(self, stopping: asyncio.Event) -> None:
        """Publish until told to stop."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not stopping.is_set():
            turn = loop.time()
            due = int((turn - started) * self._rate) - self._published
            await self._publish(min(due, MOST_A_ROUND))
            await asyncio.sleep(max(0.0, turn + ROUND_S - loop.time()))
        self._journal.note("stopped", published=self._published)

    async def _publish(self, count: int) -> None:
        seqs = range(self._seq, self._seq + max(0, count))
        self._seq = seqs.stop
        results = await self._orders.publish_many([(f"order-{seq % KEYS}", {"seq": seq}) for seq in seqs])
        pairs = list(zip(seqs, results, strict=True))
        rows = [[r.id, r.shard, seq, r.version] for seq, r in pairs if isinstance(r, Published)]
        if rows:
            self._journal.note("published", records=rows)
        self._note_failures([(seq, r) for seq, r in pairs if not isinstance(r, Published)])
        await self._journal.kept()
        self._published += len(rows)

    def _note_failures(self, failures: list[tuple[int, Failure]]) -> None:
        if not failures:
            return
        uncertain = [seq for seq, failure in failures if isinstance(failure, MaybeWritten)]
        kinds = Counter(type(failure).__name__ for _, failure in failures)
        self._journal.note("failed", uncertain=uncertain, kinds=dict(kinds), why=str(failures[0][1]))


async def publish(url: str, redis: str, journal: Journal, rate: int) -> None:
    """Publish until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    app = StreamApp(url, redis)
    orders = app.producer(STREAM, GROUP, refresh_interval=REFRESH_S)
    async with app:
        await orders.check()
        await Press(orders, journal, rate).run(stopping)


def main(url: str, redis: str, journal_path: str, rate: str) -> None:
    """Publish until told to stop."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    journal = Journal(Path(journal_path))
    try:
        asyncio.run(publish(url, redis, journal, int(rate)))
    finally:
        journal.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
