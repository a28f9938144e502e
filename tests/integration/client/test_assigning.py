"""Assignments alone: two callbacks, each called until it has worked."""

import asyncio
import logging
from collections.abc import Collection

import pytest

from streamshard import ConfigurationError, GroupNotFound, ListenerRejected, Membership, ScriptedCoordinator
from streamshard.core.commands import Intent
from streamshard.core.group import ShardProgress
from streamshard.core.ids import RecordId, ShardIndex
from streamshard.core.replies import Status
from streamshard.entrypoints.assigning import Assignment, Shards
from tests.integration.client.rig import memory_rig
from tests.integration.client.script import ORDERS, Granting, reply, routing, until
from tests.integration.entrypoints.test_examples import example

ZERO, ONE = ShardIndex(0), ShardIndex(1)


class Notes:
    """Notes the calls; finishes what it is allowed to."""

    def __init__(self) -> None:
        self.begun: list[Shards] = []
        self.ended: list[Shards] = []
        self.failures = 0
        self.may_finish: set[ShardIndex] = {ZERO, ONE}
        self.assignment: Assignment | None = None
        self.lost: set[ShardIndex] = set()

    def begin(self, shards: Shards, assignment: Assignment) -> None:
        self.begun.append(shards)
        self.assignment = assignment
        if self.failures:
            self.failures -= 1
            raise ValueError("not yet")

    async def end(self, shards: Shards, assignment: Assignment) -> Collection[ShardIndex]:
        self.ended.append(shards)
        self.lost |= {shard for shard in shards if assignment.lost(shard)}
        return self.may_finish.intersection(shards)


def membership(api: ScriptedCoordinator, notes: Notes, drain_timeout: float = 5) -> Membership:
    return Membership(
        "orders", "billing", api, on_assigned=notes.begin, on_revoked=notes.end, drain_timeout=drain_timeout
    )


def test_shards_are_told_with_what_it_takes_to_read_them() -> None:
    api, notes = ScriptedCoordinator([Granting([0, 1])], [routing(2)]), Notes()

    async def scenario() -> None:
        async with membership(api, notes) as joined:
            await until(lambda: sum(notes.begun, ()) == (ZERO, ONE))
            assignment = joined.assignment
            assert (assignment.stream_key(ONE), assignment.token(ONE)) == ("orders:1", 11)
            assert assignment.may_use(ONE)
            assert (assignment.access(ONE).group, assignment.access(ONE).token) == (ORDERS.group, 11)
            assert not assignment.may_use(ShardIndex(7))
            joined.note(ShardProgress(ONE, last_delivered=RecordId("5-0")))
            await until(lambda: [row.last_delivered for row in api.beats[-1].progress] == ["5-0"])
        assert sorted(shard for shards in notes.ended for shard in shards) == [0, 1]
        assert (api.beats[-1].intent, api.beats[-1].holds) == (Intent.LEAVE, ())

    asyncio.run(scenario())


def test_a_shard_is_released_when_it_was_said_to_be_finished_and_not_before() -> None:
    granting, notes = Granting([0, 1]), Notes()
    api = ScriptedCoordinator([granting], [routing(2)])

    async def scenario() -> None:
        async with membership(api, notes):
            await until(lambda: sum(notes.begun, ()) == (ZERO, ONE))
            notes.may_finish = {ZERO}
            del granting.tokens[ONE]
            await until(lambda: len(notes.ended) >= 3)
            assert {hold.shard: hold.draining for hold in api.beats[-1].holds} == {0: False, 1: True}
            assert notes.ended[:3] == [(ONE,)] * 3

            notes.may_finish = {ZERO, ONE}
            await until(lambda: [hold.shard for hold in api.beats[-1].holds] == [0])
        assert notes.lost == set()

    asyncio.run(scenario())


def test_a_callback_that_raises_is_called_again_and_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    api, notes = ScriptedCoordinator([Granting([0])], [routing(1)]), Notes()
    notes.failures = 3

    async def scenario() -> None:
        async with membership(api, notes):
            await until(lambda: len(notes.begun) == 4)

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert notes.begun == [(ZERO,)] * 4
    assert [record.getMessage() for record in caplog.records] == [
        "orders/billing: begin failed for shards [0], and is called again: ValueError('not yet')"
    ]


def test_a_member_that_is_fenced_is_told_that_its_shards_are_lost() -> None:
    api, notes = ScriptedCoordinator([Granting([0])], [routing(1)]), Notes()

    async def scenario() -> None:
        async with membership(api, notes):
            await until(lambda: bool(notes.begun))
            api.then(reply(Status.FENCED_MEMBER_EPOCH), Granting([0]))
            await until(lambda: len(notes.begun) == 2)
            assert (notes.ended, notes.lost) == ([(ZERO,)], {ZERO})

    asyncio.run(scenario())


def test_a_callback_that_waits_for_what_somebody_cancels_is_called_again() -> None:
    granting, begun = Granting([0, 1]), list[Shards]()
    api = ScriptedCoordinator([granting], [routing(2)])

    async def begin(shards: Shards, assignment: Assignment) -> None:
        begun.append(shards)
        if len(begun) == 1:
            broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            broken.cancel()
            await broken

    def end(shards: Shards, assignment: Assignment) -> Collection[ShardIndex]:
        return iter(shards)  # type: ignore[return-value]  # which can be gone through only once

    async def scenario() -> None:
        async with Membership("orders", "billing", api, on_assigned=begin, on_revoked=end):
            await until(lambda: {shard for shards in begun[1:] for shard in shards} == {ZERO, ONE})
            granting.tokens.clear()
            await until(lambda: api.beats[-1].holds == ())

    asyncio.run(scenario())


def test_a_refused_client_is_told_so_and_ends() -> None:
    api, notes = ScriptedCoordinator([reply(Status.UNSUPPORTED_PROTOCOL)], [routing(1)]), Notes()

    async def scenario() -> None:
        async with membership(api, notes) as joined:
            with pytest.raises(ListenerRejected, match="orders/billing: UNSUPPORTED_PROTOCOL"):
                await joined.wait()

    asyncio.run(scenario())


def test_what_never_finishes_does_not_hold_the_end_up_for_ever() -> None:
    api, notes = ScriptedCoordinator([Granting([0])], [routing(1)]), Notes()

    async def scenario() -> None:
        async with membership(api, notes, drain_timeout=0):
            await until(lambda: bool(notes.begun))
            notes.may_finish = set()
        assert [hold.draining for hold in api.beats[-1].holds] == [True]

    asyncio.run(scenario())


def test_a_missing_group_is_an_error_at_the_start() -> None:
    api = ScriptedCoordinator(routings=[GroupNotFound("no group orders/billing")])

    async def scenario() -> None:
        async with membership(api, Notes()):
            raise AssertionError("there is no such group")

    with pytest.raises(GroupNotFound):
        asyncio.run(scenario())


def test_options_are_checked_at_once() -> None:
    with pytest.raises(ConfigurationError, match="drain_timeout: must be"):
        membership(ScriptedCoordinator(), Notes(), drain_timeout=-1)


def test_the_example_reads_what_is_pending_and_what_is_new() -> None:
    seen: list[str] = []

    async def scenario() -> None:
        async with memory_rig(2) as rig:
            readers = example("own_reader").Readers(rig.log, lambda record: seen.append(record.fields[b"n"].decode()))
            await rig.log.append("orders:0", {"n": 0}, None)
            async with Membership(
                "orders", "billing", rig.coordinator, on_assigned=readers.begin, on_revoked=readers.end
            ):
                await until(lambda: seen == ["0"])
                await rig.log.append("orders:1", {"n": 1}, None)
                await until(lambda: seen == ["0", "1"])
            assert await rig.owners() == {}

    asyncio.run(scenario())
