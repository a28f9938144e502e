"""The judges can say no: each rule broken on purpose is noticed by what is there to notice it.

With ``STREAMSHARD_FULL=1``, as in ``make mutants``, also by what needs real servers or a process of its own.
"""

import os

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.edits import DoesNotFit, Edit, found
from tests.mutants.mutant import MUTATIONS, Mutant

FULL = bool(os.environ.get("STREAMSHARD_FULL"))


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if FULL or m.killer.quick], ids=lambda mutant: mutant.name)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert mutant.dies(), f"{mutant.killer} does not notice that {mutant.name}"


def test_every_fault_has_somebody_to_notice_it() -> None:
    assert sorted(mutant.name for mutant in MUTANTS) == sorted(MUTATIONS)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_fault_still_fits_the_code_and_leaves_it_whole(name: str) -> None:
    before = found("core.session:hear").__code__

    with pytest.MonkeyPatch.context() as patch:
        MUTATIONS[name](patch)

    assert found("core.session:hear").__code__ is before


def test_a_fault_that_does_not_fit_is_an_error() -> None:
    edit = Edit("core.session:hear", "no such text", "")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(DoesNotFit):
        edit(patch)
