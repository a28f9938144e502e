"""Every target, or those that are named, one after the other: ``python -m tests.fuzz [--seconds N] [TARGET...]``."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS


def main() -> int:
    """1 if one of them failed."""
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    asked.add_argument("--seconds", type=int, default=30, help="for each target")
    asked.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    given = asked.parse_args()
    failed = [name for name in given.targets or TARGETS if not _clean(name, given.seconds)]
    for name in failed:
        print(f"REPRO: python -m tests.fuzz {name}  # the input is in tests/fuzz/corpus/{name}.txt", file=sys.stderr)
    return 1 if failed else 0


def _clean(name: str, seconds: int) -> bool:
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as folder:
        command = [sys.executable, "-m", "tests.fuzz.dig", name, str(seconds), folder]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        found = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    told = [line for line in ended.stderr.splitlines() if "inputs, none" in line or "number_of_executed_units" in line]
    print(f"{name:22} {'ok' if ended.returncode == 0 else 'FAILED'}  {' '.join(told)}", flush=True)
    if ended.returncode:
        print(ended.stdout[-3_000:], ended.stderr[-3_000:], file=sys.stderr)
        return False
    corpus.grow(name, found)
    return True


if __name__ == "__main__":
    sys.exit(main())
