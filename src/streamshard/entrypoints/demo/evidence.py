"""What the ledger's files say, as values."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import attrs

Row: TypeAlias = dict[str, Any]
Id: TypeAlias = tuple[int, int]

FOREVER = 2**63

# Named tuples where there are tens of thousands: attrs takes four times as long to make one.


class Publish(NamedTuple):
    """A record that the producer was told is written. ``at``: boot time in ns, here and below."""

    shard: int
    id: Id
    seq: int
    layout: int
    at: int


class Handling(NamedTuple):
    """The start of a handler."""

    shard: int
    id: Id
    seq: int
    token: int
    deliveries: int
    process: str
    at: int


class Ack(NamedTuple):
    """An acknowledgement that Redis accepted."""

    shard: int
    id: Id
    token: int


@attrs.frozen
class Tenure:
    """A time in which a process had the right to read a shard, by its own account; death ends it too."""

    shard: int
    token: int
    member: str
    process: str
    start: int
    end: int = FOREVER
    until: int = 0
    """The last deadline that its heartbeats were seen to earn."""

    @property
    def read_until(self) -> int:
        """Past this it may not read, whether it knows or not."""
        return min(self.end, self.until)


@attrs.frozen
class Remains:
    """What Redis holds of a shard at the end."""

    shard: int
    exists: bool
    sealed: bool
    mark: int
    """The highest token that the fence saw."""
    pending: int | None = None
    lag: int | None = None


@attrs.frozen
class Evidence:
    """All of it, in order of time."""

    published: tuple[Publish, ...]
    uncertain: frozenset[int]
    """Sequence numbers that were sent and not answered: written or not."""
    handlings: tuple[Handling, ...]
    acks: tuple[Ack, ...]
    tenures: tuple[Tenure, ...]
    story: tuple[Row, ...]
    remains: tuple[Remains, ...]

    def told(self, kind: str) -> tuple[Row, ...]:
        """The story's lines of a kind."""
        return tuple(row for row in self.story if row["kind"] == kind)


def gather(files: Mapping[str, str]) -> Evidence:
    """Read the texts of a run: ``story``, ``producer`` and one ``consumer-…`` for each process, by name."""
    story, producer = _rows(files.get("story", "")), _rows(files.get("producer", ""))
    deaths = {row["who"]: row["at"] for row in story if row["kind"] == "killed"}
    consumers = {name: _rows(text) for name, text in sorted(files.items()) if name.startswith("consumer-")}
    handlings = [handling for name, rows in consumers.items() for handling in _handlings(name, rows)]
    tenures = [tenure for name, rows in consumers.items() for tenure in _tenures(name, rows, deaths.get(name))]
    return Evidence(
        published=tuple(publish for row in producer if row["kind"] == "published" for publish in _publishes(row)),
        uncertain=frozenset(seq for row in producer if row["kind"] == "failed" for seq in row["uncertain"]),
        handlings=tuple(sorted(handlings, key=lambda handling: handling.at)),
        acks=tuple(ack for rows in consumers.values() for row in rows if row["kind"] == "acked" for ack in _acks(row)),
        tenures=tuple(sorted(tenures, key=lambda tenure: tenure.start)),
        story=tuple(story),
        remains=tuple(_remains(row) for row in story if row["kind"] == "remains"),
    )


def _rows(text: str) -> list[Row]:
    """A last line without an end was cut off by a kill: it was never on the disk as a whole, so it does not count."""
    whole = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def _publishes(row: Row) -> Iterable[Publish]:
    return (Publish(shard, _id(name), seq, layout, row["at"]) for name, shard, seq, layout in row["records"])


def _handlings(process: str, rows: Iterable[Row]) -> Iterable[Handling]:
    for row in rows:
        if row["kind"] == "handled":
            for name, seq, deliveries in row["records"]:
                yield Handling(row["shard"], _id(name), seq, row["token"], deliveries, process, row["at"])


def _acks(row: Row) -> Iterable[Ack]:
    return (Ack(row["shard"], _id(name), row["token"]) for name in row["ids"])


def _tenures(process: str, rows: Iterable[Row], death: int | None) -> Iterable[Tenure]:
    """A right that paused with its lease and went on under the same token makes two."""
    ended: list[Tenure] = []
    present: dict[tuple[int, int], Tenure] = {}
    until: dict[tuple[int, int], int] = defaultdict(int)
    for row in rows:
        right = row["shard"], row["token"]
        if row["kind"] == "assigned":
            present[right] = Tenure(*right, row["member"], process, start=row["at"])
            until[right] = 0
        until[right] = max(until[right], row["until"])
        if row["kind"] in ("revoked", "lost") and right in present:
            ended.append(attrs.evolve(present.pop(right), end=row["at"], until=until[right]))
    still = [attrs.evolve(tenure, end=death or FOREVER, until=until[right]) for right, tenure in present.items()]
    return [*ended, *still]


def _remains(row: Row) -> Remains:
    return Remains(row["shard"], row["exists"], row["sealed"], row["mark"], row["pending"], row["lag"])


def _id(name: str) -> Id:
    ms, _, sequence = name.partition("-")
    return int(ms), int(sequence)
