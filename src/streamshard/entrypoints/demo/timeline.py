"""The time line: who reads what, and why that changes."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.text import Text

COLOURS = ("cyan", "bright_cyan", "magenta", "bright_magenta", "yellow", "bright_yellow")
OWNERSHIP = ('{"kind":"assigned"', '{"kind":"revoked"', '{"kind":"lost"')


class Timeline:
    """Prints lines with the seconds since the start; colours only on a terminal, and not under ``NO_COLOR``."""

    def __init__(self, file: IO[str]) -> None:
        self._console = Console(file=file, highlight=False, markup=False, soft_wrap=True, emoji=False)
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def say(self, text: str, style: str = "") -> None:
        """A line of its own."""
        self._console.print(Text(f"{self.seconds:6.1f}s  ").append(text, style))

    def grid(self, readers: Mapping[int, str | None], why: str) -> None:
        """Each shard with its reader, then the reason."""
        line = Text(f"{self.seconds:6.1f}s  ")
        for shard, member in sorted(readers.items()):
            line.append(f"{shard}:{member or '-'}".ljust(6) + " ", _colour(member))
        self._console.print(line.append(why, "dim"))

    def plain(self, text: str, style: str = "") -> None:
        """A line without the time."""
        self._console.print(Text(text, style))


def _colour(member: str | None) -> str:
    if member is None:
        return "dim"
    name, _, position = member.rpartition("-m")
    return COLOURS[(2 * sum(name.encode()) + int(position)) % len(COLOURS)]


class Readers:
    """Who reads which shard, from what the consumers note as it happens."""

    def __init__(self) -> None:
        self._offsets: dict[Path, int] = {}
        self._tokens: dict[int, tuple[int, str]] = {}

    def look(self, journals: list[Path]) -> None:
        """Read on where the last look ended."""
        for path in journals:
            self._read_on(path)

    def gone(self, consumer: str) -> None:
        """A killed consumer reads nothing."""
        self._tokens = {shard: held for shard, held in self._tokens.items() if not held[1].startswith(f"{consumer}-m")}

    @property
    def now(self) -> Mapping[int, str]:
        """Shard to member."""
        return {shard: member for shard, (_, member) in sorted(self._tokens.items())}

    def _read_on(self, path: Path) -> None:
        if not path.exists():
            return
        with path.open("rb") as journal:
            journal.seek(self._offsets.get(path, 0))
            text = journal.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offsets[path] = self._offsets.get(path, 0) + len(whole)
        for line in whole.decode().splitlines():
            if line.startswith(OWNERSHIP):
                self._take(json.loads(line))

    def _take(self, row: Mapping[str, object]) -> None:
        shard, token, member = row["shard"], row["token"], row["member"]
        assert isinstance(shard, int)
        assert isinstance(token, int)
        held = self._tokens.get(shard, (0, ""))
        if row["kind"] == "assigned" and token > held[0]:
            self._tokens[shard] = (token, str(member))
        elif row["kind"] != "assigned" and token == held[0]:
            del self._tokens[shard]


def changes(before: Mapping[int, str], after: Mapping[int, str]) -> str:
    """What is different, in words."""
    told: dict[str, list[str]] = {}
    for shard in sorted({*before, *after}):
        old, new = before.get(shard), after.get(shard)
        if old != new:
            told.setdefault(_change(old, new), []).append(str(shard))
    return "; ".join(f"{what} {', '.join(shards)}" for what, shards in told.items())


def _change(old: str | None, new: str | None) -> str:
    if new is None:
        return f"{old} stopped reading"
    return f"{new} takes" if old is None else f"{old} handed {new}"
