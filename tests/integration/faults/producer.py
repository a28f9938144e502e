"""A producer process that notes what was published, what surely was not, and what may have been."""

import asyncio
import json
import logging
import signal
import sys
import threading
import time
from typing import Any

from streamshard import MaybeWritten, NotWritten, Published, RoutingExpired, StreamApp, SyncProducer
from tests.integration.faults.notes import Notes

EVERY_S = 0.05
AT_ONCE = 2
FAILURES = (NotWritten, MaybeWritten, RoutingExpired)


def note(notes: Notes, seq: str, result: Published | Exception) -> None:
    """One line for one record."""
    if isinstance(result, Published):
        notes.note("published", seq=seq, id=result.id, key=result.key)
    else:
        notes.note("failed", seq=seq, why=type(result).__name__, text=str(result))


async def publish(given: dict[str, Any], notes: Notes) -> None:
    """As tasks of one loop."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    app = StreamApp(given["url"], given["redis"])
    orders = app.producer("orders", "billing")

    async def one(number: int) -> None:
        seq = f"{given['name']}-{number}"
        try:
            result = await orders.publish(f"key-{number % 97}", {"seq": seq})
        except FAILURES as failure:
            note(notes, seq, failure)
        else:
            note(notes, seq, result)

    async with app:
        number = 0
        while not stopping.is_set():
            await asyncio.gather(*(one(number + n) for n in range(AT_ONCE)))
            number += AT_ONCE
            await asyncio.sleep(EVERY_S)


def publish_in_threads(given: dict[str, Any], notes: Notes) -> None:
    """As threads."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())

    def work(thread: int) -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            seq = f"{given['name']}-{thread}-{number}"
            try:
                result = orders.publish(f"key-{number % 97}", {"seq": seq})
            except FAILURES as failure:
                note(notes, seq, failure)
            else:
                note(notes, seq, result)
            stopping.wait(EVERY_S)

    with SyncProducer("orders", "billing", given["url"], given["redis"]) as orders:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        while not stopping.is_set():
            time.sleep(0.1)
        for thread in threads:
            thread.join()


def main(options: str) -> None:
    """Publish until told to stop."""
    given = json.loads(options)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    notes = Notes(given["notes"])
    if given["kind"] == "sync":
        publish_in_threads(given, notes)
    else:
        asyncio.run(publish(given, notes))


if __name__ == "__main__":
    main(sys.argv[1])
