"""Records in the caller's own loop."""

import asyncio
import contextlib

import pytest

from streamshard import Batch, ConfigurationError, ListenerRejected, Message, Poller, ScriptedCoordinator
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.adapters.streams.record_ids import id_text
from streamshard.core.commands import Intent
from streamshard.core.ids import ShardIndex
from streamshard.core.records import Access
from streamshard.core.replies import Status
from streamshard.entrypoints.listening import ListenerOptions
from tests.integration.client.script import Granting, fill, memory_streams, nothing_pending, reply, routing, until


def poller_over(world: MemoryStreams, granting: Granting, options: ListenerOptions | None = None) -> Poller:
    api = ScriptedCoordinator([granting], [routing(2)])
    return Poller("orders", "billing", api, MemoryShardLog(world), **(options or {}))


def open_records(world: MemoryStreams) -> list[str]:
    groups = [(stream, group) for stream in world.streams.values() for group in stream.groups.values()]
    ids = [(*group.pending, *stream.after(group.last_delivered)) for stream, group in groups]
    return sorted(id_text(each) for each in sum(ids, ()))


def test_every_record_comes_in_the_order_of_its_shard() -> None:
    world = memory_streams(2)
    seen: dict[int, list[str]] = {0: [], 1: []}

    async def scenario() -> None:
        for shard in seen:
            await fill(MemoryShardLog(world), shard, 5)
        async with poller_over(world, Granting([0, 1])) as poller:
            async for message in poller:
                assert isinstance(message, Message)
                seen[message.shard].append(message.text("n"))
                await message.ack()
                if sum(map(len, seen.values())) == 10:
                    break
        assert nothing_pending(world)

    asyncio.run(scenario())
    assert seen == {0: ["0", "1", "2", "3", "4"], 1: ["0", "1", "2", "3", "4"]}


def test_batches_come_as_such() -> None:
    world = memory_streams(1)

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 5)
        async with poller_over(world, Granting([0]), {"batch": 5}) as poller:
            batch = await anext(poller)
            assert isinstance(batch, Batch)
            assert len(batch) == 5
            await batch.ack()
        assert nothing_pending(world)

    asyncio.run(scenario())


def test_to_ask_for_the_next_one_is_to_be_done_with_the_last_one() -> None:
    world, granting = memory_streams(2), Granting([0, 1])

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 1, 2)
        async with poller_over(world, granting, {"redeliver_after": 3_600}) as poller:
            first = await anext(poller)
            del granting.tokens[ShardIndex(1)]
            await until(lambda: poller.app.members[0].session.held[ShardIndex(1)].use.name == "DRAINING")
            assert ShardIndex(1) in poller.app.members[0].session.running

            waiting = asyncio.ensure_future(anext(poller))
            await until(lambda: ShardIndex(1) not in poller.app.members[0].session.running)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(first, Message)
        assert len(world.streams["orders:1"].groups) == 1
        assert not nothing_pending(world)

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [None, ValueError("the loop failed on it")])
def test_on_success_leaves_pending_what_the_loop_was_left_with(error: ValueError | None) -> None:
    world = memory_streams(2)

    async def scenario() -> list[str]:
        written = {key: await fill(MemoryShardLog(world), shard, 3) for shard, key in enumerate(world.streams)}
        taken: list[Message] = []
        with contextlib.suppress(ValueError):
            async with poller_over(world, Granting([0, 1]), {"ack": "on_success"}) as poller:
                async for message in poller:
                    assert isinstance(message, Message)
                    taken.append(message)
                    if len(taken) == 2 and error is not None:
                        raise error
                    if len(taken) == 2:
                        break
        return sorted(set(sum(written.values(), [])) - {taken[0].id})

    unhandled = asyncio.run(scenario())
    assert open_records(world) == unhandled


def test_what_waited_until_its_shard_was_lost_is_left_to_the_next_owner() -> None:
    world, granting = memory_streams(2), Granting([0, 1])

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 1)
        async with poller_over(world, granting) as poller:
            first = await anext(poller)
            await fill(MemoryShardLog(world), 1, 1)
            await until(lambda: poller._handed.qsize() == 1)
            poller.app.members[0].refused(ShardIndex(1), granting.tokens.pop(ShardIndex(1)), Access.FENCED)
            await until(lambda: ShardIndex(1) not in poller.app.members[0].session.held)
            assert isinstance(first, Message)
            await first.ack()

            waiting = asyncio.ensure_future(anext(poller))
            await until(lambda: ShardIndex(1) not in poller.app.members[0].session.running)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(scenario())


def test_a_refused_client_ends_the_loop_with_the_reason() -> None:
    api = ScriptedCoordinator([reply(Status.UNSUPPORTED_PROTOCOL)], [routing(1)])

    async def scenario() -> None:
        async with Poller("orders", "billing", api, MemoryShardLog(memory_world)) as poller:
            with pytest.raises(ListenerRejected):
                await anext(poller)

    memory_world = memory_streams(1)
    asyncio.run(scenario())


def test_members_that_have_left_end_the_loop() -> None:
    world = memory_streams(1)

    async def scenario() -> None:
        async with poller_over(world, Granting([0])) as poller:
            await until(lambda: bool(poller.app.members[0].session.held))
            poller.app.members[0].stop()
            assert [message async for message in poller] == []

    asyncio.run(scenario())


def test_options_are_those_of_a_listener() -> None:
    with pytest.raises(ConfigurationError, match="page: must be"):
        poller_over(memory_streams(1), Granting([0]), {"page": 0})


def test_the_leave_says_nothing_is_held() -> None:
    world = memory_streams(1)
    api = ScriptedCoordinator([Granting([0])], [routing(1)])

    async def scenario() -> None:
        await fill(MemoryShardLog(world), 0, 3)
        async with Poller("orders", "billing", api, MemoryShardLog(world)) as poller:
            await anext(poller)

    asyncio.run(scenario())
    assert (api.beats[-1].intent, api.beats[-1].holds) == (Intent.LEAVE, ())
