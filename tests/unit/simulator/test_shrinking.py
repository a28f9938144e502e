"""A broken rule is noticed by some seed, and what is left of that run as a test breaks it again."""

import pytest

from streamshard.testing.simulator import Outcome, replay, simulate
from streamshard.testing.simulator.shrinking import as_test, shrink
from tests.unit.cluster import mutants

FOUND_BY = [
    (mutants.members_expire_early, "swizzle", "I2"),
    (mutants.what_drains_is_not_listed, "churn", "I2"),
    (mutants.fences_are_never_raised, "scale-storm", "I1b"),
    (mutants.a_seal_looks_at_nothing, "scale-storm", "I5"),
    (mutants.an_append_makes_the_key, "failover-storm", "I6"),
    (mutants.what_is_pending_is_trimmed, "swizzle", "I11"),
]
FEW = 40


def found(profile: str) -> Outcome:
    runs = (simulate(seed, profile) for seed in range(12))
    return next(run for run in runs if run.failure is not None)


@pytest.mark.parametrize(("mutation", "profile", "invariant"), FOUND_BY, ids=lambda case: getattr(case, "__name__", ""))
def test_a_seed_notices_that(
    mutation: mutants.Mutation, profile: str, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)

    assert found(profile).invariant == invariant


def test_a_failure_is_made_a_short_test_that_fails_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    mutants.members_expire_early(monkeypatch)
    failed = found("swizzle")

    smallest = shrink(failed, most=150)
    namespace: dict[str, object] = {}
    exec(as_test(smallest), namespace)

    (test,) = [value for name, value in namespace.items() if name.startswith("test_")]
    assert (smallest.invariant, len(smallest.choices) < FEW) == (failed.invariant, True)
    with pytest.raises(AssertionError):
        test()  # type: ignore[operator]
    monkeypatch.undo()
    assert replay(smallest.choices).failure is None
