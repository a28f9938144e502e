"""Small worlds, searched to their end; which broken rules that notices is in `tests.mutants`.

All scopes, with those that take minutes each: ``STREAMSHARD_FULL=1`` or ``streamshard check --nightly``.
"""

import os

import pytest

from streamshard.testing.exhaustive.scopes import SCOPES, Scope, named
from streamshard.testing.exhaustive.search import explore
from tests.unit.cluster import mutants

ALIKE = 0.2
"""By so much a count may differ from the one on record; more, and something can or can't happen any more."""

FULL = bool(os.environ.get("STREAMSHARD_FULL"))
SEARCHED = [scope for scope in SCOPES if FULL or not scope.nightly]


@pytest.mark.parametrize("scope", SEARCHED, ids=lambda scope: scope.name)
def test_no_schedule_breaks_an_invariant(scope: Scope) -> None:
    found = explore(scope)

    assert found.breach is None, str(found.breach)
    assert found.exhausted
    assert abs(found.states - scope.states) <= ALIKE * scope.states


def test_a_search_may_be_given_up() -> None:
    found = explore(named("2x1"), at_most=100)

    assert not found.exhausted
    assert 100 <= found.states < 200


def test_a_breach_tells_the_way_there(monkeypatch: pytest.MonkeyPatch) -> None:
    mutants.a_lease_begins_when_the_answer_comes(monkeypatch)

    breach = explore(named("2x1")).breach

    assert breach is not None
    assert str(breach).splitlines()[1] == "  1. i0 beats"
    assert breach.problem.startswith("I2: shard 0 was freed while i0 may still use it")
