"""``streamshard check``."""

import sys
import time
from collections.abc import Callable

import click

from streamshard.testing.exhaustive.scopes import SCOPES, Scope
from streamshard.testing.exhaustive.search import Found, explore

BROKEN = 1


@click.command()
@click.argument("scopes", metavar="[SCOPE]...", nargs=-1, type=click.Choice([scope.name for scope in SCOPES]))
@click.option("--nightly", is_flag=True, help="Also the scopes that take minutes each.")
@click.option("--list", "listing", is_flag=True, help="Name the scopes, and leave them alone.")
@click.option("--at-most", type=click.IntRange(1), help="Give up on a scope at so many states.")
def check(scopes: tuple[str, ...], *, nightly: bool, listing: bool, at_most: int | None) -> None:
    """Search every schedule of small groups: the shipped coordinator and session, step by step.

    Prints, for each scope, how many states there are and how many steps lead between them; for a breach of
    an invariant the shortest schedule that leads there.
    """
    chosen = [s for s in SCOPES if s.name in scopes or (not scopes and (nightly or not s.nightly))]
    if listing:
        for scope in chosen if scopes or nightly else SCOPES:
            click.echo(f"{scope.name:24}{scope.states:>9} states{'  nightly' if scope.nightly else ''}")
        return
    broken = [found for found in (_searched(scope, at_most) for scope in chosen) if found.breach is not None]
    if broken:
        sys.exit(BROKEN)


def _searched(scope: Scope, at_most: int | None) -> Found:
    began = time.monotonic()
    found = explore(scope, at_most, _reporter(scope))
    state = "exhausted" if found.exhausted else "NOT exhausted"
    told = f"{scope.name:24}{found.states:>9} states {found.transitions:>9} steps {time.monotonic() - began:7.1f} s"
    click.echo(f"{told}  {state}")
    if found.breach is not None:
        click.echo(f"{scope.name}: {found.breach}")
    return found


def _reporter(scope: Scope) -> Callable[[int, int], None] | None:
    if not sys.stderr.isatty():
        return None

    def report(states: int, waiting: int) -> None:
        click.echo(f"\r{scope.name:24}{states:>9} states, {waiting} to look at \r", nl=False, err=True)

    return report
