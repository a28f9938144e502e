"""Members on their own thread: heartbeats go on whatever the application's loop does."""

import asyncio
import contextlib
import os
import time
import warnings
from collections.abc import AsyncIterator

import attrs

from streamshard.adapters.client.member import Identity, Member, Order, Report
from streamshard.adapters.client.membership import Membership
from streamshard.adapters.client.scripted import ScriptedCoordinator
from streamshard.core.actions import Drop, Start
from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.ids import MemberId, Millis, ShardIndex, Token
from streamshard.core.records import Access
from streamshard.core.replies import HeartbeatReply, RetryReason, Status
from streamshard.errors import InvalidRequest
from tests.integration.client.script import CLOCK, ENTROPY, ORDERS, Granting, reply, until


class Orders:
    """A reading side that only notes what it is told."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.over = False

    def order(self, order: Order) -> None:
        self.orders.append(order)

    def report(self) -> Report:
        return Report(available=3)

    def ended(self, member: Member) -> None:
        self.over = True


@attrs.frozen
class Stage:
    """One member at work."""

    member: Member
    side: Orders
    api: ScriptedCoordinator


@contextlib.asynccontextmanager
async def working(api: ScriptedCoordinator, *, derived: bool = True) -> AsyncIterator[Stage]:
    membership = Membership(lambda: contextlib.nullcontext(api))
    membership.start()
    side = Orders()
    identity = Identity(MemberId("a-m0"), "a", derived=derived, max_concurrency=4)
    member = Member(ORDERS, identity, CLOCK, ENTROPY, side)
    joined = membership.add(member)
    try:
        yield Stage(member, side, api)
    finally:
        await asyncio.to_thread(membership.close)
        assert joined.done()


def test_a_loop_that_is_blocked_for_leases_does_not_cost_the_membership() -> None:
    async def scenario() -> None:
        async with working(ScriptedCoordinator([Granting([0], lease_ms=600)])) as stage:
            await until(lambda: bool(stage.side.orders))
            time.sleep(1.5)  # three leases of this loop standing still
            assert stage.member.may_use(ShardIndex(0), Token(10))
            assert [type(order) for order in stage.side.orders] == [Start]

    asyncio.run(scenario())


def test_a_heartbeat_says_who_and_how_busy() -> None:
    async def scenario() -> None:
        async with working(ScriptedCoordinator([Granting([0])])) as stage:
            await until(lambda: len(stage.api.beats) > 1)
            join, stay = stage.api.beats[:2]
            assert (join.intent, join.member_name, join.max_concurrency, join.available) == (Intent.JOIN, "a", 4, 3)
            assert stay.request_id == f"{stay.instance}-2"
            assert [hold.shard for hold in stay.holds] == [0]

    asyncio.run(scenario())


def test_a_hanging_coordinator_is_given_up_on_and_asked_again() -> None:
    class Hanging(ScriptedCoordinator):
        async def heartbeat(self, key: object, beat: Heartbeat) -> HeartbeatReply:
            answer = await super().heartbeat(ORDERS, beat)
            if beat.seq == 2:
                await asyncio.Event().wait()
            return answer

    async def scenario() -> None:
        async with working(Hanging([Granting([0], lease_ms=600)])) as stage:
            await until(lambda: len(stage.api.beats) > 4)
            assert [beat.seq for beat in stage.api.beats[:4]] == [1, 2, 3, 4]

    asyncio.run(scenario())


def test_a_finished_shard_is_reported_at_once_and_a_refused_one_dropped() -> None:
    async def scenario() -> None:
        slow = Granting([0, 1])
        async with working(
            ScriptedCoordinator([lambda beat: attrs.evolve(slow(beat), heartbeat_ms=Millis(60_000))])
        ) as stage:
            await until(lambda: len(stage.api.beats) == 2)
            stage.member.refused(ShardIndex(1), Token(11), Access.FENCED)
            await until(lambda: Drop(ShardIndex(1), Token(11), fenced=True) in stage.side.orders)
            stage.member.finished(ShardIndex(1), Token(11))
            await until(lambda: [hold.shard for hold in stage.api.beats[-1].holds] == [0])

    asyncio.run(scenario())


def test_stopping_ends_the_member_after_its_shards() -> None:
    async def scenario() -> None:
        async with working(ScriptedCoordinator([Granting([0])])) as stage:
            await until(lambda: bool(stage.side.orders))
            stage.member.stop()
            await until(lambda: stage.api.beats[-1].intent is Intent.LEAVE)
            assert not stage.side.over
            stage.member.finished(ShardIndex(0), Token(10))
            await until(lambda: stage.side.over)
            assert stage.member.ended

    asyncio.run(scenario())


def held(beat: Heartbeat) -> HeartbeatReply:
    """Somebody else lives under the name ``a-m0``."""
    if beat.member != "a-m0":
        return Granting([0])(beat)
    refusal = reply(Status.RETRY, heartbeat_ms=50)
    return attrs.evolve(
        refusal, member=beat.member, seq=beat.seq, retry_reason=RetryReason.NAME_HELD, retry_after_ms=Millis(20)
    )


def test_a_derived_name_gives_way_to_a_live_holder() -> None:
    async def scenario() -> None:
        async with working(ScriptedCoordinator([held])) as stage:
            await until(lambda: bool(stage.side.orders))
            assert stage.member.session.member.startswith("a-m0-")
            assert len(stage.member.session.member) == len("a-m0-") + 6

    asyncio.run(scenario())


def test_an_explicit_name_waits_for_its_holder() -> None:
    async def scenario() -> None:
        async with working(ScriptedCoordinator([held]), derived=False) as stage:
            await until(lambda: len(stage.api.beats) > 12)
            assert {beat.member for beat in stage.api.beats} == {"a-m0"}

    asyncio.run(scenario())


def test_a_refused_client_ends_with_the_reason() -> None:
    async def scenario() -> None:
        api = ScriptedCoordinator([Granting([0]), Granting([0]), InvalidRequest("memberName: is missing")])
        async with working(api) as stage:
            await until(lambda: stage.side.over)
            assert stage.member.rejection == "memberName: is missing"
            assert stage.side.orders[-1] == Drop(ShardIndex(0), Token(10))
            assert not stage.member.may_use(ShardIndex(0), Token(10))

    asyncio.run(scenario())


def test_the_child_of_a_fork_owns_nothing() -> None:
    async def scenario() -> None:
        async with working(ScriptedCoordinator([Granting([0])])) as stage:
            await until(lambda: bool(stage.side.orders))
            assert stage.member.may_use(ShardIndex(0), Token(10))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads at a fork
                child = os.fork()
            if child == 0:
                os._exit(1 if stage.member.may_use(ShardIndex(0), Token(10)) else 0)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0

    asyncio.run(scenario())
