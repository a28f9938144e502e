"""Every mutant.

Rules are named by the invariants of the page on guarantees (I and a number), by the section of the rules that they
follow from (1 clocks, 3 state, 4.1 identity and order, 4.2 joining and leaving, 4.3 decisions, 4.4 grants, 4.5 leases,
4.6 fences, 4.7 lost writes, 4.8 commits, 4.9 shards), and by the fault of an older design (U) or the schedule (T)
that stands behind them.
"""

from tests.mutants import killed_members, killed_shards
from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (*killed_members.MUTANTS, *killed_shards.MUTANTS)


def named(name: str) -> Mutant:
    """Raise `KeyError` for one that there is not."""
    return {mutant.name: mutant for mutant in MUTANTS}[name]
