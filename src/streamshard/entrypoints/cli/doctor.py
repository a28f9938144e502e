"""``streamshard doctor``: looks at what a deployment stands on, and says what to mend."""

import os

import click

from streamshard.adapters.client.credentials import without_login
from streamshard.adapters.redis_acl import Role
from streamshard.core.ids import StreamPrefix
from streamshard.core.names import check_prefix
from streamshard.core.settings import MAX_SHARDS
from streamshard.entrypoints.cli.failures import ExitCode, Failure
from streamshard.entrypoints.cli.output import coordinator, emit, kept, output_option, table, url_option
from streamshard.entrypoints.doctor.findings import Finding, Level
from streamshard.entrypoints.options import CONFIG, Sources
from streamshard.entrypoints.settings import OPTIONS
from streamshard.errors import ConfigurationError, InvalidRequest

_COUNT = click.IntRange(0, 100_000)


def _streams(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[tuple[StreamPrefix, int], ...]:
    return tuple(_stream(text) for text in value)


def _stream(text: str) -> tuple[StreamPrefix, int]:
    prefix, at, count = text.rpartition("=")
    if not at:
        return check_prefix(text, "--stream"), 12
    if not (count.isascii() and count.isdigit() and 1 <= int(count[:6]) <= MAX_SHARDS):
        raise InvalidRequest(f"--stream: must be a stream, or STREAM=SHARDS with 1 to {MAX_SHARDS} of them")
    return check_prefix(prefix, "--stream"), int(count)


@click.command()
@click.option("--redis", help="The Redis with the shards, as for serve. [env: STREAMSHARD_REDIS]")
@click.option("--store", help="Where metadata is kept, as for serve. [env: STREAMSHARD_STORE]")
@click.option("--config", CONFIG, metavar="FILE", help="The file that serve is told. [env: STREAMSHARD_CONFIG]")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.COORDINATOR.value,
    show_default=True,
    help="Whose account the URL has.",
)
@click.option("--stream", "streams", multiple=True, callback=_streams, metavar="STREAM[=SHARDS]", help="Look for it.")
@click.option("--consumers", type=_COUNT, default=0, help="Processes with listeners that are still to come.")
@click.option("--producers", type=_COUNT, default=0, help="Processes that publish and are still to come.")
@click.option("--coordinators", type=_COUNT, default=0, help="Coordinators that are still to come.")
@url_option
@output_option
def doctor(role: str, streams: tuple[tuple[StreamPrefix, int], ...], **given: str | int | None) -> None:
    """Look at Redis, at the metadata store and at the coordinator, and say what to mend.

    One line for each check: OK, WARN, or FAIL with what to do. Exit code 1 if one fails. Nothing is changed.
    """
    from streamshard.entrypoints.doctor.coordinators import ask, judged
    from streamshard.entrypoints.doctor.examination import Examination, connections

    with coordinator() as api:
        told = ask(api, without_login(kept("url")))
    counts = {name: int(given.pop(name) or 0) for name in ("consumers", "producers", "coordinators")}
    redis, store = _places({name: None if text is None else str(text) for name, text in given.items()})
    known = streams or tuple((StreamPrefix(prefix), count) for prefix, count in told.streams)
    try:
        found = Examination(redis, store, Role(role), known, connections(**counts)).run()
    except ConfigurationError as error:
        raise Failure(error.message, ExitCode.USAGE, "streamshard doctor --help") from None
    found += judged(told, wanted=_named_a_coordinator())
    _tell(found)


def _places(arguments: dict[str, str | None]) -> tuple[str, str]:
    sources = Sources(OPTIONS, arguments, os.environ)
    redis, store = (
        sources.find(option).text for name in ("redis", "store") for option in OPTIONS if option.name == name
    )
    if sources.problems:
        raise Failure("; ".join(sources.problems), ExitCode.USAGE, "streamshard config show")
    return redis, store


def _named_a_coordinator() -> bool:
    source = click.get_current_context().get_parameter_source("url")
    return source is not click.core.ParameterSource.DEFAULT


def _tell(found: list[Finding]) -> None:
    rows = [(each.level.value, each.check, each.where, _sentence(each)) for each in found]
    as_json = [
        {"level": each.level.value, "check": each.check, "where": each.where, "found": each.found, "do": each.remedy}
        for each in found
    ]
    emit({"findings": as_json}, table(("RESULT", "CHECK", "WHERE", "FOUND"), rows))
    if any(each.level is Level.FAIL for each in found):
        raise SystemExit(int(ExitCode.ERROR))


def _sentence(each: Finding) -> str:
    return f"{each.found} → {each.remedy}" if each.remedy else each.found
