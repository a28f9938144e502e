"""The ticker: on time, after the requests that wait, and not stopped by a tick that fails."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

import attrs
import pytest

from streamshard.core.admin import Author, CreateStream, GroupSpec
from streamshard.core.chronicle import Event
from streamshard.core.ids import GroupName, Millis, StreamPrefix
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.entrypoints.settings import ServeSettings
from streamshard.entrypoints.ticker import Chronicling, Ticker, ticking
from streamshard.entrypoints.wiring import service
from streamshard.errors import StoreUnavailable
from streamshard.testing.clock import ManualClock

PERIOD = Millis(1_000)


class Recorder:
    """Notes when it was ticked; fails or takes time when told to."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.at: list[int] = []
        self.failures = 0
        self.failing: Exception = RuntimeError("the tick broke")
        self.takes = 0

    def has_ticked(self, times: int) -> bool:
        return len(self.at) >= times

    async def tick(self) -> None:
        self.at.append(self.clock.boot())
        self.clock.advance(self.takes)
        if self.failures:
            self.failures -= 1
            raise self.failing


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


async def ticked(clock: ManualClock, recorder: Recorder, times: int) -> None:
    """Let time pass until so many ticks have happened, one period after another."""
    for number in range(len(recorder.at) + 1, times + 1):
        await until(lambda: clock.next_wakeup() is not None)
        clock.advance(PERIOD)
        await until(partial(recorder.has_ticked, number))


def test_it_ticks_at_once_and_then_every_period() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        recorder = Recorder(clock)

        async with ticking(Ticker(recorder, clock, PERIOD)):
            await until(lambda: len(recorder.at) == 1)
            await ticked(clock, recorder, 4)

        assert recorder.at == [0, 1_000, 2_000, 3_000]

    asyncio.run(scenario())


def test_the_time_a_tick_takes_does_not_shift_the_next() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        recorder = Recorder(clock)
        recorder.takes = 300

        async with ticking(Ticker(recorder, clock, PERIOD)):
            await until(lambda: clock.next_wakeup() == 1_000)
            clock.advance(700)
            await until(lambda: clock.next_wakeup() == 2_000)

        assert recorder.at == [0, 1_000]

    asyncio.run(scenario())


def test_after_a_pause_it_ticks_once_and_says_how_late_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        recorder = Recorder(clock)
        ticker = Ticker(recorder, clock, PERIOD)

        async with ticking(ticker):
            await until(lambda: clock.next_wakeup() == 1_000)
            clock.advance(61_000)
            await until(lambda: clock.next_wakeup() == 62_000)

        assert ticker.lateness_ms == 60_000
        assert recorder.at == [0, 61_000]

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert [r.getMessage() for r in caplog.records] == [
        "the tick is 60000 ms late: the process or its machine was held up"
    ]


def test_a_tick_that_fails_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        recorder = Recorder(clock)
        recorder.failures = 2

        async with ticking(Ticker(recorder, clock, PERIOD)):
            await until(lambda: len(recorder.at) == 1)
            await ticked(clock, recorder, 4)

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    assert [r.getMessage() for r in caplog.records] == [
        "a tick failed; the next one tries again",
        "ticks work again after 2 that failed",
    ]


def test_a_store_that_is_away_is_told_of_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        recorder = Recorder(clock)
        recorder.failures, recorder.failing = 1, StoreUnavailable("the store is away")

        async with ticking(Ticker(recorder, clock, PERIOD)):
            await until(lambda: len(recorder.at) == 1)

    asyncio.run(scenario())
    assert [(r.levelname, r.getMessage(), r.exc_info) for r in caplog.records] == [
        ("WARNING", "a tick failed; the next one tries again: the store is away", None)
    ]


def test_a_stop_ends_the_wait_at_once() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        recorder = Recorder(clock)

        async with asyncio.timeout(5), ticking(Ticker(recorder, clock, PERIOD)):
            await until(lambda: clock.next_wakeup() is not None)

        assert recorder.at == [0]

    asyncio.run(scenario())


def test_requests_that_are_here_are_answered_before_the_tick() -> None:
    async def scenario() -> None:
        clock, traffic = ManualClock(), Traffic()
        recorder = Recorder(clock)
        earlier, other = traffic.enter(), traffic.enter()

        async with ticking(Ticker(recorder, clock, PERIOD, traffic.let_pass)):
            for _ in range(20):
                await asyncio.sleep(0)
            before = list(recorder.at)
            later = traffic.enter()
            traffic.leave(other)
            traffic.leave(earlier)
            await until(lambda: len(recorder.at) == 1)
            traffic.leave(later)

        assert before == []

    asyncio.run(scenario())


def test_a_request_that_hangs_does_not_hold_the_tick_up_for_ever() -> None:
    async def scenario() -> None:
        traffic = Traffic()
        ticket = traffic.enter()

        async with asyncio.timeout(5):
            await traffic.let_pass(0.01)
        traffic.leave(ticket)

    asyncio.run(scenario())


def test_every_change_is_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with service(ServeSettings(store="memory:", redis="memory:")) as built:
            await built.coordinator.create_stream(
                CreateStream(StreamPrefix("orders"), Author("ops"), 2, (GroupSpec(GroupName("billing")),))
            )
            await Chronicling(built.coordinator).tick()
            await Chronicling(built.coordinator).tick()

    with caplog.at_level(logging.INFO, "streamshard.entrypoints.ticker"):
        asyncio.run(scenario())
    assert [r.getMessage() for r in caplog.records] == [
        "stream-creating orders: 2 shards",
        "group-created orders/billing: 2 shards",
        "stream-active orders: 2 shards",
    ]


@attrs.frozen
class Told:
    """A coordinator that has changed something."""

    events: tuple[Event, ...]

    async def tick(self) -> None:
        """Nothing more."""

    def drain_events(self) -> tuple[Event, ...]:
        return self.events


def test_what_somebody_may_have_to_do_something_about_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    kinds = ("granted", "quarantine", "frozen", "unread", "read-again", "quarantine-over")
    told = Told(tuple(Event(kind, StreamPrefix("orders"), "why") for kind in kinds))

    with caplog.at_level(logging.INFO, "streamshard.entrypoints.ticker"):
        asyncio.run(Chronicling(told).tick())

    assert [r.levelname for r in caplog.records] == ["INFO", "WARNING", "WARNING", "WARNING", "INFO", "INFO"]
