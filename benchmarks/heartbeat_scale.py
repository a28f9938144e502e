"""An unchanged heartbeat in a large group, against one in a small group, with as many holds each.

    python benchmarks/heartbeat_scale.py [--small 10x100] [--large 1000x10000] [--rounds 9]

Two groups in memory stores, written down as they are once everything is granted. First a coordinator in this
process is asked, by its processor time per heartbeat; then coordinators over HTTP, in processes of their own,
by theirs. Each round asks both; ratios are medians of the rounds'. What a coordinator does once a second for
the whole group, its tick, is no part of a heartbeat and is measured apart.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import attrs
from heartbeat_load import VERSION, Member, measure, server, settle

from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.admin import Author, CreateStream, GroupSpec
from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.coordinator import Coordinator
from streamshard.core.group import GroupRecord, Holding, MemberState
from streamshard.core.group import Member as OnRecord
from streamshard.core.ids import (
    Epoch,
    GroupKey,
    GroupName,
    InstanceId,
    MemberId,
    Millis,
    Seq,
    ShardIndex,
    StreamPrefix,
    Token,
    WallMillis,
)
from streamshard.core.ports import GroupChange, Transaction
from streamshard.core.replies import Status
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.timing import Timing

KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
BEATS = 4_000
TOKEN = Token(1_700_000_000_001)
LASTING = Timing(lease_ms=Millis(3_600_000))
"""Nobody is to expire between two rounds."""


def name_of(number: int) -> MemberId:
    return MemberId(f"m{number:04}")


def instance_of(number: int) -> InstanceId:
    return InstanceId(f"{number:032x}")


def settled(record: GroupRecord, members: int) -> GroupRecord:
    """The group with everything granted and reported, shard by shard in turn."""
    owner = {shard: shard % members for shard in record.layout}
    holdings = {
        shard: Holding(name_of(n), instance_of(n), record.layout[shard], TOKEN, Token(0), Seq(0), listed=True)
        for shard, n in owner.items()
    }
    people = [
        OnRecord(
            name_of(n),
            "billing",
            instance_of(n),
            Epoch(n + 2),
            MemberState.ACTIVE,
            WallMillis(0),
            client_version=VERSION,
        )
        for n in range(members)
    ]
    return attrs.evolve(
        record,
        members={one.id: one for one in people},
        group_epoch=Epoch(members + 1),
        assignment_epoch=Epoch(members + 1),
        targets={shard: name_of(n) for shard, n in owner.items()},
        holdings=holdings,
        last_tokens=dict.fromkeys(owner, TOKEN),
        longest_leases={instance_of(n): LASTING.lease_ms for n in range(members)},
    )


async def coordinator_of(members: int, shards: int) -> Coordinator:
    """A coordinator that has loaded a settled group of that size."""
    store, streams = MemoryStore(), MemoryStreamBackend(MemoryStreams())
    chosen = CoordinatorSettings("benchmark", LASTING)
    maker = Coordinator(store, streams, SystemClock(), SystemEntropy(), chosen)
    await maker.create_stream(CreateStream(KEY.prefix, Author("benchmark"), shards, (GroupSpec(KEY.group),)))
    await maker.tick()
    found = await store.load_group(KEY)
    assert isinstance(found.record, GroupRecord)
    change = GroupChange(KEY, found.record.version, settled(found.record, members))
    await store.commit(Transaction(KEY.prefix, found.source, groups=(change,)))
    coordinator = Coordinator(store, streams, SystemClock(), SystemEntropy(), chosen)
    await coordinator.tick()
    return coordinator


class Crowd:
    """Every member of one group, beating in turn."""

    def __init__(self, coordinator: Coordinator, members: int, shards: int) -> None:
        self._coordinator = coordinator
        self._seq = 0
        self._beats = [
            Heartbeat(
                member=name_of(n),
                intent=Intent.STAY,
                epoch=Epoch(n + 2),
                instance=instance_of(n),
                seq=Seq(0),
                holds=tuple(Hold(ShardIndex(s), TOKEN) for s in range(n, shards, members)),
                member_name="billing",
                client_version=VERSION,
            )
            for n in range(members)
        ]

    async def know(self) -> None:
        """Take the view that every later heartbeat carries."""
        for _ in range(2):
            for n, beat in enumerate(self._beats):
                self._seq += 1
                reply = await self._coordinator.heartbeat(KEY, attrs.evolve(beat, seq=Seq(self._seq)))
                assert reply.status is Status.OK
                assert len(reply.extended) == len(beat.holds)
                self._beats[n] = attrs.evolve(beat, view=reply.view)

    async def cost_us(self) -> float:
        """Processor microseconds per heartbeat."""
        made = []
        for number in range(BEATS):
            self._seq += 1
            made.append(attrs.evolve(self._beats[number % len(self._beats)], seq=Seq(self._seq)))
        began = time.process_time()
        for beat in made:
            await self._coordinator.heartbeat(KEY, beat)
        return (time.process_time() - began) / BEATS * 1e6


async def in_process(small: tuple[int, int], large: tuple[int, int], rounds: int) -> dict[str, float]:
    """Both sizes in this process, in turn."""
    crowds = []
    for members, shards in (small, large):
        crowds.append(Crowd(await coordinator_of(members, shards), members, shards))
        await crowds[-1].know()
    return _told([(await crowds[0].cost_us(), await crowds[1].cost_us()) for _ in range(rounds)])


async def ticks(small: tuple[int, int], large: tuple[int, int], rounds: int) -> dict[str, float]:
    """What a tick over each group costs."""
    coordinators = [await coordinator_of(*size) for size in (small, large)]
    return _told([(await _tick_us(coordinators[0]), await _tick_us(coordinators[1])) for _ in range(rounds)])


async def _tick_us(coordinator: Coordinator) -> float:
    began = time.process_time()
    await coordinator.tick()
    return (time.process_time() - began) * 1e6


async def over_http(small: tuple[int, int], large: tuple[int, int], rounds: int, seconds: float) -> dict[str, float]:
    """Both sizes behind servers, in turn, over the same number of connections."""
    taken = []
    with _serving(small) as first, _serving(large) as second:
        crews = [await _crew(port, size) for (port, _), size in ((first, small), (second, large))]
        for _ in range(rounds):
            pair = [
                (await measure(port, pid, crew, seconds, small[0]))[0]
                for (port, pid), crew in zip((first, second), crews, strict=True)
            ]
            taken.append((pair[0], pair[1]))
    return _told(taken)


def _serving(size: tuple[int, int]) -> Any:
    return server(__file__, "--serve", f"{size[0]}x{size[1]}")


async def _crew(port: int, size: tuple[int, int]) -> Sequence[Member]:
    members, shards = size
    crew = [Member(name_of(n), instance=instance_of(n)) for n in range(members)]
    for n, member in enumerate(crew):
        grants = [{"shardIndex": s, "token": TOKEN} for s in range(n, shards, members)]
        member.take({"memberEpoch": n + 2, "grants": grants, "view": None, "metadataVersion": 0})
    await settle(port, crew, rounds=2)
    return crew


def _told(taken: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "small_cpu_us": round(statistics.median(small for small, _ in taken), 1),
        "large_cpu_us": round(statistics.median(large for _, large in taken), 1),
        "large_to_small": round(statistics.median(large / small for small, large in taken), 2),
    }


async def serve(members: int, shards: int, port: int) -> None:
    """Serve one group until SIGTERM."""
    import uvicorn

    from streamshard.entrypoints.http.app import create_app

    app = create_app(await coordinator_of(members, shards))
    await uvicorn.Server(uvicorn.Config(app, port=port, lifespan="off", log_config=None, access_log=False)).serve()


def _size(text: str) -> tuple[int, int]:
    members, _, shards = text.partition("x")
    return int(members), int(shards)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=_size, default=(10, 100))
    parser.add_argument("--large", type=_size, default=(1_000, 10_000))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--serve", type=_size)
    parser.add_argument("--port", type=int, default=0)
    chosen = parser.parse_args()
    if chosen.serve:
        import uvloop

        uvloop.run(serve(*chosen.serve, chosen.port))
        return
    sizes = (chosen.small, chosen.large)
    print(json.dumps({"where": "in process", **asyncio.run(in_process(*sizes, chosen.rounds))}), flush=True)
    print(json.dumps({"where": "a tick", **asyncio.run(ticks(*sizes, chosen.rounds))}), flush=True)
    print(json.dumps({"where": "over HTTP", **asyncio.run(over_http(*sizes, chosen.rounds, chosen.seconds))}))


if __name__ == "__main__":
    main()
