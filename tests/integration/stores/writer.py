"""A process that increments, for tests with several processes: ``python -m … PATH-OR-URL NAME COUNT``.

Each commit raises the stream's and the group's counter together and writes a row; COUNT 0 goes on
until the process is killed. Says ``ready`` once the store is open and each number it has committed.
"""

import asyncio
import contextlib
import itertools
import sys

from streamshard.adapters.stores.redis import RedisStore
from streamshard.adapters.stores.sqlite import SqliteStore
from streamshard.core.ids import InstanceId, Nonce, next_version
from streamshard.core.ports import GroupChange, MetadataStore, RowWrite, StreamChange, Transaction
from streamshard.core.stream import StreamRecord
from streamshard.errors import RevisionConflict
from streamshard.testing.samples import BILLING, KEY, ORDERS, a_group, a_row, a_stream


async def increment(store: MetadataStore, name: str, turn: int) -> int:
    """Raise both counters by one; returns the number reached."""
    while True:
        stream = await store.load_stream(ORDERS)
        assert isinstance(stream.record, StreamRecord)
        before = stream.record.version
        after = next_version(before, Nonce(f"{name}-{turn}"))
        change = Transaction(
            ORDERS,
            stream.source,
            StreamChange(before, a_stream(after, count=after.revision)),
            (GroupChange(KEY, before, a_group(after, epoch=after.revision)),),
            RowWrite(BILLING, a_row(turn + 1, InstanceId(name)), force=True),
        )
        with contextlib.suppress(RevisionConflict):
            await store.commit(change)
            return after.revision


async def run(place: str, name: str, count: int) -> None:
    """Increment so often, or for ever."""
    store: MetadataStore = await (RedisStore.open(place) if "://" in place else SqliteStore.open(place))
    try:
        print("ready", flush=True)
        for turn in range(count) if count else itertools.count():
            print(await increment(store, name, turn), flush=True)
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
