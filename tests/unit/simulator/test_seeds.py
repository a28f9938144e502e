"""Runs that were chosen once, some of every profile: nothing is broken in them, and each was what it was meant to be.

``STREAMSHARD_SEEDS=A..B`` plays these instead.
"""

import os

import pytest

from streamshard.testing.simulator import PROFILES, simulate

PINNED = range(1, 6)
RANGE = os.environ.get("STREAMSHARD_SEEDS")


def seeds() -> range:
    if RANGE is None:
        return PINNED
    first, _, last = RANGE.partition("..")
    return range(int(first), int(last) + 1)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", seeds())
def test_nothing_is_broken_in_a_run(seed: int, profile: str) -> None:
    outcome = simulate(seed, profile)

    assert (outcome.failure, outcome.void) == (None, None), f"streamshard simulate --seed {seed} --profile {profile}"
