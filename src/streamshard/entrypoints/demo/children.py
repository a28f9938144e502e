"""The demo's processes: started, killed and ended by their own ids, and none outlives the demo."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from streamshard.adapters.streams.embedded import die_with_parent

STOP_S = 4.0
SHOWN_OF_A_LOG = 600


@attrs.frozen(eq=False)
class Child:
    """A running process, and where it writes what it has to say."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.process.poll()

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text("utf-8", "replace")[-SHOWN_OF_A_LOG:].strip()


class Children:
    """All processes of one run; start them from the main thread, with whose end the system ends them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Child] = []
        self._expected: list[Child] = []

    def start(self, name: str, module: str, arguments: Sequence[str]) -> Child:
        """Start ``python -m module``, away from the terminal's Ctrl-C."""
        path = self._folder / f"{len(self._started):02}-{name}.log"
        kept = {key: text for key, text in os.environ.items() if not key.startswith("STREAMSHARD_")}
        with path.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=kept,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        child = Child(name, process, path)
        self._started.append(child)
        return child

    def kill(self, child: Child) -> None:
        """As a crash would: SIGKILL; returns when it is dead."""
        self._expected.append(child)
        child.process.kill()
        child.process.wait()

    def dismiss(self, child: Child) -> None:
        """Ask it to end; when it does is up to it."""
        self._expected.append(child)
        child.process.send_signal(signal.SIGTERM)

    def forget(self, child: Child) -> None:
        """That it ended is known."""
        self._expected.append(child)

    def fallen(self) -> Child | None:
        """One that ended though nobody asked it to."""
        return next((c for c in self._started if c.code is not None and c not in self._expected), None)

    def end(self) -> None:
        """End all, first kindly."""
        running = [child for child in self._started if child.code is None]
        for child in running:
            child.process.terminate()
        deadline = time.monotonic() + STOP_S
        for child in running:
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
