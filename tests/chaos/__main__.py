"""Run chaos from the command line: ``python -m tests.chaos --seconds 100 --seed 1 --setting sqlite``."""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.actors import clock_library
from tests.chaos.nemeses import nemeses_of
from tests.chaos.plan import SETTINGS, Plan
from tests.chaos.run import Result, play
from tests.chaos.stage import ChaosFailed

SHOWN = 10


def main() -> int:
    """0: everything holds and it was a real test."""
    given = _arguments()
    plans = [
        Plan(
            setting=setting,
            seconds=given.seconds,
            seed=given.seed,
            consumers=given.consumers,
            producers=given.producers,
            coordinators=given.coordinators,
            rate=given.rate,
            longest_stop=given.longest_stop,
            at_once=given.at_once,
            rounds=given.rounds,
            nemeses=tuple(given.nemesis or ()),
        )
        for setting in given.setting or SETTINGS
    ]
    return max(_play(plan) for plan in plans)


def _arguments() -> argparse.Namespace:
    asked = argparse.ArgumentParser(prog="python -m tests.chaos", description="Hurt real processes, and judge.")
    asked.add_argument("--seconds", type=float, default=Plan.seconds, help="of chaos, in each setting")
    asked.add_argument("--seed", type=int, default=int(time.time()))
    asked.add_argument("--setting", action="append", choices=SETTINGS, help="default: one after another")
    asked.add_argument("--nemesis", action="append", metavar="NAME", help="default: all that the setting has")
    asked.add_argument("--rounds", type=int, default=3, help="how often each nemesis has to come")
    asked.add_argument("--consumers", type=int, default=4)
    asked.add_argument("--producers", type=int, default=2)
    asked.add_argument("--coordinators", type=int, default=2)
    asked.add_argument("--rate", type=int, default=400, help="records a second of each producer")
    asked.add_argument("--at-once", type=int, default=3, help="how many nemeses work at the same time at most")
    asked.add_argument("--longest-stop", type=float, default=10.0, help="seconds that a process stands still at most")
    return asked.parse_args()


def _play(plan: Plan) -> int:
    folder = Path(tempfile.mkdtemp(prefix=f"streamshard-chaos-{plan.setting}-"))
    repro = f"python -m tests.chaos --setting {plan.setting} --seconds {plan.seconds:g} --seed {plan.seed}"
    try:
        result = play(plan, folder)
    except ChaosFailed as failed:
        print(f"FAILED: {failed}\nREPRO: {repro}\nleft in {folder}")
        return 1
    print(report(plan, result))
    if not result.ok:
        print(f"REPRO: {repro}\nleft in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def report(plan: Plan, result: Result) -> str:
    """The figures of a run, and what is wrong."""
    nemeses = plan.nemeses or tuple(nemeses_of(plan.setting))
    lines = [f"chaos on {plan.setting}, seed {plan.seed}: {plan.seconds:g} s, {len(nemeses)} nemeses"]
    if clock_library() is None:
        lines.append("  left out: clock-jump, as there is no libfaketime on this machine: apt-get install faketime")
    lines += [f"  {name}: {figure}" for name, figure in result.figures.items()]
    for check in result.checks:
        lines.append(f"  {'ok  ' if check.ok else 'WRONG'} {check.name}: {check.told}")
        lines += [f"        {line}" for line in check.wrong[:SHOWN]]
    lines += [f"  VOID: {why}" for why in result.void]
    return "\n".join([*lines, "holds" if result.ok else "DOES NOT HOLD"])


if __name__ == "__main__":
    sys.exit(main())
