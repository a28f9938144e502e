"""The changes that a coordinator made, in few lines however many shards and members they concern."""

import time
from collections.abc import Callable, Iterator, Sequence

import attrs

from streamshard.core.chronicle import Event

MOST_ALIKE = 2
"""Changes of one kind and group that are told one by one within `WINDOW_S`; the others are counted."""

WINDOW_S = 30.0


@attrs.frozen
class Line:
    """One line of the log, and what it is about."""

    kind: str
    text: str
    prefix: str
    group: str | None
    shards: tuple[int, ...] = ()


@attrs.define
class _Window:
    """Half a minute of one kind and group."""

    began: float
    told: int = 0
    unsaid: int = 0


class Digest:
    """Remembers what was told lately, so that a trouble of a thousand shards fills no log."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._windows: dict[Event, _Window] = {}

    def told(self, events: Sequence[Event]) -> Iterator[Line]:
        """What is to be logged now; call it at every tick, also without events."""
        now = self._now()
        yield from self._overdue(now)
        for kin, texts in _alike(events).items():
            window = self._windows.setdefault(kin, _Window(now))
            lines = list(texts.items())
            room = max(0, MOST_ALIKE - window.told)
            window.told += len(lines)
            window.unsaid += len(lines[room:])
            for text, shards in lines[:room]:
                yield _line(kin, shards, text)

    def _overdue(self, now: float) -> Iterator[Line]:
        for kin, window in list(self._windows.items()):
            if now - window.began < WINDOW_S:
                continue
            del self._windows[kin]
            if window.unsaid:
                yield _line(kin, [], f"{window.unsaid} more like it in half a minute")


def _alike(events: Sequence[Event]) -> dict[Event, dict[str, list[int]]]:
    """By kind and group: what is said, and of which shards."""
    alike: dict[Event, dict[str, list[int]]] = {}
    for event in events:
        texts = alike.setdefault(attrs.evolve(event, text="", shard=None), {})
        texts.setdefault(event.text, []).extend(() if event.shard is None else (event.shard,))
    return alike


def _line(kin: Event, shards: list[int], text: str) -> Line:
    return Line(kin.kind, f"{kin.kind} {_place(kin, shards)}: {text}", kin.prefix, kin.group, tuple(shards))


def _place(event: Event, shards: list[int]) -> str:
    place = event.prefix if event.group is None else f"{event.prefix}/{event.group}"
    several = "s" if len(shards) > 1 else ""
    return f"{place} shard{several} {', '.join(map(str, shards))}" if shards else place
