"""``streamshard config``: what a coordinator would be told, and by whom."""

import os

import click

from streamshard.entrypoints.cli.failures import ExitCode, Failure
from streamshard.entrypoints.cli.output import emit, output_option, table
from streamshard.entrypoints.cli.serve import settings_options
from streamshard.entrypoints.options import Found, Layer, Sources
from streamshard.entrypoints.settings import OPTIONS, SECRETS, serve_settings, shown
from streamshard.errors import ConfigurationError


@click.group()
def config() -> None:
    """See what a coordinator is configured with."""


@config.command()
@output_option
@settings_options
def show(**given: str | None) -> None:
    """Print each setting as `serve` with the same options would have it, and where it comes from.

    Passwords are not shown. Exit code 2 if `serve` would refuse to start with them.
    """
    sources = Sources(OPTIONS, given, os.environ)
    found = [sources.find(option) for option in (*OPTIONS, *SECRETS)]
    rows = [(each.option.name, _printable(shown(each)), each.layer.value, _source(each)) for each in found]
    as_json = [dict(zip(("name", "value", "layer", "source"), row, strict=True)) for row in rows]
    emit({"settings": as_json}, table(("SETTING", "VALUE", "FROM"), [(*row[:2], row[3] or row[2]) for row in rows]))
    try:
        serve_settings(given, os.environ)
    except ConfigurationError as error:
        raise Failure(error.message, ExitCode.USAGE, "streamshard serve --help") from None


def _source(found: Found) -> str | None:
    return None if found.layer is Layer.DEFAULT else found.source


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
