"""A process's own account of what it did: lines that are on the disk before they count."""

import asyncio
import json
import os
from pathlib import Path

from streamshard.adapters.clock import SystemClock

GATHER_S = 0.01
"""How long an fsync waits for company: many lines share one."""


class Journal:
    """An append-only file of JSON lines, each with its kind and the host's boot time in nanoseconds.

    A line is handed to the system at once, so a killed process leaves everything it noted; after `kept`
    a power cut would leave it too.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._now = SystemClock().boot_ns
        self._noted = 0
        self._on_disk = 0
        self._syncing: asyncio.Task[None] | None = None

    def note(self, kind: str, **facts: object) -> None:
        """Append one line."""
        row = {"kind": kind, "at": self._now(), **facts}
        os.write(self._file, json.dumps(row, separators=(",", ":")).encode() + b"\n")
        self._noted += 1

    async def kept(self) -> None:
        """Return when everything noted so far is on the disk."""
        wanted = self._noted
        while self._on_disk < wanted:
            if self._syncing is None or self._syncing.done():
                self._syncing = asyncio.get_running_loop().create_task(self._sync())
            await asyncio.shield(self._syncing)

    def close(self) -> None:
        """Put everything on the disk."""
        os.fsync(self._file)
        os.close(self._file)

    async def _sync(self) -> None:
        await asyncio.sleep(GATHER_S)
        reached = self._noted
        await asyncio.to_thread(os.fsync, self._file)
        self._on_disk = reached
