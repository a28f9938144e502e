"""Acknowledgements that travel while the next records are handled."""

import asyncio
from collections.abc import Sequence

from streamshard import Message, StreamApp
from streamshard.adapters.client.late_acks import LateAcks
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.core.ids import RecordId, ShardIndex, Token
from streamshard.core.records import AckMode, AckReply, Record, ShardAccess
from streamshard.errors import LeaseLost
from tests.integration.client.script import app_over, fill, memory_streams, until


class SlowSettler:
    """Acknowledges when a test lets it."""

    def __init__(self) -> None:
        self.orders: list[list[str]] = []
        self.gate = asyncio.Event()
        self.failing = False

    async def acknowledge(self, ids: Sequence[RecordId], mode: AckMode) -> None:
        self.orders.append(list(ids))
        await self.gate.wait()
        if self.failing:
            raise LeaseLost("orders:3: over")

    async def give_back(self, ids: Sequence[RecordId]) -> None:
        """Nothing is given back here."""

    async def dead_letter(self, record: Record, reason: str) -> None:
        """Nothing is given up here."""


def message(settler: SlowSettler, record: str) -> Message:
    return Message(settler, "orders:3", ShardIndex(3), Token(7), Record(RecordId(record), {b"f": b"v"}))


class TestLateAcks:
    def test_what_gathers_while_one_order_is_under_way_goes_with_the_next(self) -> None:
        async def scenario() -> None:
            settler = SlowSettler()
            acks = LateAcks(settler, 10, lambda messages, error: None)
            first, second, third = (message(settler, f"{n}-0") for n in (1, 2, 3))
            acks.add([first])
            await asyncio.sleep(0)
            acks.add([second])
            acks.add([third])
            settler.gate.set()
            await acks.settled()

            assert settler.orders == [["1-0"], ["2-0", "3-0"]]
            assert all(each.acknowledged for each in (first, second, third))

        asyncio.run(scenario())

    def test_what_is_settled_or_given_back_already_is_left_out(self) -> None:
        async def scenario() -> None:
            settler = SlowSettler()
            acks = LateAcks(settler, 10, lambda messages, error: None)
            done, returned = message(settler, "1-0"), message(settler, "2-0")
            done.acknowledged = returned.given_back = True
            acks.add([done, returned])
            await acks.settled()

            assert settler.orders == []

        asyncio.run(scenario())

    def test_so_many_may_wait_and_no_more(self) -> None:
        async def scenario() -> None:
            settler = SlowSettler()
            acks = LateAcks(settler, 2, lambda messages, error: None)
            acks.add([message(settler, "1-0")])
            assert not acks.full
            acks.add([message(settler, "2-0")])
            assert acks.full
            settler.gate.set()
            await acks.settled()
            assert not acks.full

        asyncio.run(scenario())

    def test_who_asked_hears_of_those_that_were_not_acknowledged(self) -> None:
        failed: list[tuple[list[str], str]] = []

        async def scenario() -> None:
            settler = SlowSettler()
            settler.failing = True
            settler.gate.set()
            acks = LateAcks(settler, 2, lambda messages, error: failed.append(([m.id for m in messages], str(error))))
            lost = message(settler, "1-0")
            acks.add([lost])
            await acks.settled()
            assert not lost.acknowledged

        asyncio.run(scenario())
        assert failed == [(["1-0"], "orders:3: over")]


class HesitantLog(MemoryShardLog):
    """Lets acknowledgements wait until a test opens the gate."""

    gate: asyncio.Event

    async def acknowledge(self, access: ShardAccess, ids: Sequence[RecordId], mode: AckMode) -> AckReply:
        await self.gate.wait()
        return await super().acknowledge(access, ids, mode)


class TestAcknowledgingOnSuccess:
    def test_the_next_record_is_handled_meanwhile_and_the_member_leaves_only_after_it(self) -> None:
        world = memory_streams(1)
        handled: list[str] = []

        async def scenario() -> None:
            log = HesitantLog(world)
            log.gate = asyncio.Event()
            ids = await fill(log, 0, 3)
            _, api = app_over(world, 0)
            app = StreamApp(api, log)

            @app.listener("orders", group="billing", ack="on_success")
            async def handle(message: Message) -> None:
                handled.append(message.id)

            await app.start()
            await until(lambda: handled == list(ids))
            leaving = asyncio.create_task(app.stop())
            await asyncio.sleep(0.05)
            assert not leaving.done()
            log.gate.set()
            await leaving
            assert [len(beat.holds) for beat in api.beats[-1:]] == [0]

        asyncio.run(scenario())
