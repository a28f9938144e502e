"""A coordinator of a newer version beside this one: what it wrote is left alone, and everything else goes on."""

import asyncio
import contextlib
import hashlib
import json
import sqlite3
from pathlib import Path

from streamshard.adapters.stores.sqlite import SqliteStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.admin import Author, CreateStream, GroupSpec
from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import Epoch, GroupKey, GroupName, InstanceId, MemberId, Seq, StreamPrefix
from streamshard.core.replies import HeartbeatReply, Status
from streamshard.core.settings import CoordinatorSettings
from streamshard.testing.clock import ManualClock, SeededEntropy
from tests.integration.stores.sqlite_rig import sql

ORDERS = StreamPrefix("orders")
BILLING, AUDIT = GroupKey(ORDERS, GroupName("billing")), GroupKey(ORDERS, GroupName("audit"))
STORED = "SELECT body FROM group_records WHERE name = 'billing'"


class Neighbour:
    """Writes what this version does not know."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def stored(self) -> bytes:
        with contextlib.closing(sqlite3.connect(self._path)) as db:
            (body,) = db.execute(STORED).fetchone()
        return bytes(body)

    def write(self) -> None:
        document = json.loads(self.stored())
        version = document["body"]["version"]
        version["revision"] += 1
        version["nonce"] = "newer"
        document["body"]["ring"].append("newer")
        document["body"]["colour"] = "blue"
        tail = json.dumps({"kind": "group", "body": document["body"]})[1:].encode()
        seal = hashlib.blake2b(b"2," + tail, digest_size=16).hexdigest().encode()
        body = b'{"schema":2,"sum":"%b",%b' % (seal, tail)
        sql(
            self._path,
            "UPDATE group_records SET revision = revision + 1, nonce = 'newer', "
            f"body = x'{body.hex()}' WHERE name = 'billing'",
        )


class Beating:
    """A member of a group."""

    def __init__(self, coordinator: Coordinator, key: GroupKey, name: str) -> None:
        self._coordinator, self._key, self._name = coordinator, key, name
        self._reply: HeartbeatReply | None = None
        self._seq = 0

    async def beat(self) -> HeartbeatReply:
        self._seq += 1
        before = self._reply
        reply = await self._coordinator.heartbeat(
            self._key,
            Heartbeat(
                member=MemberId(self._name),
                intent=Intent.JOIN if before is None else Intent.STAY,
                epoch=Epoch(0) if before is None else before.epoch,
                instance=InstanceId(self._name * 32),
                seq=Seq(self._seq),
                holds=() if before is None else tuple(Hold(grant.shard, grant.token) for grant in before.grants),
                view=None if before is None else before.view,
            ),
        )
        self._reply = reply if reply.status is Status.OK else self._reply
        return reply


def test_what_a_newer_coordinator_wrote_is_refused_and_left_as_it_is_and_other_groups_go_on(tmp_path: Path) -> None:
    path = tmp_path / "meta.db"

    async def scenario() -> None:
        store, world = await SqliteStore.open(path), MemoryStreams()
        settings = CoordinatorSettings("older")
        coordinator = Coordinator(store, MemoryStreamBackend(world), ManualClock(), SeededEntropy(), settings)
        groups = (GroupSpec(BILLING.group), GroupSpec(AUDIT.group))
        await coordinator.create_stream(CreateStream(ORDERS, Author("ann"), 2, groups))
        one, other = Beating(coordinator, BILLING, "a"), Beating(coordinator, AUDIT, "b")
        for _ in range(3):
            await one.beat()
            await other.beat()
        newer = Neighbour(path)
        newer.write()
        before = newer.stored()

        for _ in range(3):
            refused, served = await one.beat(), await other.beat()
            await coordinator.tick()
        health = await coordinator.health()
        await store.close()

        assert (refused.status, served.status) == (Status.RETRY, Status.OK)
        assert refused.message is not None
        assert "upgrade this coordinator" in refused.message
        assert ["upgrade this coordinator" in what for what in health.invariant_violations] == [True]
        assert newer.stored() == before

    asyncio.run(scenario())
