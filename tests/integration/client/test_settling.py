"""What a settlement says when the shard may be somebody else's."""

import asyncio
import logging

import pytest

from streamshard.adapters.client.noise import Grumble
from streamshard.adapters.client.settling import Grip, Settlement
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core.ids import Generation, GroupName, Instant, MemberId, RecordId, ShardIndex, StreamPrefix, Token
from streamshard.core.records import AckMode, ShardAccess
from streamshard.errors import LeaseLost
from streamshard.testing.clock import ManualClock


def test_the_error_for_a_long_batch_names_a_few_of_its_records() -> None:
    clock = ManualClock()
    access = ShardAccess(
        StreamPrefix("orders"), ShardIndex(3), GroupName("billing"), MemberId("m"), Generation(1), Token(7)
    )
    over = Grip(clock, lambda: Instant(0), lambda access: None)
    grumble = Grumble(logging.getLogger("test"), clock)
    settlement = Settlement(access, MemoryShardLog(MemoryStreams()), over, grumble, AckMode.ACK)

    with pytest.raises(LeaseLost) as lost:
        asyncio.run(settlement.acknowledge([RecordId(f"{n}-0") for n in range(10_000)], AckMode.ACK))

    assert lost.value.message == (
        "orders:3: the lease is over, so 0-0, 1-0, 2-0, 3-0, 4-0 and 9995 more can't be settled"
    )
