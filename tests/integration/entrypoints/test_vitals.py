"""What a coordinator says of the servers it depends on: once when one is gone, once when it is back."""

import asyncio
import logging

import pytest

from streamshard.core.queries import Health
from streamshard.entrypoints.vitals import PERIOD_MS, Vitals, watched
from streamshard.testing.clock import ManualClock

PLACES = {"Redis": "redis://127.0.0.1:6379", "the metadata store": "sqlite:///meta.db"}


class Patient:
    """Is as healthy as it is told to be."""

    def __init__(self) -> None:
        self.redis = "UP"
        self.store = "UP"
        self.looks = 0

    async def health(self) -> Health:
        self.looks += 1
        return Health(coordinator_id="c", store=self.store, redis=self.redis, loop="UP")


def test_each_change_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    patient = Patient()
    vitals = Vitals(patient, ManualClock(), PLACES)

    async def scenario() -> None:
        down = ("DOWN", "DOWN")
        for redis, store in [("UP", "UP"), ("DOWN", "UP"), down, down, ("UP", "READ_ONLY"), ("UP", "UP")]:
            patient.redis, patient.store = redis, store
            await vitals.look()

    with caplog.at_level(logging.INFO, logger="streamshard.entrypoints.vitals"):
        asyncio.run(scenario())

    consequence = "nothing can be created, granted or scaled until it does"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"Redis does not answer at redis://127.0.0.1:6379: {consequence}"),
        ("WARNING", f"the metadata store does not answer at sqlite:///meta.db: {consequence}"),
        ("INFO", "Redis answers again at redis://127.0.0.1:6379"),
        (
            "WARNING",
            "the metadata store takes no writes at sqlite:///meta.db: "
            "nothing can be created, granted, renewed or scaled until it does",
        ),
        ("INFO", "the metadata store answers again at sqlite:///meta.db"),
    ]


def test_nodes_of_a_cluster_that_are_away_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    patient = Patient()
    vitals = Vitals(patient, ManualClock(), {**PLACES, "Redis": "redis+cluster://one:1"})

    async def scenario() -> None:
        for patient.redis in ("PARTLY_DOWN", "PARTLY_DOWN", "UP"):
            await vitals.look()

    with caplog.at_level(logging.INFO, logger="streamshard.entrypoints.vitals"):
        asyncio.run(scenario())

    consequence = "nothing can be created, granted or scaled on them"
    assert [record.getMessage() for record in caplog.records] == [
        f"Redis at redis+cluster://one:1 has nodes that do not answer: {consequence}",
        "Redis answers again at redis+cluster://one:1",
    ]


def test_it_looks_at_once_and_then_every_period_until_the_body_ends() -> None:
    patient, clock = Patient(), ManualClock()

    async def scenario() -> int:
        async with watched(Vitals(patient, clock, PLACES)):
            async with asyncio.timeout(5):
                while clock.next_wakeup() is None:
                    await asyncio.sleep(0)
                clock.advance(PERIOD_MS)
                while patient.looks == 1:
                    await asyncio.sleep(0)
        return patient.looks

    assert asyncio.run(scenario()) == 2
