"""What a renewal costs in each metadata store: ``python benchmarks/stores.py``.

In one run, interleaved, so that a noisy machine is noisy for all: unchanged commits of 100 concurrent
tasks on the bare store, then the same tasks' heartbeats through a coordinator in this process. Printed
are medians, and ratios to the store in memory.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import attrs

from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.stores.redis import RedisStore
from streamshard.adapters.stores.sqlite import SqliteStore
from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.admin import Author, CreateStream, GroupSpec
from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.coordinator import Coordinator
from streamshard.core.group import GroupRecord, Row
from streamshard.core.ids import (
    Epoch,
    GroupKey,
    GroupName,
    InstanceId,
    MemberId,
    Millis,
    Nonce,
    Seq,
    ShardIndex,
    StreamPrefix,
    Token,
    View,
)
from streamshard.core.ports import GroupChange, MetadataStore, RowWrite, Transaction
from streamshard.core.replies import Status
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.timing import Timing

MEMBERS = 100
QUIET_ROUNDS = 2  # once granted, once listed as held
TURNS = 20
ROUNDS = 7
KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))

Round = Callable[[], Awaitable[None]]


@attrs.define
class Member:
    """A consumer that only renews."""

    number: int
    seq: int = 0
    epoch: Epoch = Epoch(0)
    view: View | None = None
    holds: tuple[Hold, ...] = ()

    async def beat(self, coordinator: Coordinator) -> bool:
        """Renew once; True if everything it asked for was granted."""
        self.seq += 1
        intent = Intent.STAY if self.epoch else Intent.JOIN
        name, instance = MemberId(f"member-{self.number}"), InstanceId(f"{self.number:032x}")
        reply = await coordinator.heartbeat(
            KEY, Heartbeat(name, intent, self.epoch, instance, Seq(self.seq), self.holds, self.view)
        )
        self.epoch, self.view = reply.epoch, reply.view
        self.holds = tuple(Hold(ShardIndex(g.shard), Token(g.token)) for g in reply.grants)
        return reply.status is Status.OK and not reply.pending


async def coordinator_over(store: MetadataStore) -> tuple[Coordinator, list[Member]]:
    """A group of `MEMBERS` members that has settled; its lease outlasts the run."""
    timing = Timing(lease_ms=Millis(600_000))
    chosen = CoordinatorSettings("benchmark", timing, default_shard_count=MEMBERS)
    streams = MemoryStreamBackend(MemoryStreams())
    coordinator = Coordinator(store, streams, SystemClock(), SystemEntropy(), chosen)
    await coordinator.create_stream(CreateStream(KEY.prefix, Author("benchmark"), MEMBERS, (GroupSpec(KEY.group),)))
    members = [Member(number) for number in range(MEMBERS)]
    quiet = 0
    while quiet < QUIET_ROUNDS:
        quiet = quiet + 1 if all([await member.beat(coordinator) for member in members]) else 0
        await coordinator.tick()
    return coordinator, members


async def rounds_over(store: MetadataStore) -> tuple[Round, Round]:
    """One round of bare commits, one of heartbeats."""
    coordinator, members = await coordinator_over(store)
    snapshot = await store.load_group(KEY)
    assert isinstance(snapshot.record, GroupRecord)
    compare = (GroupChange(KEY, snapshot.record.version),)
    seqs = [10**6] * MEMBERS

    async def commits(number: int) -> None:
        for _ in range(TURNS):
            seqs[number] += 1
            row = Row(InstanceId(f"x{number:031x}"), Seq(seqs[number]), Nonce(f"{seqs[number]:032x}"), Millis(15_000))
            await store.commit(Transaction(KEY.prefix, snapshot.source, groups=compare, row=RowWrite(KEY.group, row)))

    async def beats(member: Member) -> None:
        for _ in range(TURNS):
            assert await member.beat(coordinator)

    async def all_commits() -> None:
        await asyncio.gather(*map(commits, range(MEMBERS)))

    async def all_beats() -> None:
        await asyncio.gather(*map(beats, members))

    return all_commits, all_beats


async def measure(rounds: dict[str, Round]) -> dict[str, float]:
    """Microseconds of one renewal, by store: the median of interleaved rounds."""
    taken: dict[str, list[float]] = {name: [] for name in rounds}
    for _ in range(ROUNDS):
        for name, work in rounds.items():
            began = time.perf_counter()
            await work()
            taken[name].append((time.perf_counter() - began) / (MEMBERS * TURNS) * 1e6)
    return {name: statistics.median(times) for name, times in taken.items()}


def report(title: str, costs: dict[str, float]) -> None:
    """One line per store."""
    print(f"{title}, {MEMBERS} concurrent tasks")
    for name, cost in costs.items():
        print(f"  {name:<8}{cost:8.1f} us  {1e6 / cost:10,.0f}/s  {costs['memory'] / cost:6.2f} of memory's")


async def run(redis_url: str, folder: Path) -> None:
    """Measure every store."""
    async with AsyncExitStack() as opened:
        stores: dict[str, MetadataStore] = {
            "memory": MemoryStore(),
            "sqlite": await SqliteStore.open(folder / "meta.db"),
            "redis": await RedisStore.open(redis_url),
        }
        for store in stores.values():
            opened.push_async_callback(store.close)
        rounds = {name: await rounds_over(store) for name, store in stores.items()}
        report("unchanged commits", await measure({name: commits for name, (commits, _) in rounds.items()}))
        report("unchanged heartbeats", await measure({name: beats for name, (_, beats) in rounds.items()}))


def main(arguments: Sequence[str]) -> None:
    """Against the server whose URL is given, or one of its own."""
    with tempfile.TemporaryDirectory() as folder:
        if arguments:
            asyncio.run(run(arguments[0], Path(folder)))
        else:
            with EmbeddedServer() as server:
                asyncio.run(run(server.url, Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
