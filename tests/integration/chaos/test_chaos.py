"""Processes that are killed, stopped and cut off at random: nothing is lost, and no shard has two readers."""

import os
from pathlib import Path

import pytest

from tests.chaos.__main__ import report
from tests.chaos.plan import SETTINGS, Plan
from tests.chaos.run import play

FULL = bool(os.environ.get("STREAMSHARD_FULL"))
"""Everything that `make chaos` does, instead of what matters most."""

ESSENTIAL = (
    "consumer-kill",
    "consumer-stop",
    "consumer-term",
    "producer-kill",
    "coordinators-die",
    "coordinator-stop",
    "http-hold",
    "http-duplicate",
    "http-silent",
    "redis-kill",
    "redis-reset",
    "scale",
    "store-restore",
)
SHORT = Plan("sqlite", 10.0, seed=7, consumers=3, longest_stop=6.0, probes=1, rounds=1, nemeses=ESSENTIAL, timed=False)
PLANS = [Plan(setting, seed=7) for setting in SETTINGS] if FULL else [SHORT]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.setting)
def test_whatever_is_done_to_processes_nothing_is_lost_and_no_shard_has_two_readers(plan: Plan, tmp_path: Path) -> None:
    result = play(plan, tmp_path)

    print(report(plan, result))
    assert result.ok, report(plan, result)
