"""A run is decided by its seed and by nothing else."""

import os
import subprocess
import sys

import pytest

from streamshard.testing.simulator import PROFILES, replay, simulate

RUNS = [(7, "everything"), (3, "churn"), (5, "failover-storm")]
PROGRAM = """
import sys
from streamshard.testing.simulator import simulate
for run in sys.argv[1:]:
    seed, profile = run.split(",")
    print(simulate(int(seed), profile).digest)
"""


def digests(hash_seed: str) -> list[str]:
    runs = [f"{seed},{profile}" for seed, profile in RUNS]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *runs], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split()


def test_the_same_seed_is_the_same_history_whatever_the_order_of_sets() -> None:
    first, second = digests("0"), digests("1")

    assert first == second
    assert len(set(first)) == len(RUNS)


@pytest.mark.parametrize("profile", PROFILES)
def test_what_was_chosen_says_everything(profile: str) -> None:
    outcome = simulate(11, profile)

    again = replay(outcome.choices)

    assert (again.digest, again.events, again.failure) == (outcome.digest, outcome.events, outcome.failure)


def test_another_seed_is_another_history() -> None:
    assert simulate(1, "lossy").digest != simulate(2, "lossy").digest
