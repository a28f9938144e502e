"""Does what a page says, in an empty directory, on real servers."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.integration.docs.pages import ROOT, Block

LISTENS = re.compile(r"listens on http://(\S+)")
CURL = Path(__file__).with_name("curl.py")
COORDINATOR = "127.0.0.1:8080"
REDIS = "127.0.0.1:6379"
PATIENCE_S = 60.0
SHORT = {"LEASE": "3s", "HEARTBEAT": "500ms", "TICK": "200ms", "ROUTING_LEASE": "1s"}
"""So that nobody waits for the minute that a page speaks of."""


class Walkthrough:
    """One page's reader; use it as a context manager, at whose end nothing runs any more."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self._folder = folder
        self._places = {REDIS: redis_url.removeprefix("redis://").removesuffix("/0")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._printed = ""
        self._last: Block | None = None
        self._tools = folder / ".tools"
        self._tools.mkdir()
        curl = self._tools / "curl"
        curl.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{CURL}" "$@"\n')
        curl.chmod(0o755)

    def __enter__(self) -> "Walkthrough":
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._running.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def follow(self, block: Block) -> None:
        """Do what the block is for; fails where the page is wrong."""
        steps: dict[str, Callable[[Block], None]] = {
            "file": self._write,
            "run": self._run,
            "watch": self._remember,
            "start": self._start,
            "stop": self._stop,
            "output": self._compare,
            "from": self._find,
        }
        steps[block.job](block)

    def _write(self, block: Block) -> None:
        (self._folder / block.name).write_text(self._placed(block.body))

    def _find(self, block: Block) -> None:
        assert block.body in (ROOT / block.name).read_text(), f"{block.name} does not contain\n{block.body}"

    def _run(self, block: Block) -> None:
        done = self._call(block)
        assert done.returncode == 0, f"{block.body}\nended with {done.returncode}:\n{done.stdout}{done.stderr}"
        self._printed, self._last = done.stdout, None

    def _remember(self, block: Block) -> None:
        self._last = block

    def _start(self, block: Block) -> None:
        with self._log(block.name).open("wb") as log:
            self._running[block.name] = subprocess.Popen(
                ["sh", "-c", "exec " + self._placed(block.body)],
                cwd=self._folder, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        if "streamshard serve" in block.body:
            self._places[COORDINATOR] = self._address(block.name)

    def _stop(self, block: Block) -> None:
        process = self._running.pop(block.name)
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert code == 0, f"{block.name} ended with {code}:\n{self._log(block.name).read_text()}"

    def _compare(self, block: Block) -> None:
        if block.name:
            self._until(lambda: says_all(self._log(block.name).read_text(), block.body), block.body)
        elif self._last is not None:
            self._until(lambda: is_like(self._again(), block.body), block.body)
        else:
            assert is_like(self._printed, block.body), f"expected\n{block.body}\nbut it printed\n{self._printed}"

    def _again(self) -> str:
        assert self._last is not None
        done = self._call(self._last)
        self._printed = done.stdout + done.stderr
        return self._printed

    def _until(self, true: Callable[[], bool], expected: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"expected\n{expected}\nbut there is\n{self._everything()}"
            time.sleep(0.2)

    def _everything(self) -> str:
        logs = [f"{name}:\n{self._log(name).read_text()}" for name in self._running]
        return "\n".join([self._printed, *logs])

    def _call(self, block: Block) -> subprocess.CompletedProcess[str]:
        words = ["sh", "-euc"] if block.language == "sh" else [sys.executable, "-W", "error", "-c"]
        return subprocess.run(
            [*words, self._placed(block.body)],
            cwd=self._folder, env=self._environment(), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def _address(self, name: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while (found := LISTENS.search(self._log(name).read_text())) is None:
            assert time.monotonic() < deadline, f"the coordinator did not start:\n{self._log(name).read_text()}"
            time.sleep(0.05)
        return found[1]

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _placed(self, text: str) -> str:
        for written, real in self._places.items():
            text = text.replace(written, real)
        return text

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSHARD_")}
        kept["PATH"] = os.pathsep.join((str(self._tools), str(Path(sys.executable).parent), kept.get("PATH", "")))
        ours = {"PORT": "0", "LOG_FORMAT": "text", "REDIS": f"redis://{self._places[REDIS]}", **SHORT}
        if COORDINATOR in self._places:
            ours["URL"] = f"http://{self._places[COORDINATOR]}"
        return {**kept, **{f"STREAMSHARD_{name}": value for name, value in ours.items()}}


def is_like(printed: str, expected: str) -> bool:
    """Line by line the same but for spaces; ``…`` is anything, alone on a line any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else _pattern(line) + r"\n" for line in _lines(expected))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed))) is not None


def says_all(printed: str, expected: str) -> bool:
    """Every expected line was printed, in whatever order and between whatever else."""
    said = _lines(printed)
    return all(any(re.fullmatch(_pattern(line), spoken) for spoken in said) for line in _lines(expected))


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("…"))
