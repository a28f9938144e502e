"""``streamshard simulate``."""

import itertools
import random
import time
from collections.abc import Iterator
from importlib.metadata import version as installed
from pathlib import Path

import click

from streamshard.entrypoints.cli.failures import ExitCode
from streamshard.testing.simulator.profiles import PROFILES
from streamshard.testing.simulator.reporting import NAMES_OF_FAULTS, Tally, figures, repro, tally
from streamshard.testing.simulator.running import Outcome
from streamshard.testing.simulator.running import simulate as run
from streamshard.testing.simulator.shrinking import as_test, shrink

ALL = "all"
MOST_SEED = 2**31


def _range(context: click.Context, option: click.Parameter, text: str | None) -> range | None:
    if text is None:
        return None
    first, dots, last = text.partition("..")
    if not (dots and first.isdigit() and last.isdigit() and int(first) <= int(last)):
        raise click.BadParameter(f"{text!r} is not two numbers like 0..99", context, option)
    return range(int(first), int(last) + 1)


@click.command()
@click.option("--seed", type=int, help="One run, all of it decided by this number.")
@click.option("--seeds", metavar="A..B", callback=_range, help="One run for each of these numbers.")
@click.option("--minutes", type=float, help="Runs with new seeds until so much time is over.")
@click.option("--profile", default=ALL, help="Which faults: one of the profiles, or all of them in turn.")
@click.option("--shrink", "shrink_for", type=float, default=60.0, help="Seconds to make a failure smaller; 0: don't.")
@click.option("--save", type=click.Path(file_okay=False, path_type=Path), help="A directory for the failures' tests.")
@click.option("--report", is_flag=True, help="Also say how often each kind of fault happened.")
def simulate(  # noqa: PLR0913, PLR0917
    seed: int | None,
    seeds: range | None,
    minutes: float | None,
    profile: str,
    shrink_for: float,
    save: Path | None,
    *,
    report: bool,
) -> None:
    """Play whole clusters through faults, in one thread and on made-up time, and judge every step."""
    if profile not in (*PROFILES, ALL):
        raise click.BadParameter(f"choose one of {ALL}, {', '.join(PROFILES)}", param_hint="--profile")
    total = Tally()
    for outcome in tally(total, _runs(seed, seeds, minutes, profile), run):
        if outcome.failure is not None:
            _tell(outcome, shrink_for, save)
        elif seed is not None and minutes is None:
            click.echo(f"seed {seed}  {outcome.profile:<15} {outcome.digest[:16]}  {outcome.events:,} events")
    _sum_up(total, report=report)
    raise SystemExit(ExitCode.ERROR if total.failed or total.void else 0)


def _runs(seed: int | None, seeds: range | None, minutes: float | None, profile: str) -> Iterator[tuple[int, str]]:
    names = list(PROFILES) if profile == ALL else [profile]
    if minutes is not None:
        until, chance = time.monotonic() + 60 * minutes, random.Random(seed)
        for name in itertools.cycle(names):
            if time.monotonic() >= until:
                return
            yield chance.randrange(MOST_SEED), name
    chosen = seeds if seeds is not None else [seed if seed is not None else random.randrange(MOST_SEED)]
    yield from ((number, name) for number in chosen for name in names)


def _tell(outcome: Outcome, shrink_for: float, save: Path | None) -> None:
    click.echo(repro(outcome, f"streamshard {installed('streamshard')}"))
    click.echo(f"  {outcome.failure}")
    if not shrink_for:
        return
    smallest = shrink(outcome, shrink_for)
    text = as_test(smallest)
    if save is None:
        click.echo(text)
        return
    save.mkdir(parents=True, exist_ok=True)
    path = save / f"test_seed_{outcome.seed}_{outcome.profile.replace('-', '_')}.py"
    path.write_text(text, encoding="utf-8")
    click.echo(f"  {len(outcome.choices)} choices made {len(smallest.choices)}: {path}")


def _sum_up(total: Tally, *, report: bool) -> None:
    for name, value in figures(total).items():
        click.echo(f"{name:<32} {value}")
    if report:
        for name in NAMES_OF_FAULTS:
            click.echo(f"  {name:<30} {total.faults[name]:,}")
    for void in total.void:
        click.echo(f"void: {void}")
