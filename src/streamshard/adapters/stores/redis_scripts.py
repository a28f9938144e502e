"""The store's scripts: commits turned into steps for one of them, and what they answer."""

import hashlib
from functools import cache
from importlib.resources import files

import attrs

from streamshard.adapters.redis_link import Command, Word
from streamshard.adapters.stores import codec
from streamshard.adapters.stores.redis_keys import group_keys, stream_keys, version_text
from streamshard.core.group import GroupRecord, Row
from streamshard.core.ids import GroupKey, InstanceId, StreamPrefix, Version
from streamshard.core.ports import Transaction
from streamshard.core.stream import StreamRecord
from streamshard.errors import MetadataCorrupt, RevisionConflict, StaleSequence, StreamshardError

NAMES = ("load", "commit", "renew")
LIVE = b"live"
DEAD = b"dead"
"""The kinds of records; the latter is a tombstone."""

_DONE = [b"OK"]
_MOVED_ON = {
    "MOVED": "the record at {} has moved on",
    "ROW": "the row of instance {!r} has moved on",
    "GONE": "there is no record at {} that a row could stand beside",
}


@attrs.frozen
class Script:
    """One script's text and digest."""

    text: str
    sha: str


@attrs.frozen(slots=False)  # made for every heartbeat: faster without
class Call:
    """A script about to run on the keys of one stream."""

    script: Script
    slot: int
    keys: tuple[str, ...]
    arguments: tuple[Word, ...]

    def by_digest(self) -> Command:
        """The short form, which a server that never saw the script refuses."""
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.arguments)

    def by_text(self) -> Command:
        """The long form, which also makes the server remember the script."""
        return ("EVAL", self.script.text, len(self.keys), *self.keys, *self.arguments)


@cache
def script(name: str) -> Script:
    """Read one of `NAMES` from the package's data."""
    text = (files("streamshard.adapters.stores") / "lua" / f"{name}.lua").read_text("utf-8")
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def load_stream(prefix: StreamPrefix, known: str) -> Call:
    """Read a stream's record, without its body if that is the one of version ``known``."""
    keys = stream_keys(prefix)
    return Call(script("load"), keys.slot, (keys.record,), (known,))


def load_group(key: GroupKey, known: str) -> Call:
    """Read a group's record with its rows, without the body if that is the one of version ``known``."""
    keys = group_keys(key.prefix, key.group)
    return Call(script("load"), stream_keys(key.prefix).slot, (keys.record, keys.rows), (known,))


def commit(order: Transaction) -> Call:
    """A transaction as a call; raises `InvalidRequest` if a name or a value has no encoding."""
    return _renewal(order) or _anything(order)


def _renewal(order: Transaction) -> Call | None:
    """A newer row beside a record that stays as it is, which has a script of its own; None for anything else."""
    groups, write = order.groups, order.row
    if write is None or write.force or len(groups) != 1 or order.stream or order.same_rows or order.drop_rows:
        return None
    change, row = groups[0], write.row
    if change.value is not None or change.expected is None or change.key.group != write.group:
        return None
    keys = group_keys(order.prefix, write.group)
    told = (version_text(change.expected), codec.checked(row.instance), row.seq, dump_row(row))
    return Call(script("renew"), stream_keys(order.prefix).slot, (keys.record, keys.rows), told)


def _anything(order: Transaction) -> Call:
    """A transaction as steps."""
    steps = _Steps()
    _compare(order, steps)
    _write_rows(order, steps)
    _write_records(order, steps)
    return Call(script("commit"), stream_keys(order.prefix).slot, tuple(steps.keys), tuple(steps.words))


def refusal(reply: object, order: Transaction) -> StreamshardError | None:
    """What the commit script found wrong; None if it has written everything."""
    if reply == _DONE:
        return None
    assert isinstance(reply, list), "the script answers with a list"
    verdict, *details = (bytes(word).decode("utf-8", "replace") for word in reply)
    detail = "".join(details)
    name = f"stream {order.prefix!r}"
    match verdict:
        case "STALE":
            return StaleSequence(f"an instance of {name} has been renewed by seq {detail}")
        case "EXPIRING":
            return expiring(detail)
        case "CORRUPT":
            return MetadataCorrupt(f"what is stored at {detail} can't be trusted: it is no record of this version")
    return RevisionConflict(f"{_MOVED_ON[verdict].format(detail)} ({name})")


def expiring(key: str) -> MetadataCorrupt:
    """Somebody gave metadata a time to live."""
    return MetadataCorrupt(
        f"the metadata at {key} is about to expire: run PERSIST on it, and find out who set a time to live"
    )


def dump_row(row: Row) -> bytes:
    """A renewal row as it is stored: what scripts compare, then the whole."""
    return b"%d %b %b" % (row.seq, row.mark.encode(), codec.dump_row(row))


def load_row(stored: bytes, key: GroupKey, instance: InstanceId) -> Row:
    """Decode what `dump_row` made; raises `MetadataCorrupt`."""
    seq, _, rest = stored.partition(b" ")
    mark, _, body = rest.partition(b" ")
    row = codec.load_row(body, key, instance)
    if (b"%d" % row.seq, row.mark.encode()) != (seq, mark):
        raise MetadataCorrupt(f"the row of {instance!r} in {str(key)!r} can't be trusted: body and mark disagree")
    return row


class _Steps:
    """What the commit script is told: words, and the keys they refer to by place."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.words: list[Word] = []

    def add(self, step: str, key: str, *details: Word) -> None:
        self.words += (step, self.keys.setdefault(key, len(self.keys) + 1), *details)


def _compare(order: Transaction, steps: _Steps) -> None:
    if order.stream is not None:
        steps.add("same", stream_keys(order.prefix).record, _expected(order.stream.expected))
    for change in order.groups:
        steps.add("same", group_keys(change.key.prefix, change.key.group).record, _expected(change.expected))
    for (group, instance), mark in order.same_rows.items():
        steps.add("mark", group_keys(order.prefix, group).rows, codec.checked(instance), mark or "")
    if (write := order.row) is not None:
        keys = group_keys(order.prefix, write.group)
        written = [change.value for change in order.groups if change.key.group == write.group and change.value]
        if not written:
            steps.add("live", keys.record)
        elif not isinstance(written[-1], GroupRecord):
            steps.add("never", keys.record)
        if not write.force:
            steps.add("newer", keys.rows, codec.checked(write.row.instance), write.row.seq)


def _write_rows(order: Transaction, steps: _Steps) -> None:
    for group, instance in order.drop_rows:
        steps.add("drop", group_keys(order.prefix, group).rows, codec.checked(instance))
    for change in order.groups:
        if change.value is not None and not isinstance(change.value, GroupRecord):
            steps.add("clear", group_keys(change.key.prefix, change.key.group).rows)
    if (write := order.row) is not None:
        rows = group_keys(order.prefix, write.group).rows
        steps.add("row", rows, codec.checked(write.row.instance), dump_row(write.row))


def _write_records(order: Transaction, steps: _Steps) -> None:
    if (stream := order.stream) is not None:
        kind = LIVE if isinstance(stream.value, StreamRecord) else DEAD
        record = stream_keys(order.prefix).record
        steps.add("put", record, version_text(stream.value.version), kind, codec.dump_stream(stream.value))
    for change in order.groups:
        if (value := change.value) is not None:
            kind = LIVE if isinstance(value, GroupRecord) else DEAD
            record = group_keys(change.key.prefix, change.key.group).record
            steps.add("put", record, version_text(value.version), kind, codec.dump_group(value))


def _expected(version: Version | None) -> str:
    return "" if version is None else version_text(version)
