"""A consumer process that keeps the ledger; its one argument is JSON."""

import asyncio
import json
import logging
import signal
import sys
from pathlib import Path

from streamshard.adapters.client.message import Batch
from streamshard.entrypoints.app import StreamApp
from streamshard.entrypoints.demo.consumer import DRAIN_S, Witness
from streamshard.entrypoints.demo.journal import Journal
from streamshard.errors import LeaseLost, StreamUnavailable

REDELIVER_S = 1.0
STUCK_S = 12.0
"""How long a handler hangs that SIGUSR1 has fallen upon: for longer than a shard may take to be given up."""


class Handler(Witness):
    """Notes the start and the end of each handler; acknowledges only what is on the disk."""

    def __init__(self, app: StreamApp, journal: Journal, ms_a_record: float) -> None:
        super().__init__(app, journal)
        self._kept = journal.kept
        self._ms_a_record = ms_a_record
        self._stuck = False
        signal.signal(signal.SIGUSR1, self._get_stuck)

    async def handle(self, batch: Batch) -> None:
        shard, token = batch[0].shard, batch[0].fencing_token
        right = self._look(shard, token)
        ids = [message.id for message in batch]
        records = [[m.id, m.text("by"), int(m.fields[b"n"]), m.delivery_count] for m in batch]
        self._note("start", right, shard, token, records=records)
        await asyncio.sleep(self._duration(len(batch)))
        await self._kept()
        try:
            await batch.ack()
        except (LeaseLost, StreamUnavailable) as trouble:
            self._note("end", right, shard, token, ids=ids, acked=False, why=type(trouble).__name__)
            raise
        self._note("end", right, shard, token, ids=ids, acked=True)

    def _get_stuck(self, number: int, frame: object) -> None:
        self._stuck = True

    def _duration(self, records: int) -> float:
        if self._stuck:
            self._stuck = False
            return STUCK_S
        return self._ms_a_record * records / 1000


def main(options: str) -> None:
    """Consume until told to stop."""
    given = json.loads(options)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    app = StreamApp(given["urls"], given["redis"], drain_timeout=DRAIN_S)
    journal = Journal(Path(given["journal"]))
    handler = Handler(app, journal, given["ms_a_record"])
    app.listener(
        given["stream"],
        group=given["group"],
        member_id=given["name"],
        concurrency=given["members"],
        batch=given["batch"],
        redeliver_after=REDELIVER_S,
        on_assigned=handler.on_assigned,
        on_revoked=handler.on_revoked,
        on_lost=handler.on_lost,
    )(handler.handle)
    try:
        app.run()
    finally:
        journal.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
