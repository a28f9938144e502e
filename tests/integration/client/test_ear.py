"""Watches are asked one after the other, and never often."""

import asyncio

import attrs
import pytest

from streamshard.adapters.client.ear import Ear
from streamshard.adapters.client.scripted import WatchedScript
from streamshard.core.ids import LayoutVersion, Lineage
from streamshard.core.notices import LayoutWatch
from streamshard.core.replies import News
from streamshard.errors import (
    CoordinatorUnreachable,
    GroupNotFound,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
    StreamNotFound,
    StreamshardError,
)
from streamshard.testing.clock import ManualClock, SeededEntropy
from tests.integration.client.script import ORDERS

WATCH = LayoutWatch(ORDERS.prefix, LayoutVersion(1))
NEWS = News(True, Lineage("a"), LayoutVersion(2), 7)
NOTHING = attrs.evolve(NEWS, changed=False)
AWAY = CoordinatorUnreachable("nobody answered")


class Timed(WatchedScript):
    """Notes when it was asked; an answer takes ``takes_ms``."""

    def __init__(self, clock: ManualClock, takes_ms: int) -> None:
        super().__init__()
        self._clock = clock
        self._takes_ms = takes_ms
        self.asked_at: list[int] = []

    async def watch(self, *asked: object) -> News:
        self.asked_at.append(self._clock.boot())
        self._clock.advance(self._takes_ms)
        return await super().watch(*asked)  # type: ignore[arg-type]


async def pass_time(clock: ManualClock) -> None:
    """Nobody sleeps longer than it takes to say so."""
    while True:
        wakeup = clock.next_wakeup()
        clock.advance(0 if wakeup is None else max(0, wakeup - clock.boot()))
        await asyncio.sleep(0)


def pauses(*answers: News | StreamshardError, takes_ms: int = 0) -> list[int]:
    """The milliseconds from the end of each answer to the next question; and what was heard is what was told."""

    async def scenario() -> list[int]:
        clock = ManualClock()
        api = Timed(clock, takes_ms)
        ear = Ear(api, clock, SeededEntropy())
        passing = asyncio.ensure_future(pass_time(clock))
        api.tell(*answers, NEWS)
        heard = [await ear.hear(WATCH) for _ in range(len(answers) + 1)]
        assert heard == [None if isinstance(each, StreamshardError) else each for each in (*answers, NEWS)]
        passing.cancel()
        return [later - earlier - takes_ms for earlier, later in zip(api.asked_at, api.asked_at[1:], strict=False)]

    return asyncio.run(scenario())


def test_a_coordinator_that_always_has_news_is_asked_twenty_times_a_second() -> None:
    assert pauses(NEWS, NEWS, NEWS) == [50, 50, 50]


def test_a_watch_that_was_held_is_followed_by_the_next_at_once() -> None:
    assert pauses(NOTHING, NEWS, NOTHING, takes_ms=25_000) == [0, 0, 0]


def test_one_that_is_cut_short_again_and_again_is_asked_ever_more_rarely() -> None:
    waited = pauses(*[NOTHING] * 12)

    assert 250 <= waited[0] <= 750
    assert all(15_000 <= pause <= 45_000 for pause in waited[8:])


@pytest.mark.parametrize("error", [AWAY, StoreUnavailable("the disk is full")])
def test_trouble_is_waited_out_ever_longer(error: StreamshardError) -> None:
    waited = pauses(*[error] * 12)

    assert 250 <= waited[0] <= 750
    assert all(15_000 <= pause <= 45_000 for pause in waited[8:])


def test_a_good_answer_ends_the_trouble() -> None:
    assert pauses(*[AWAY] * 5, NEWS, AWAY)[-1] <= 750


@pytest.mark.parametrize("error", [StreamNotFound("no stream"), GroupNotFound("no group")])
def test_what_is_not_there_yet_is_asked_for_every_few_seconds(error: StreamshardError) -> None:
    assert pauses(error, error) == [3_000, 3_000]


@pytest.mark.parametrize("error", [NotFound("no such path"), InvalidRequest("waitMs"), StreamshardError("405")])
def test_a_coordinator_that_knows_no_watches_is_left_alone_for_a_minute(error: StreamshardError) -> None:
    assert pauses(error, error) == [60_000, 60_000]
