"""Coordinators over Redis: what a store that came back as another one means to a group."""

import asyncio
from collections.abc import Iterator

import pytest

from streamshard.adapters.entropy import SystemEntropy
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.admin import Author, CreateStream, GroupSpec
from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.coordinator import Coordinator
from streamshard.core.group import GroupRecord
from streamshard.core.ids import Epoch, MemberId, Seq
from streamshard.core.ports import MetadataStore
from streamshard.core.replies import HeartbeatReply, Status
from streamshard.core.settings import CoordinatorSettings
from streamshard.testing.clock import ManualClock
from streamshard.testing.samples import BILLING, KEY, ONE, ORDERS
from tests.integration.stores.redis_rig import Server, server, store_at
from tests.servers import Servers

JOIN = Heartbeat(MemberId("a"), Intent.JOIN, Epoch(0), ONE, Seq(1))
CREATE = CreateStream(ORDERS, Author("tests"), 2, (GroupSpec(BILLING),))


@pytest.fixture
def durable(servers: Servers) -> Iterator[Server]:
    with server(servers.binary("valkey"), "--appendonly", "yes", "--appendfsync", "always") as started:
        yield started


def coordinator(store: MetadataStore, world: MemoryStreams) -> Coordinator:
    return Coordinator(store, MemoryStreamBackend(world), ManualClock(), SystemEntropy(), CoordinatorSettings("c"))


def stay(reply: HeartbeatReply, seq: int) -> Heartbeat:
    """The next heartbeat of who was answered so, holding all it was granted."""
    holds = tuple(Hold(grant.shard, grant.token) for grant in reply.grants)
    return Heartbeat(MemberId("a"), Intent.STAY, reply.epoch, ONE, Seq(seq), holds, reply.view)


def test_a_member_renews_at_one_coordinator_what_another_one_granted(durable: Server) -> None:
    async def scenario() -> tuple[HeartbeatReply, HeartbeatReply]:
        world = MemoryStreams()
        async with store_at(durable.url) as one, store_at(durable.url) as two:
            first, second = coordinator(one, world), coordinator(two, world)
            await first.create_stream(CREATE)
            granted = await first.heartbeat(KEY, JOIN)
            return granted, await second.heartbeat(KEY, stay(granted, 2))

    granted, renewed = asyncio.run(scenario())

    assert (granted.status, renewed.status) == (Status.OK, Status.OK)
    assert [(each.shard, each.token) for each in renewed.extended] == [(g.shard, g.token) for g in granted.grants]
    assert granted.assigned == renewed.assigned == (0, 1)


def test_a_restarted_store_puts_its_groups_into_quarantine_and_takes_no_shard_from_anybody(durable: Server) -> None:
    async def scenario() -> tuple[HeartbeatReply, HeartbeatReply, object]:
        async with store_at(durable.url) as store:
            served = coordinator(store, MemoryStreams())
            await served.create_stream(CREATE)
            granted = await served.heartbeat(KEY, JOIN)
            await asyncio.to_thread(durable.restart)
            again = stay(granted, 2)
            renewed = await served.heartbeat(KEY, again)
            if renewed.status is Status.RETRY:
                renewed = await served.heartbeat(KEY, stay(granted, 3))
            return granted, renewed, (await store.load_group(KEY)).record

    granted, renewed, record = asyncio.run(scenario())

    assert isinstance(record, GroupRecord)
    assert record.quarantine is not None
    assert renewed.status is Status.SYNC_METADATA
    assert [(each.shard, each.token) for each in renewed.extended] == [(g.shard, g.token) for g in granted.grants]
