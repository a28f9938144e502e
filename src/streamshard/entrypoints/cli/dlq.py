"""``streamshard dlq``: what consumer groups gave up. Talks to Redis, not to a coordinator."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamshard.core.ids import RecordId, ShardIndex, StreamPrefix
from streamshard.entrypoints.cli.asking import confirm, stream_argument, yes_option
from streamshard.entrypoints.cli.output import emit, facts, keep, kept, output_option, table
from streamshard.errors import ConfigurationError, InvalidRequest

if TYPE_CHECKING:
    from streamshard.adapters.streams.dead_letters import KeptLetter, RedisDeadLetters

PAGE = 500
MOST_LISTED = 100
LONGEST_CELL = 60

_Answer = TypeVar("_Answer")
_Command = TypeVar("_Command", bound=Callable[..., Any])


def redis_option(command: _Command) -> _Command:
    """``--redis``: where the shards are."""
    return click.option(
        "--redis",
        envvar="STREAMSHARD_REDIS",
        default="redis://127.0.0.1:6379",
        show_default=True,
        help="The Redis with the shards; also STREAMSHARD_REDIS.",
        expose_value=False,
        callback=keep,
    )(command)


def _id(value: str) -> RecordId:
    if not re.fullmatch(r"\d{1,20}-\d{1,20}", value):
        raise InvalidRequest(f"ID: must be the id of a dead letter, such as 1760000000000-0, not {value!r}")
    return RecordId(value)


def _ids(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[RecordId, ...]:
    return tuple(map(_id, value))


def _one(context: click.Context, parameter: click.Parameter, value: str | None) -> RecordId | None:
    return None if value is None else _id(value)


def _some_option(command: _Command) -> _Command:
    chosen = click.argument("entries", nargs=-1, metavar="[ID]...", callback=_ids)(command)
    return click.option("--all", "everything", is_flag=True, help="All there are, instead of ids.")(chosen)


@click.group()
def dlq() -> None:
    """See, redrive and drop the dead letters of a stream."""


@dlq.command(name="list")
@stream_argument
@click.option(
    "--limit", type=click.IntRange(1), default=MOST_LISTED, show_default=True, help="Show no more than so many."
)
@click.option("--after", metavar="ID", callback=_one, help="Begin behind this one.")
@redis_option
@output_option
def list_(stream: StreamPrefix, limit: int, after: RecordId | None) -> None:
    """List the dead letters of STREAM, oldest first."""

    async def look(letters: "RedisDeadLetters") -> tuple[int, "Sequence[KeptLetter]"]:
        return await letters.size(), await letters.page(after, limit)

    size, page = _with(stream, look)
    rows = [
        (kept.id, kept.letter.group, kept.letter.shard, kept.letter.record, kept.letter.deliveries, _short(kept))
        for kept in page
    ]
    text = table(("ID", "GROUP", "SHARD", "RECORD", "DELIVERIES", "REASON"), rows)
    more = f"\n{size} in all" if size > len(page) else ""
    emit({"size": size, "deadLetters": [_json(kept) for kept in page]}, text + more)


@dlq.command()
@stream_argument
@click.argument("entry", metavar="ID", callback=_one)
@redis_option
@output_option
def show(stream: StreamPrefix, entry: RecordId) -> None:
    """Show one dead letter of STREAM with its fields."""
    kept = _with(stream, lambda letters: letters.get(entry))
    letter = kept.letter
    told = [
        ("ID", kept.id),
        ("GROUP", letter.group),
        ("SHARD", letter.shard),
        ("RECORD", letter.record),
        ("DELIVERIES", letter.deliveries),
        ("REASON", letter.reason),
    ]
    fields = [(_shown(name), _shown(value)) for name, value in letter.fields.items()]
    emit(_json(kept), f"{facts(told)}\n\n{table(('FIELD', 'VALUE'), fields)}")


@dlq.command()
@stream_argument
@_some_option
@click.option("--shard", type=click.IntRange(0), help="Publish to this shard instead of the original one.")
@redis_option
@output_option
def redrive(stream: StreamPrefix, entries: tuple[RecordId, ...], *, everything: bool, shard: int | None) -> None:
    """Publish dead letters of STREAM again, and drop each after; every group sees them."""
    _check_choice(entries, everything=everything)
    there = None if shard is None else ShardIndex(shard)

    async def publish(letters: "RedisDeadLetters") -> dict[RecordId, RecordId]:
        return {kept.id: await letters.redrive(kept, there) async for kept in _chosen(letters, entries)}

    moved = _with(stream, publish)
    emit({"redriven": moved}, f"redrove {len(moved)} dead letters of {stream}")


@dlq.command()
@stream_argument
@_some_option
@yes_option
@redis_option
@output_option
def drop(stream: StreamPrefix, entries: tuple[RecordId, ...], *, everything: bool) -> None:
    """Delete dead letters of STREAM for good."""
    _check_choice(entries, everything=everything)
    confirm("drop", stream, "dead letters")

    async def delete(letters: "RedisDeadLetters") -> list[RecordId]:
        return [kept.id async for kept in _chosen(letters, entries) if await letters.drop([kept.id])]

    gone = _with(stream, delete)
    emit({"dropped": gone}, f"dropped {len(gone)} dead letters of {stream}")


def _check_choice(entries: Sequence[RecordId], *, everything: bool) -> None:
    if everything == bool(entries):
        raise InvalidRequest("ID: name dead letters by their ids, or say --all")


async def _chosen(letters: "RedisDeadLetters", entries: Sequence[RecordId]) -> "AsyncIterator[KeptLetter]":
    """Those named, or all that are there now; what comes meanwhile is left for another time."""
    for entry in entries:
        yield await letters.get(entry)
    if entries:
        return
    left, last = await letters.size(), None
    while left > 0 and (page := await letters.page(last, min(left, PAGE))):
        for letter in page:
            yield letter
        left, last = left - len(page), page[-1].id


def _with(stream: StreamPrefix, work: "Callable[[RedisDeadLetters], Coroutine[Any, Any, _Answer]]") -> _Answer:
    from streamshard.adapters.streams.dead_letters import RedisDeadLetters

    async def run() -> _Answer:
        try:
            letters = RedisDeadLetters(kept("redis"), stream)
        except ConfigurationError as error:
            raise InvalidRequest(f"--{error.message}") from error
        try:
            return await work(letters)
        finally:
            await letters.close()

    return asyncio.run(run())


def _short(kept: "KeptLetter") -> str:
    reason = " ".join(kept.letter.reason.split())
    return reason if len(reason) <= LONGEST_CELL else f"{reason[: LONGEST_CELL - 1]}…"


def _shown(raw: bytes) -> str:
    """Printable on one line, whatever is in it."""
    text = raw.decode(errors="backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _json(kept: "KeptLetter") -> dict[str, object]:
    letter = kept.letter
    return {
        "id": kept.id,
        "group": letter.group,
        "shard": letter.shard,
        "record": letter.record,
        "deliveries": letter.deliveries,
        "reason": letter.reason,
        "fields": [{"name": _value(name), "value": _value(value)} for name, value in letter.fields.items()],
    }


def _value(raw: bytes) -> object:
    """Text where it is UTF-8; JSON has no octets."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
