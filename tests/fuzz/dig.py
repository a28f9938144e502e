"""One target, fuzzed for so many seconds: by atheris, which sees what code an input reaches, or by chance alone.

    python -m tests.fuzz.dig TARGET SECONDS FOLDER

What reaches new code is left in the folder. What fails is written to the corpus, so that the next run of the tests
fails by it, too.
"""

import contextlib
import importlib
import os
import random
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from tests.fuzz import corpus


def main(target: str, seconds: int, folder: Path) -> None:
    """Exit code 0: nothing was found."""
    atheris = _atheris()
    if atheris is not None:
        _guided(atheris, target, seconds, folder)
    _by_chance(target, seconds)


def _atheris() -> ModuleType | None:
    try:
        return importlib.import_module("atheris")
    except ImportError:
        return None


def _guided(atheris: ModuleType, target: str, seconds: int, folder: Path) -> NoReturn:
    with atheris.instrument_imports(include=["streamshard"], enable_loader_override=False):
        from tests.fuzz.targets import TARGETS
    known = corpus.kept(target)
    for number, data in enumerate(known):
        (folder / f"kept-{number:03}").write_bytes(data)
    read = TARGETS[target]

    def one(data: bytes) -> None:
        try:
            read(data)
        except BaseException:
            corpus.keep(target, [*known, data])
            raise

    atheris.Setup(
        [
            target,
            str(folder),
            f"-max_total_time={seconds}",
            "-max_len=4000",
            "-rss_limit_mb=1024",
            "-print_final_stats=1",
        ],
        one,
    )
    with contextlib.suppress(SystemExit):
        atheris.Fuzz()
    os._exit(0)


def _by_chance(target: str, seconds: int) -> None:
    from tests.fuzz.targets import TARGETS

    known, read = corpus.kept(target) or [b""], TARGETS[target]
    until, count = time.monotonic() + seconds, 0
    for data in corpus.changed(known, random.Random()):
        try:
            read(data)
        except BaseException:
            corpus.keep(target, [*known, data])
            raise
        count += 1
        if not count % 256 and time.monotonic() > until:
            break
    print(f"{target}: {count} inputs, none failed", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
