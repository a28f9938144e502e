"""An app that is made before its processes are forked, as servers do it that load the application first."""

import json
import logging
import multiprocessing
import sys

from streamshard import Message, StreamApp, SyncProducer
from tests.integration.faults.notes import Notes

CHILDREN = 3


def main(options: str) -> None:
    """Fork children that each run the same app, and wait for them."""
    given = json.loads(options)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    notes = Notes(given["notes"])
    app = StreamApp(given["url"], given["redis"], drain_timeout=5.0)
    orders = SyncProducer("orders", "billing", given["url"], given["redis"])

    def on_assigned(member: str, shard: int, token: int) -> None:
        notes.note("assigned", member=member, instances=[each.session.instance for each in app.members])

    @app.listener("orders", group=given["group"], concurrency=2, on_assigned=on_assigned)
    async def handle(message: Message) -> None:
        await message.ack()
        notes.note("acked", seq=message.text("seq"), id=message.id, key=message.key)

    def serve(number: int) -> None:
        for n in range(20):
            published = orders.publish(None, {"seq": f"{number}-{n}"})
            notes.note("published", seq=f"{number}-{n}", id=published.id, key=published.key)
        app.run()

    orders.publish(None, {"seq": "of the parent"})
    forking = multiprocessing.get_context("fork")
    children = [forking.Process(target=serve, args=(number,)) for number in range(CHILDREN)]
    for child in children:
        child.start()
        notes.note("forked", child=child.pid)
    for child in children:
        child.join()
    orders.publish(None, {"seq": "of the parent at the end"})
    orders.close()
    sys.exit(max(abs(child.exitcode or 0) for child in children))


if __name__ == "__main__":
    main(sys.argv[1])
