"""What is counted and timed on the way: plain numbers, turned into metrics only when somebody scrapes.

A heartbeat that changes nothing is answered in less time than a metrics library needs for it. So nothing here
locks, looks up labels or makes objects: a recorder is found once, and then adds to integers.
"""

from bisect import bisect_left
from time import perf_counter

import attrs

from streamshard.core.replies import Status
from streamshard.core.tally import SLOW, Histogram

now = perf_counter
"""Seconds; only differences mean anything."""

OTHER = "other"
"""Stands for every method and every path that nobody serves: callers must not be able to make up labels."""


class RouteRecorder(Histogram):
    """One method of one path template."""

    __slots__ = ("good", "statuses")

    def __init__(self) -> None:
        super().__init__()
        self.good = 0
        """Answers with status 200."""
        self.statuses: dict[int, int] = {}
        """All others."""

    def answered(self, status: int, took: float) -> None:
        """It was answered with ``status``, after so many seconds."""
        if status == 200:  # noqa: PLR2004
            self.good += 1
        else:
            self.statuses[status] = self.statuses.get(status, 0) + 1
        self.counts[bisect_left(self.bounds, took)] += 1
        self.seconds += took


class HeartbeatRecorder(Histogram):
    """Heartbeats, alone or several in a request; not the requests that couldn't be read."""

    __slots__ = ("fine", "statuses")

    def __init__(self) -> None:
        super().__init__()
        self.fine = 0
        """Answers with the status OK."""
        self.statuses: dict[Status, int] = {}
        """All others."""

    def answered(self, status: Status, took: float) -> None:
        """It was answered with ``status``, after so many seconds."""
        if status is Status.OK:
            self.fine += 1
        else:
            self.statuses[status] = self.statuses.get(status, 0) + 1
        self.counts[bisect_left(self.bounds, took)] += 1
        self.seconds += took


@attrs.frozen
class Detail:
    """How much the metrics tell of single members and shards; above it they tell of the group alone."""

    most_members: int = 200
    """A group with more, or any with 0, has no series of its members."""
    most_shards: int = 10_000
    """A group with more, or any with 0, has no series of its shards."""


class Recorder:
    """Everything that one coordinator's process counts outside the core, and how much of it all is shown."""

    def __init__(self, detail: Detail | None = None) -> None:
        self.detail = detail or Detail()
        self.heartbeats = HeartbeatRecorder()
        self.routes: dict[tuple[str, str], RouteRecorder] = {}
        """By path template and method; made when the application is, but for what nobody serves."""
        self.stores: dict[tuple[str, str], Histogram] = {}
        """By kind of store and operation."""
        self.ticks = Histogram(SLOW)

    def route(self, template: str, method: str) -> RouteRecorder:
        """The recorder of a method of a path template."""
        return self.routes.setdefault((template, method), RouteRecorder())

    def store(self, kind: str, operation: str) -> Histogram:
        """The recorder of one operation of a metadata store."""
        return self.stores.setdefault((kind, operation), Histogram())
