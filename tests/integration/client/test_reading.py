"""The parts of the reading side, each alone: waits, grouped reads, messages, calls across loops."""

import asyncio
import threading
from collections.abc import Mapping, Sequence

import pytest

from streamshard import Batch, Message
from streamshard.adapters.client.batching import GroupedReads
from streamshard.adapters.client.bridge import BridgedCoordinator
from streamshard.adapters.client.scripted import ScriptedCoordinator
from streamshard.adapters.client.waiter import Waiter
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.consumer import FIRST
from streamshard.core.ids import Epoch, GroupKey, InstanceId, MemberId, Millis, RecordId, Seq, ShardIndex, Token
from streamshard.core.records import AckMode, ReadReply, Record, ShardAccess
from streamshard.core.replies import Routing
from streamshard.errors import CoordinatorUnreachable, LeaseLost, StreamUnavailable
from tests.integration.client.script import FIRST_GENERATION, ORDERS, fill, memory_streams, reply, routing, until


def access(shard: int) -> ShardAccess:
    return ShardAccess(ORDERS.prefix, ShardIndex(shard), ORDERS.group, "me", FIRST_GENERATION, Token(10))


class CountingLog(MemoryShardLog):
    """Counts waits and reads."""

    def __init__(self, shards: int) -> None:
        self.world = memory_streams(shards)
        super().__init__(self.world)
        self.waits: list[list[str]] = []
        self.reads: list[int] = []

    async def wait(self, after: Mapping[str, RecordId], timeout: Millis) -> None:
        self.waits.append(sorted(after))
        await super().wait(after, timeout)

    async def read(self, wanted: Sequence[tuple[ShardAccess, int]]) -> tuple[ReadReply, ...]:
        self.reads.append(len(wanted))
        return await super().read(wanted)


class TestWaiting:
    def test_shards_that_fall_idle_together_share_a_wait_and_later_ones_have_their_own(self) -> None:
        log = CountingLog(3)

        async def scenario() -> None:
            waiter = Waiter(log)
            first, second = waiter.idle("orders:0", FIRST), waiter.idle("orders:1", FIRST)
            await until(lambda: len(log.waits) == 1)
            third = waiter.idle("orders:2", FIRST)
            await until(lambda: len(log.waits) == 2)
            assert log.waits == [["orders:0", "orders:1"], ["orders:2"]]

            await fill(log, 2, 1)
            await third
            assert not first.done()
            await waiter.close()
            assert first.done()
            assert second.done()

        asyncio.run(scenario())

    def test_one_key_twice_takes_two_waits(self) -> None:
        log = CountingLog(1)

        async def scenario() -> None:
            waiter = Waiter(log)
            first, second = waiter.idle("orders:0", FIRST), waiter.idle("orders:0", RecordId("5-0"))
            await fill(log, 0, 1)
            await asyncio.gather(first, second)
            await waiter.close()

        asyncio.run(scenario())
        assert log.waits == [["orders:0"], ["orders:0"]]

    def test_without_a_free_wait_a_shard_looks_for_itself_soon(self) -> None:
        log = CountingLog(2)

        async def scenario() -> None:
            waiter = Waiter(log, most_waits=1)
            first = waiter.idle("orders:0", FIRST)
            await until(lambda: len(log.waits) == 1)
            await waiter.idle("orders:1", FIRST)
            assert not first.done()
            await waiter.close()

        asyncio.run(scenario())
        assert log.waits == [["orders:0"]]

    def test_trouble_wakes_everybody_after_a_moment(self) -> None:
        log = CountingLog(1)

        async def scenario() -> None:
            log.world.go_down()
            waiter = Waiter(log)
            await waiter.idle("orders:0", FIRST)
            await waiter.close()

        asyncio.run(scenario())


class PointingLog(CountingLog):
    """Tells what it was waited for, as a test says."""

    def __init__(self, shards: int) -> None:
        super().__init__(shards)
        self.news: asyncio.Queue[dict[str, RecordId]] = asyncio.Queue()

    async def wait_for_news(self, after: Mapping[str, RecordId], timeout: Millis) -> Mapping[str, RecordId]:
        self.waits.append([f"{key}>{position}" for key, position in sorted(after.items())])
        return await self.news.get()


class TestWaitingForWhatIsTold:
    def test_only_the_shard_with_news_is_woken_and_the_others_wait_on(self) -> None:
        log = PointingLog(2)

        async def scenario() -> None:
            waiter = Waiter(log)
            first, second = waiter.idle("orders:0", FIRST), waiter.idle("orders:1", FIRST)
            await until(lambda: len(log.waits) == 1)
            log.news.put_nowait({"orders:0": RecordId("5-0")})
            await first
            await until(lambda: len(log.waits) == 2)

            assert not second.done()
            await waiter.close()

        asyncio.run(scenario())
        assert log.waits == [["orders:0>0-0", "orders:1>0-0"], ["orders:0>5-0", "orders:1>0-0"]]

    def test_a_shard_that_falls_idle_where_it_is_waited_for_already_joins_that_wait(self) -> None:
        log = PointingLog(1)

        async def scenario() -> None:
            waiter = Waiter(log)
            first = waiter.idle("orders:0", FIRST)
            log.news.put_nowait({"orders:0": RecordId("5-0")})
            await first
            await until(lambda: len(log.waits) == 2)
            again = waiter.idle("orders:0", RecordId("5-0"))
            log.news.put_nowait({"orders:0": RecordId("6-0")})
            await again
            await waiter.close()

        asyncio.run(scenario())
        assert log.waits[:2] == [["orders:0>0-0"], ["orders:0>5-0"]]

    def test_one_that_comes_later_is_taken_in_when_the_wait_ends_for_another(self) -> None:
        log = PointingLog(2)

        async def scenario() -> None:
            waiter = Waiter(log, most_waits=1)
            first = waiter.idle("orders:0", FIRST)
            await until(lambda: len(log.waits) == 1)
            second = waiter.idle("orders:1", FIRST)
            log.news.put_nowait({"orders:0": RecordId("5-0")})
            log.news.put_nowait({"orders:1": RecordId("5-1")})
            await asyncio.gather(first, second)
            await waiter.close()

        asyncio.run(scenario())
        assert log.waits[1] == ["orders:0>5-0", "orders:1>0-0"]

    def test_a_shard_that_nobody_is_idle_on_is_left_out_soon(self) -> None:
        log = PointingLog(2)

        async def scenario() -> None:
            waiter = Waiter(log)
            first, second = waiter.idle("orders:0", FIRST), waiter.idle("orders:1", FIRST)
            for number in range(5, 9):
                log.news.put_nowait({"orders:0": RecordId(f"{number}-0")})
            await first
            await until(lambda: log.waits[-1] == ["orders:1>0-0"])
            assert not second.done()
            await waiter.close()

        asyncio.run(scenario())

    def test_the_end_of_the_time_wakes_everybody(self) -> None:
        log = PointingLog(2)

        async def scenario() -> None:
            waiter = Waiter(log)
            both = waiter.idle("orders:0", FIRST), waiter.idle("orders:1", FIRST)
            log.news.put_nowait({})
            await asyncio.gather(*both)
            await waiter.close()

        asyncio.run(scenario())
        assert log.waits == [["orders:0>0-0", "orders:1>0-0"]]


class TestGroupedReads:
    def test_what_is_asked_for_together_is_sent_together(self) -> None:
        log = CountingLog(3)

        async def scenario() -> None:
            await fill(log, 1, 2)
            reads = GroupedReads(log)
            replies = await asyncio.gather(*(reads.read(access(shard), 5) for shard in range(3)))
            assert [len(reply.records) for reply in replies] == [0, 2, 0]

        asyncio.run(scenario())
        assert log.reads == [3]

    def test_trouble_reaches_everybody_who_asked(self) -> None:
        log = CountingLog(2)

        async def scenario() -> None:
            log.world.go_down()
            reads = GroupedReads(log)
            outcomes = await asyncio.gather(*(reads.read(access(n), 5) for n in range(2)), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StreamUnavailable, StreamUnavailable]

        asyncio.run(scenario())

    def test_one_who_gave_up_spoils_nothing_for_the_others(self) -> None:
        log = CountingLog(2)

        async def scenario() -> None:
            await fill(log, 1, 1)
            reads = GroupedReads(log)
            gone = asyncio.create_task(reads.read(access(0), 5))
            stays = asyncio.create_task(reads.read(access(1), 5))
            await asyncio.sleep(0)
            gone.cancel()
            assert len((await stays).records) == 1

        asyncio.run(scenario())


class Settled:
    """Notes what is acknowledged."""

    def __init__(self) -> None:
        self.ids: list[tuple[tuple[RecordId, ...], AckMode]] = []
        self.returned: list[tuple[RecordId, ...]] = []
        self.dead: list[tuple[Record, str]] = []

    async def acknowledge(self, ids: Sequence[RecordId], mode: AckMode) -> None:
        if "9-0" in ids:
            raise LeaseLost("gone")
        self.ids.append((tuple(ids), mode))

    async def give_back(self, ids: Sequence[RecordId]) -> None:
        self.returned.append(tuple(ids))

    async def dead_letter(self, record: Record, reason: str) -> None:
        self.dead.append((record, reason))


def message(settler: Settled, record: str) -> Message:
    content = Record(RecordId(record), {b"name": "Zoë".encode()}, 2)
    return Message(settler, "orders:3", ShardIndex(3), Token(7), content)


class TestMessages:
    def test_a_message_says_what_it_is(self) -> None:
        async def scenario() -> None:
            one = message(Settled(), "1-0")
            assert (one.id, one.key, one.shard, one.fencing_token, one.delivery_count) == ("1-0", "orders:3", 3, 7, 2)
            assert one.fields == {b"name": "Zoë".encode()}
            assert (one.text("name"), one.text("more", "none"), repr(one)) == ("Zoë", "none", "<Message orders:3 1-0>")
            with pytest.raises(KeyError, match="more"):
                one.text("more")

        asyncio.run(scenario())

    def test_acknowledging_twice_is_acknowledging_once(self) -> None:
        settled = Settled()

        async def scenario() -> None:
            one, two = message(settled, "1-0"), message(settled, "2-0")
            await one.ack()
            await one.ack_del()
            await two.ack_del()

        asyncio.run(scenario())
        assert settled.ids == [(("1-0",), AckMode.ACK), (("2-0",), AckMode.ACK_DEL)]

    def test_a_refused_acknowledgement_leaves_it_open(self) -> None:
        async def scenario() -> None:
            lost = message(Settled(), "9-0")
            with pytest.raises(LeaseLost):
                await lost.ack()
            assert not lost.acknowledged

        asyncio.run(scenario())

    def test_a_batch_acknowledges_what_is_still_open(self) -> None:
        settled = Settled()

        async def scenario() -> None:
            messages = [message(settled, f"{n}-0") for n in range(3)]
            batch = Batch(settled, messages)
            await messages[1].ack()
            await batch.ack()
            await batch.ack()
            assert (list(batch), batch[1], batch[1:], len(batch)) == (messages, messages[1], tuple(messages[1:]), 3)

        asyncio.run(scenario())
        assert settled.ids == [(("1-0",), AckMode.ACK), (("0-0", "2-0"), AckMode.ACK)]

    def test_a_batch_is_acknowledged_from_a_thread(self) -> None:
        settled = Settled()

        async def scenario() -> None:
            await asyncio.to_thread(Batch(settled, [message(settled, "1-0")]).ack_blocking)

        asyncio.run(scenario())
        assert settled.ids == [(("1-0",), AckMode.ACK)]


class TestBridge:
    BEAT = Heartbeat(MemberId("a"), Intent.JOIN, Epoch(0), InstanceId("1" * 32), Seq(1))

    def test_calls_are_carried_to_the_coordinator_s_own_loop(self) -> None:
        homes: list[threading.Thread] = []

        class Homely(ScriptedCoordinator):
            async def routing(self, key: GroupKey) -> Routing:
                homes.append(threading.current_thread())
                return await super().routing(key)

        async def scenario() -> None:
            bridge = BridgedCoordinator(Homely([reply()], [routing(2)]), asyncio.get_running_loop())
            assert await bridge.routing(ORDERS) == routing(2)
            assert (await bridge.heartbeat(ORDERS, self.BEAT)).seq == 1
            assert await asyncio.to_thread(lambda: asyncio.run(bridge.routing(ORDERS))) == routing(2)

        asyncio.run(scenario())
        assert homes == [threading.current_thread()] * 2

    def test_a_coordinator_whose_loop_has_ended_is_unreachable(self) -> None:
        async def home() -> asyncio.AbstractEventLoop:
            return asyncio.get_running_loop()

        bridge = BridgedCoordinator(ScriptedCoordinator([reply()], [routing(2)]), asyncio.run(home()))

        with pytest.raises(CoordinatorUnreachable, match="is closed"):
            asyncio.run(bridge.routing(ORDERS))

    def test_a_script_without_answers_is_unreachable(self) -> None:
        with pytest.raises(CoordinatorUnreachable, match="no routing of orders/billing is scripted"):
            asyncio.run(ScriptedCoordinator().routing(ORDERS))
