"""The ledger of a run as values, read from the journals of its processes.

A journal is a file of JSON lines (`streamshard.entrypoints.demo.journal`), one for each life of a process:

* ``producer-NAME.LIFE``: ``sending`` (first, count) before anything is sent; ``published`` (records: number, key,
  shard, id, layout version); ``failed`` (``maybe`` and ``never``: numbers).
* ``consumer-NAME.LIFE``: ``assigned``, ``revoked``, ``lost``, ``start`` (records: id, producer, number, deliveries)
  and ``end`` (ids, acked), each with shard, token, member, instance and ``until``, the deadline of the lease.
* ``story``: what the run did to them: ``phase``, ``fault``, ``killed``, ``ended``, ``crash``, ``leave``, ``remains``.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import attrs

from streamshard.entrypoints.demo.evidence import FOREVER as FOREVER
from streamshard.entrypoints.demo.evidence import Id as Id
from streamshard.entrypoints.demo.evidence import Row as Row
from streamshard.entrypoints.demo.evidence import Tenure as Tenure

# Named tuples where there are hundreds of thousands: attrs takes four times as long to make one.


class Publish(NamedTuple):
    """A record that a producer was told is written. ``at``: boot time in ns, here and below."""

    producer: str
    number: int
    key: str
    shard: int
    id: Id
    layout: int
    at: int


class Start(NamedTuple):
    """The start of a handler for one record. ``until``: when the lease would end, as was known then."""

    shard: int
    id: Id
    producer: str
    number: int
    deliveries: int
    token: int
    instance: str
    process: str
    at: int
    until: int


class End(NamedTuple):
    """The end of a handler for one record. ``acked``: Redis took the acknowledgement."""

    shard: int
    id: Id
    token: int
    process: str
    at: int
    acked: bool


@attrs.frozen
class Fault:
    """Something that was done to the run. ``lost_from`` to ``lost_to``: Redis may have lost what ids of these
    milliseconds name, on ``shards``."""

    name: str
    began: int
    ended: int
    who: tuple[str, ...] = ()
    shards: frozenset[int] = frozenset()
    lost_from: int = 0
    lost_to: int = 0

    def may_have_lost(self, shard: int, record: Id) -> bool:
        """Whether Redis itself may have forgotten the record, or what became of it."""
        return shard in self.shards and self.lost_from <= record[0] <= self.lost_to


@attrs.frozen
class Remains:
    """What Redis holds of a shard at the end. ``mark``: the highest token that its fence saw."""

    shard: int
    exists: bool
    sealed: bool
    mark: int
    ids: frozenset[Id] = frozenset()
    pending: int | None = None
    lag: int | None = None


@attrs.frozen
class Ledger:
    """All of it, in order of time."""

    published: tuple[Publish, ...] = ()
    sent: Mapping[str, tuple[range, ...]] = attrs.field(factory=dict)
    """By producer: the numbers that it was about to send."""
    maybe: frozenset[tuple[str, int]] = frozenset()
    never: frozenset[tuple[str, int]] = frozenset()
    starts: tuple[Start, ...] = ()
    ends: tuple[End, ...] = ()
    tenures: tuple[Tenure, ...] = ()
    faults: tuple[Fault, ...] = ()
    story: tuple[Row, ...] = ()
    remains: tuple[Remains, ...] = ()

    def told(self, kind: str) -> tuple[Row, ...]:
        """The story's lines of a kind."""
        return tuple(row for row in self.story if row["kind"] == kind)

    def phase(self, name: str) -> tuple[int, int]:
        """When a phase began and ended; never, if there was none."""
        phases = [*((row["name"], row["at"]) for row in self.told("phase")), ("", FOREVER)]
        times = ((at, following) for (known, at), (_, following) in pairwise(phases) if known == name)
        return next(times, (FOREVER, FOREVER))


def read(files: Mapping[str, str]) -> Ledger:
    """Read the texts of a run's journals, by their names without suffix."""
    story = _rows(files.get("story", ""))
    deaths = {row["who"]: row["at"] for row in story if row["kind"] == "killed"}
    producers = {name: _rows(text) for name, text in sorted(files.items()) if name.startswith("producer-")}
    consumers = {name: _rows(text) for name, text in sorted(files.items()) if name.startswith("consumer-")}
    return Ledger(
        published=_in_time(each for name, rows in producers.items() for each in _publishes(name, rows)),
        sent={name: tuple(_sendings(rows)) for name, rows in producers.items()},
        maybe=frozenset(_failures(producers, "maybe")),
        never=frozenset(_failures(producers, "never")),
        starts=_in_time(each for name, rows in consumers.items() for each in _starts(name, rows)),
        ends=_in_time(each for name, rows in consumers.items() for each in _ends(name, rows)),
        tenures=tuple(
            sorted(
                (each for name, rows in consumers.items() for each in _tenures(name, rows, deaths.get(name))),
                key=lambda tenure: tenure.start,
            )
        ),
        faults=tuple(_fault(row) for row in story if row["kind"] == "fault"),
        story=tuple(story),
        remains=tuple(_remains(row) for row in story if row["kind"] == "remains"),
    )


def record_id(name: str) -> Id:
    """An id as Redis writes it."""
    ms, _, sequence = name.partition("-")
    return int(ms), int(sequence)


def _rows(text: str) -> list[Row]:
    """A last line without an end was cut off by a kill: it was never on the disk as a whole, so it does not count."""
    whole = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def _in_time(found: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(found, key=lambda each: each.at))


def _publishes(process: str, rows: Iterable[Row]) -> Iterable[Publish]:
    for row in rows:
        if row["kind"] == "published":
            for number, key, shard, name, layout in row["records"]:
                yield Publish(process, number, key, shard, record_id(name), layout, row["at"])


def _sendings(rows: Iterable[Row]) -> Iterable[range]:
    return (range(row["first"], row["first"] + row["count"]) for row in rows if row["kind"] == "sending")


def _failures(producers: Mapping[str, Iterable[Row]], kind: str) -> Iterable[tuple[str, int]]:
    for name, rows in producers.items():
        for row in rows:
            if row["kind"] == "failed":
                yield from ((name, number) for number in row[kind])


def _starts(process: str, rows: Iterable[Row]) -> Iterable[Start]:
    for row in rows:
        if row["kind"] == "start":
            under = row["token"], row["instance"], process, row["at"], row["until"]
            for name, producer, number, deliveries in row["records"]:
                yield Start(row["shard"], record_id(name), producer, number, deliveries, *under)


def _ends(process: str, rows: Iterable[Row]) -> Iterable[End]:
    for row in rows:
        if row["kind"] == "end":
            for name in row["ids"]:
                yield End(row["shard"], record_id(name), row["token"], process, row["at"], row["acked"])


def _tenures(process: str, rows: Iterable[Row], death: int | None) -> Iterable[Tenure]:
    """A right that paused with its lease and went on under the same token makes two."""
    ended: list[Tenure] = []
    present: dict[tuple[int, int], Tenure] = {}
    until: dict[tuple[int, int], int] = defaultdict(int)
    for row in (row for row in rows if "token" in row):
        right = row["shard"], row["token"]
        if row["kind"] == "assigned":
            present[right] = Tenure(*right, row["member"], process, start=row["at"])
            until[right] = 0
        until[right] = max(until[right], row["until"])
        if row["kind"] in ("revoked", "lost") and right in present:
            ended.append(attrs.evolve(present.pop(right), end=row["at"], until=until[right]))
    still = [attrs.evolve(tenure, end=death or FOREVER, until=until[right]) for right, tenure in present.items()]
    return [*ended, *still]


def _fault(row: Row) -> Fault:
    lost = row.get("lost_from", 0), row.get("lost_to", 0)
    return Fault(row["name"], row["began"], row["at"], tuple(row["who"]), frozenset(row.get("shards", ())), *lost)


def _remains(row: Row) -> Remains:
    ids = frozenset(record_id(name) for name in row["ids"])
    return Remains(row["shard"], row["exists"], row["sealed"], row["mark"], ids, row["pending"], row["lag"])
