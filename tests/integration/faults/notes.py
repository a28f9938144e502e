"""A process's own ledger: one line per thing it did, in the system's hands before the thing counts."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any, TypeAlias

Line: TypeAlias = dict[str, Any]


class Notes:
    """Lines of JSON, each with its kind and the host's monotonic time; from any thread, and after a fork."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()

    def note(self, kind: str, **facts: object) -> None:
        """Append one line."""
        row = {"kind": kind, "at": time.monotonic(), "pid": os.getpid(), **facts}
        with self._lock:
            os.write(self._file, json.dumps(row).encode() + b"\n")


def lines_of(path: Path) -> list[Line]:
    """What was noted so far; a line that is being written is none yet."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]
