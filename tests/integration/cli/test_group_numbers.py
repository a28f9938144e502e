"""What ``groups describe`` makes of numbers that are known, and of those that are not."""

import pytest

from streamshard.entrypoints.cli import groups


def shard(lag: int | None = 0, pending: int | None = 0, age: float | None = 0.0) -> dict[str, object]:
    return {"lag": lag, "pendingCount": pending, "oldestUnackedAgeSeconds": age}


def test_a_total_that_is_known_is_a_number_and_else_a_lower_bound_or_unknown() -> None:
    totals = [groups.total(found, "lag") for found in ([shard(2), shard(3)], [shard(2), shard(None)], [shard(None)])]

    assert totals == ["5", ">= 2 (1 unknown)", "?"]
    assert groups.total([], "lag") == "0"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0.0, "0s"), (0.04, "0.0s"), (2.13, "2.1s"), (61.0, "1m1s"), (7_260.0, "2h1m")],
)
def test_an_age_is_told_in_two_units_at_most(seconds: float | None, text: str) -> None:
    assert groups.age(seconds) == text


def test_the_oldest_is_unknown_if_any_age_is() -> None:
    assert groups.oldest([shard(age=1.0), shard(age=None)]) is None
    assert groups.oldest([shard(age=1.0), shard(age=3.0)]) == 3.0
    assert groups.oldest([]) == 0
