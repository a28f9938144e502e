"""A consumer process that keeps the ledger; its one argument is JSON."""

import asyncio
import json
import logging
import sys
from pathlib import Path

from streamshard.adapters.client.message import Batch
from streamshard.entrypoints.app import StreamApp
from streamshard.entrypoints.demo.consumer import DRAIN_S, Witness
from streamshard.entrypoints.demo.journal import Journal
from streamshard.errors import LeaseLost, StreamUnavailable

REDELIVER_S = 1.0


class Handler(Witness):
    """Notes the start and the end of each handler; acknowledges only what is on the disk."""

    def __init__(self, app: StreamApp, journal: Journal, ms_a_record: float) -> None:
        super().__init__(app, journal)
        self._kept = journal.kept
        self._ms_a_record = ms_a_record

    async def handle(self, batch: Batch) -> None:
        shard, token = batch[0].shard, batch[0].fencing_token
        right = self._look(shard, token)
        ids = [message.id for message in batch]
        records = [[m.id, m.text("by"), int(m.fields[b"n"]), m.delivery_count] for m in batch]
        self._note("start", right, shard, token, records=records)
        await asyncio.sleep(self._ms_a_record * len(batch) / 1000)
        await self._kept()
        try:
            await batch.ack()
        except (LeaseLost, StreamUnavailable) as trouble:
            self._note("end", right, shard, token, ids=ids, acked=False, why=type(trouble).__name__)
            raise
        self._note("end", right, shard, token, ids=ids, acked=True)


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
