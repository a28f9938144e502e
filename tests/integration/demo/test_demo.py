"""The demo as anybody would run it: real processes, about half a minute."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "streamshard", "demo")
PATIENCE_S = 150
CHECKS = (
    "nothing-lost",
    "nothing-invented",
    "duplicates",
    "in-order",
    "one-reader",
    "no-old-token",
    "outage-moved-nothing",
    "removed-are-gone",
    "nothing-waits",
    "stopped-well",
)


def test_everything_holds_and_nothing_stays_behind(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*COMMAND, "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )

    told = f"{ran.stderr}\n{ran.stdout}"
    assert ran.returncode == 0, told
    result = json.loads(ran.stdout)
    assert {check["name"]: check["ok"] for check in result["checks"]} == dict.fromkeys(CHECKS, True), told
    assert (result["ok"], result["void"], result["ledger"]) == (True, [], None)
    assert "b was killed (kill -9): its shards wait for its lease" in ran.stderr
    assert list(tmp_path.iterdir()) == []


@contextlib.contextmanager
def playing(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A demo whose consumers read."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen([*COMMAND], stdout=subprocess.PIPE, text=True, env=environment)
    with process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "takes 0" in line:
                    break
            yield process
        finally:
            process.kill()


def processes() -> dict[int, int]:
    """Every living process with its parent."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
    rows = [line.split() for line in listed.stdout.splitlines()]
    return {int(pid): int(parent) for pid, parent, state, *_ in rows if not state.startswith("Z")}


def children(pid: int) -> set[int]:
    return {child for child, parent in processes().items() if parent == pid}


def left_after(pids: set[int], seconds: float) -> set[int]:
    deadline = time.monotonic() + seconds
    while (left := pids & processes().keys()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_ends_what_it_started(how: signal.Signals, tmp_path: Path) -> None:
    with playing(tmp_path) as demo:
        started = children(demo.pid)
        demo.send_signal(how)
        code = demo.wait(timeout=30)

    assert len(started) >= 4
    assert code == 130
    assert left_after(started, 0) == set()
    assert list(tmp_path.iterdir()) == []


if sys.platform.startswith("linux"):  # elsewhere no system call ends children with their parent

    def test_a_killed_demo_leaves_no_process_behind(tmp_path: Path) -> None:
        with playing(tmp_path) as demo:
            started = children(demo.pid)
            demo.kill()

        assert len(started) >= 4
        assert left_after(started, 10) == set()
