"""A consumer process that notes what it is handed and what it acknowledged."""

import json
import logging
import sys
from typing import Any

from streamshard import LeaseLost, Message, StreamApp
from streamshard.errors import StreamUnavailable
from tests.integration.faults.notes import Notes

TROUBLES = (LeaseLost, StreamUnavailable)


def facts(message: Message) -> dict[str, Any]:
    """What identifies a delivery."""
    return {
        "id": message.id,
        "key": message.key,
        "shard": message.shard,
        "token": message.fencing_token,
        "seq": message.text("seq"),
    }


def main(options: str) -> None:
    """Consume until told to stop."""
    given = json.loads(options)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    notes = Notes(given["notes"])
    app = StreamApp(given["url"], given["redis"], drain_timeout=given.get("drain", 5.0))

    async def handle(message: Message) -> None:
        notes.note("handled", **facts(message))
        notes.note("acking", **facts(message))
        await message.ack()
        notes.note("acked", **facts(message))

    def handle_in_a_thread(message: Message) -> None:
        notes.note("handled", **facts(message))
        notes.note("acking", **facts(message))
        message.ack_blocking()
        notes.note("acked", **facts(message))

    handler = handle_in_a_thread if given["kind"] == "sync" else handle
    app.listener(
        "orders",
        group=given["group"],
        member_id=given["name"],
        concurrency=given.get("concurrency", 4),
        redeliver_after=1.0,
    )(handler)
    app.run()


if __name__ == "__main__":
    main(sys.argv[1])
