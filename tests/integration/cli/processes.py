"""A coordinator as a process of its own, started the way an operator would."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

COMMAND = (sys.executable, "-m", "streamshard.entrypoints.cli.main")
IN_MEMORY = ("--store", "memory:", "--redis", "memory:")
LISTENS = re.compile(r"listens on (https?://\S+)")


@attrs.frozen
class Served:
    """A running coordinator."""

    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> str:
        return self.url.rpartition(":")[2]


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSHARD_")}
    return {**kept, **more}


@contextlib.contextmanager
def serving(*arguments: str, cwd: Path | None = None, log_format: str = "text") -> Iterator[Served]:
    """``streamshard serve`` on a free port, killed at the end unless it has stopped by then."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=clean_environment(STREAMSHARD_LOG_FORMAT=log_format),
    )
    with process:
        try:
            yield Served(process, _address(process))
        finally:
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if (found := LISTENS.search(line)) is not None:
            return found[1]
    raise AssertionError(f"the coordinator did not start: {said}")


def streamshard(
    *arguments: str, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env=clean_environment(**(environment or {})),
    )


def lines(text: str) -> Sequence[str]:
    return text.splitlines()
