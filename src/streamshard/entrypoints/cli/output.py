"""What commands print: tables that ``cut`` and ``awk`` can read, or the API's own JSON."""

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from streamshard.adapters.client.credentials import CA_FILE, credentials
from streamshard.entrypoints.cli.client import Api

Command = TypeVar("Command", bound=Callable[..., Any])

GAP = "  "

_COLOURS = {
    "STABLE": "green",
    "OWNED": "green",
    "ACTIVE": "green",
    "GRANTED": "cyan",
    "RECONCILING": "yellow",
    "ASSIGNING": "yellow",
    "REVOKING": "yellow",
    "DRAINING": "yellow",
    "UNOWNED": "red",
    "LAPSED": "red",
    "UNREAD": "red",
    "FROZEN": "red",
    "EXPIRED": "red",
    "FENCED": "red",
}


def url_option(command: Command) -> Command:
    """``--url``: which coordinator."""
    return click.option(
        "--url",
        envvar="STREAMSHARD_URL",
        default="http://127.0.0.1:8080",
        show_default=True,
        help="The coordinator; also STREAMSHARD_URL.",
        expose_value=False,
        callback=keep,
    )(command)


def output_option(command: Command) -> Command:
    """``-o``: for people or for programs."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="A table, or the API's JSON.",
        expose_value=False,
        callback=keep,
    )(command)


def keep(context: click.Context, parameter: click.Parameter, value: object) -> object:
    """Keep an option that concerns every command for `kept`, so that each command names only its own."""
    context.meta[f"streamshard.{parameter.name}"] = value
    return value


def kept(name: str) -> Any:
    """What `keep` kept in the command that runs."""
    return click.get_current_context().meta[f"streamshard.{name}"]


def coordinator() -> Api:
    """The coordinator that ``--url`` names, told who asks."""
    return Api(kept("url"), credentials(None, None, os.environ), os.environ.get(CA_FILE) or None)


def stranger() -> Api:
    """The same, told nothing but what the URL says."""
    return Api(kept("url"), None, os.environ.get(CA_FILE) or None)


def emit(value: object, text: str) -> None:
    """Print ``value`` as JSON, or ``text``, as was asked."""
    output = kept("output")
    click.echo(json.dumps(value, ensure_ascii=False, indent=2) if output == "json" else text)


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns padded with spaces; a cell without a value is ``-``, so that every line has the same fields."""
    lines = [list(headers), *([_cell(value) for value in row] for row in rows)]
    widths = [max(_width(line[column]) for line in lines) for column in range(len(headers))]
    return "\n".join(_line(line, widths) for line in lines)


def facts(pairs: Sequence[tuple[str, object]]) -> str:
    """Named single facts, one a line."""
    widest = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name.ljust(widest)}{GAP}{_painted(_cell(value))}" for name, value in pairs)


def on_terminal() -> bool:
    """A person is looking."""
    return sys.stdout.isatty()


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [_painted(cell) + " " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)]
    return GAP.join(padded).rstrip()


def _painted(cell: str) -> str:
    if cell in _COLOURS and on_terminal() and not os.environ.get("NO_COLOR"):
        return click.style(cell, fg=_COLOURS[cell])
    return cell


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
