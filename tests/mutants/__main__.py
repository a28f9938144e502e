"""Break every rule once, and see that it is noticed: ``python -m tests.mutants [NAME...]``, or ``make mutants``."""

import sys
import time
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from tests.mutants.catalogue import MUTANTS, named
from tests.mutants.mutant import Mutant

COLUMNS = ("mutant", "rule", "noticed by", "seconds", "verdict")


def main(names: list[str]) -> int:
    """1 if a fault goes unnoticed."""
    chosen = [named(name) for name in names] or list(MUTANTS)
    rows = [_row(mutant) for mutant in chosen]
    survived = sum(row[-1] != "killed" for row in rows)
    _show(rows)
    print(f"{len(rows)} mutants: {len(rows) - survived} killed, {survived} survived")
    return 1 if survived else 0


def _row(mutant: Mutant) -> tuple[str, ...]:
    began = time.monotonic()
    dies = mutant.dies()
    took = time.monotonic() - began
    print(".", end="", file=sys.stderr, flush=True)
    return mutant.name, mutant.rule, str(mutant.killer), f"{took:.1f}", "killed" if dies else "SURVIVED"


def _show(rows: Iterable[tuple[str, ...]]) -> None:
    print(file=sys.stderr)
    if not sys.stdout.isatty():
        for row in (COLUMNS, *rows):
            print("  ".join(row))
        return
    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*row, style=None if row[-1] == "killed" else "bold red")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
