"""What members tell of their reading, and what is said of an event loop that does not turn."""

import asyncio
import logging
import time
from pathlib import Path

import attrs
import httpx
import pytest

from streamshard import Message, StreamApp
from streamshard.adapters.client.noise import Grumble
from streamshard.adapters.client.pulse import Pulse
from streamshard.adapters.client.reports import Unbegun, rounded, rounded_lateness, told
from streamshard.adapters.client.status import ShardStatus
from streamshard.core.group import ShardProgress
from streamshard.core.ids import Instant, Millis, ShardIndex, Token
from streamshard.core.session import Held, Use
from streamshard.testing.clock import ManualClock
from tests.integration.cli.processes import serving
from tests.integration.client.script import FIRST_GENERATION, app_over, memory_streams, until

S0, S1 = ShardIndex(0), ShardIndex(1)
OPTIONS = ("--lease", "2s", "--heartbeat", "400ms", "--tick", "100ms")


def held(token: int = 1, use: Use = Use.READING) -> Held:
    return Held(Token(token), FIRST_GENERATION, Instant(9), use)


@pytest.mark.parametrize(("age", "expected"), [(0, 0), (1_999, 0), (2_000, 2_000), (7_654, 7_000)])
def test_ages_are_whole_seconds_and_an_idle_reader_says_the_same_again(age: int, expected: int) -> None:
    assert rounded(Millis(age)) == expected


def test_lateness_is_told_in_tenths_of_a_second() -> None:
    assert [rounded_lateness(Millis(late)) for late in (0, 99, 100, 250)] == [0, 0, 100, 200]


@pytest.mark.parametrize(("handling", "expected"), [(None, None), (900, None), (3_500, 3_000)])
def test_a_shard_tells_when_it_was_read_and_how_long_its_handler_runs(
    handling: int | None, expected: int | None
) -> None:
    progress = ShardProgress(S0, pending=4)
    status = ShardStatus(Token(1), progress, Millis(5_100), None if handling is None else Millis(handling))

    found = told(status)

    assert (found.read_ago, found.handling_for) == (5_000, expected)
    assert attrs.evolve(found, read_ago=None, handling_for=None) == progress


def test_a_shard_that_is_held_and_not_begun_is_told_from_when_it_was_first_seen() -> None:
    unbegun, reading = Unbegun(), (ShardProgress(S0, read_ago=Millis(0)),)
    both = {S0: held(), S1: held()}

    unbegun.beside(reading, both, Instant(1_000))
    found = unbegun.beside(reading, both, Instant(6_500))

    assert found == (*reading, ShardProgress(S1, read_ago=Millis(5_000)))


def test_a_shard_that_was_begun_or_granted_anew_or_drains_is_not_held_for_long() -> None:
    unbegun = Unbegun()
    unbegun.beside((), {S0: held()}, Instant(0))

    anew = unbegun.beside((), {S0: held(2)}, Instant(9_000))
    draining = unbegun.beside((), {S0: held(2, Use.DRAINING)}, Instant(18_000))

    assert (anew, draining) == ((ShardProgress(S0, read_ago=Millis(0)),), ())


def test_members_tell_when_they_read_and_say_at_the_start_who_they_are(caplog: pytest.LogCaptureFixture) -> None:
    world = memory_streams(1)

    async def scenario() -> str:
        app, api = app_over(world, 0)

        @app.listener("orders", group="billing", member_id="web")
        async def handle(message: Message) -> None:
            raise AssertionError("there is nothing to handle")

        async with app:
            await until(lambda: bool(api.beats and api.beats[-1].progress))
            (row,) = api.beats[-1].progress
            assert (row.read_ago, row.handling_for) == (0, None)
            assert api.beats[-1].late is not None
            return str(app.members[0].session.instance)

    with caplog.at_level(logging.INFO, "streamshard.adapters.client.member"):
        instance = asyncio.run(scenario())
    assert f"member web-m0 of orders/billing, instance {instance}" in caplog.messages


class Handle(logging.Handler):
    """Keeps what was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def test_a_loop_that_does_not_turn_is_warned_of_once_and_said_to_turn_again() -> None:
    clock, kept = ManualClock(), Handle()
    logger = logging.Logger("pulse", logging.INFO)
    logger.addHandler(kept)

    async def scenario() -> None:
        pulse = Pulse(asyncio.get_running_loop(), clock, Grumble(logger, clock))
        for _ in range(4):  # nothing is awaited in between: the loop can't turn
            pulse.feel(Millis(5_000))
            clock.advance(3_000)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        pulse.feel(Millis(5_000))

    asyncio.run(scenario())

    assert [said.split(",")[0] for said in kept.said] == [
        "the event loop has not turned for 6.0 s",
        "the event loop turns again",
    ]


def test_a_loop_that_is_closed_has_no_pulse() -> None:
    clock = ManualClock()
    loop = asyncio.new_event_loop()
    loop.close()

    Pulse(loop, clock, Grumble(logging.getLogger("pulse"), clock)).feel(Millis(5_000))


def test_a_handler_that_stops_the_event_loop_is_seen_by_everybody(
    redis_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Heartbeats go on, so no lease ever ends: the shard beside it would silently not be read."""
    seen: list[int] = []

    async def scenario(url: str) -> None:
        app = StreamApp(url, redis_url)
        group = f"{url}/coord/v1/streams/orders/groups/billing"

        def unread() -> list[int]:
            found = httpx.get(group, trust_env=False).json()["unreadShards"]
            return [shard["shardIndex"] for shard in found]

        def warned() -> bool:
            return any("event loop has not turned" in line for line in caplog.messages)

        @app.listener("orders", group="billing", ack="on_success")
        async def handle(message: Message) -> None:
            deadline = time.monotonic() + 20
            while not (unread() and warned()) and time.monotonic() < deadline:
                time.sleep(0.1)
            seen.extend([message.shard, *unread()])

        orders = app.producer("orders", "billing")
        async with app:
            await until(lambda: len(app.members[0].session.running) == 2)
            await orders.publish("a", {"n": 1})
            await until(lambda: bool(seen))
            async with asyncio.timeout(20):
                while await asyncio.to_thread(unread):
                    await asyncio.sleep(0.1)

    with serving("--redis", redis_url, "--store", f"sqlite:///{tmp_path / 'meta.db'}", *OPTIONS) as served:
        body = {"requestedBy": "test", "initialShardCount": 2}
        httpx.post(f"{served.url}/coord/v1/streams/orders/groups/billing", json=body, trust_env=False)
        asyncio.run(scenario(served.url))
    assert sorted(seen) == [0, 1]
