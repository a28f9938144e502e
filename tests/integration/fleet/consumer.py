"""A consumer process that keeps the demo's ledger, for any group, and as slow as it is told to be."""

import asyncio
import logging
import sys
from pathlib import Path

from streamshard.adapters.client.message import Batch
from streamshard.entrypoints.app import StreamApp
from streamshard.entrypoints.demo.consumer import DRAIN_S, Witness
from streamshard.entrypoints.demo.journal import Journal
from streamshard.entrypoints.demo.plan import MEMBERS_A_CONSUMER, STREAM


def main(*arguments: str) -> None:
    """Consume until told to stop."""
    name, urls, redis, journal_path, group, ms_a_record = arguments
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    app = StreamApp(urls.split(","), redis, drain_timeout=DRAIN_S)
    journal = Journal(Path(journal_path))
    witness = Witness(app, journal)

    async def handle(batch: Batch) -> None:
        await asyncio.sleep(float(ms_a_record) * len(batch) / 1000)
        await witness.handle(batch)

    app.listener(
        STREAM,
        group=group,
        member_id=name,
        concurrency=MEMBERS_A_CONSUMER,
        batch=64,
        on_assigned=witness.on_assigned,
        on_revoked=witness.on_revoked,
        on_lost=witness.on_lost,
    )(handle)
    try:
        app.run()
    finally:
        journal.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
