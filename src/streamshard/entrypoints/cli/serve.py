"""``streamshard serve``."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from streamshard.entrypoints.cli.failures import ExitCode, Failure
from streamshard.entrypoints.logs import set_up
from streamshard.entrypoints.options import CONFIG
from streamshard.entrypoints.settings import OPTIONS, serve_settings
from streamshard.errors import ConfigurationError

Command = TypeVar("Command", bound=Callable[..., Any])


def settings_options(command: Command) -> Command:
    """``--config``, and an option for each setting."""
    for option in reversed(OPTIONS):
        # Defaults and the environment are options.py's business: it says where a bad value came from.
        variables = " or ".join(filter(None, (option.variable, option.file_variable)))
        told = f"{option.help} [env: {variables}; default: {option.default or 'none'}]"
        command = click.option(option.argument, option.name, help=told)(command)
    told = "A TOML file with settings, by the names of the options. [env: STREAMSHARD_CONFIG]"
    return click.option("--config", CONFIG, metavar="FILE", help=told)(command)


@click.command()
@settings_options
def serve(**given: str | None) -> None:
    """Run a coordinator until it is told to stop (SIGTERM or Ctrl-C)."""
    try:
        settings = serve_settings(given, os.environ)
    except ConfigurationError as error:
        raise Failure(error.message, ExitCode.USAGE, "streamshard serve --help") from None
    try:
        from streamshard.entrypoints.http.server import serve as run
    except ModuleNotFoundError as error:
        install = "pip install 'streamshard[server]'"
        raise Failure(f"the coordinator needs {error.name}, which is not installed", ExitCode.ERROR, install) from None
    set_up(settings.log_format)
    run(settings)
