"""The commands by name; each is imported only when it is run, so that help is there at once."""

import importlib
from collections.abc import Mapping

import click

from streamshard.entrypoints.cli.failures import failure
from streamshard.errors import StreamshardError

_PACKAGE = "streamshard.entrypoints.cli"


class LazyGroup(click.Group):
    """A group that knows its commands' one-line help without importing them."""

    def __init__(self, *, commands_at: Mapping[str, tuple[str, str]], help: str) -> None:
        super().__init__(name="streamshard", help=help, context_settings={"help_option_names": ["-h", "--help"]})
        self._commands_at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which one meets them."""
        return list(self._commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; None for an unknown name."""
        if cmd_name not in self._commands_at:
            return None
        module, _, attribute = self._commands_at[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in ``--help``."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, told) in self._commands_at.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run, and turn the library's errors into sentences and exit codes."""
        try:
            return super().invoke(ctx)
        except StreamshardError as error:
            raise failure(error) from error


cli = LazyGroup(
    help="Consumer groups for sharded Redis Streams: run a coordinator, or look after one.",
    commands_at={
        "demo": (f"{_PACKAGE}.demo:demo", "Watch it work: real processes, a kill, scaling, and a ledger."),
        "serve": (f"{_PACKAGE}.serve:serve", "Run a coordinator."),
        "config": (f"{_PACKAGE}.config:config", "See what a coordinator is configured with."),
        "streams": (f"{_PACKAGE}.streams:streams", "Create, scale, list, describe and delete streams."),
        "groups": (f"{_PACKAGE}.groups:groups", "Create, list, describe and delete consumer groups."),
        "reshard": (f"{_PACKAGE}.reshard:reshard", "See what a change of the shard count waits for, or take it back."),
        "dlq": (f"{_PACKAGE}.dlq:dlq", "See, redrive and drop what consumers gave up."),
        "auth": (f"{_PACKAGE}.access:auth", "Hash passwords for an accounts file."),
        "token": (f"{_PACKAGE}.access:token", "Get a token for a password, look at one, take one back."),
        "repair": (f"{_PACKAGE}.repair:repair", "Mend what was damaged behind the coordinators' back."),
        "doctor": (f"{_PACKAGE}.doctor:doctor", "Look at what a deployment stands on, and say what to mend."),
        "acl-rules": (f"{_PACKAGE}.acl_rules:acl_rules", "Print what an account at Redis has to be allowed."),
        "route": (f"{_PACKAGE}.route:route", "Say which shard or node a key belongs to."),
        "export": (f"{_PACKAGE}.export:export", "Print settings of proxies that route as we do."),
        "simulate": (f"{_PACKAGE}.simulate:simulate", "Play whole clusters through faults, on made-up time."),
        "check": (f"{_PACKAGE}.check:check", "Search every schedule of small groups."),
        "completion": (f"{_PACKAGE}.completion:completion", "Print what bash, zsh or fish needs to complete commands."),
        "version": (f"{_PACKAGE}.version:version", "Print the version."),
    },
)
