"""What the commands that change something have in common: who asks, why, and whether it is meant.

Options that are fields of the request's body carry the field's name, so that commands pass them on whole.
"""

import getpass
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from streamshard.core.ids import GroupKey, GroupName, StreamPrefix
from streamshard.core.names import check_group, check_prefix
from streamshard.core.routing import DEFAULT_PROTOCOL, PROTOCOLS
from streamshard.core.stream import Retention
from streamshard.entrypoints.cli.failures import ExitCode, Failure
from streamshard.entrypoints.cli.output import keep, kept
from streamshard.errors import InvalidRequest

Command = TypeVar("Command", bound=Callable[..., Any])


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "unknown"


def requested_by_option(command: Command) -> Command:
    """``--requested-by``: recorded with the change."""
    return click.option("--requested-by", "requestedBy", default=_user, help="Who asks; your login name if left out.")(
        command
    )


def reason_option(command: Command) -> Command:
    """``--reason``: recorded with the change."""
    return click.option("--reason", required=True, help="Why; recorded with the change.")(command)


def yes_option(command: Command) -> Command:
    """``--yes``: don't ask."""
    return click.option("--yes", is_flag=True, help="Don't ask.", expose_value=False, callback=keep)(command)


def start_from_option(command: Command) -> Command:
    """``--start-from``: where a new group begins."""
    return click.option(
        "--start-from",
        "startFrom",
        default="earliest",
        show_default=True,
        metavar="earliest|latest|ID",
        help="Where a new group begins to read.",
    )(command)


def adopt_option(command: Command) -> Command:
    """``--adopt``: existing keys may be taken over."""
    return click.option("--adopt", is_flag=True, help="Take over Redis keys that exist already.")(command)


def allow_legacy_option(command: Command) -> Command:
    """``--allow-legacy-members``: clients of the older contract may join."""
    return click.option(
        "--allow-legacy-members",
        "allowLegacyMembers",
        is_flag=True,
        help="Serve clients without instanceId; exclusivity is then cooperative.",
    )(command)


def retention_option(*, required: bool = False) -> Callable[[Command], Command]:
    """``--retention``: what coordinators remove."""
    return click.option(
        "--retention",
        type=click.Choice([retention.value for retention in Retention]),
        required=required,
        default=None if required else Retention.NONE.value,
        show_default=not required,
        help="Trim nothing, or what every group has acknowledged.",
    )


def routing_option(command: Command) -> Command:
    """``--routing``: the routing protocol, for good."""
    return click.option(
        "--routing",
        "routingProtocol",
        type=click.Choice(list(PROTOCOLS)),
        default=DEFAULT_PROTOCOL,
        show_default=True,
        help="How keys find their shard; it can't be changed later.",
    )(command)


def force_option(command: Command) -> Command:
    """``--force``: live members don't stand in the way."""
    return click.option("--force", is_flag=True, help="Although there are live members.")(command)


def confirm(what: str, name: str, part: str = "") -> None:
    """Let a person type the name; a script has to say ``--yes``. ``part``: what of it goes, where not all does."""
    goes = f"{part} of {name}" if part else name
    if kept("yes"):
        return
    if not sys.stdin.isatty():
        raise Failure(f"to {what} {goes} destroys something and nobody is there to ask", ExitCode.USAGE, "add --yes")
    if click.prompt(f"This {what}s {goes}. Type {name} to go on", default="", show_default=False) != name:
        raise Failure("that is another name, so nothing was changed", ExitCode.ERROR)


def stream_argument(command: Command) -> Command:
    """``STREAM``: a checked prefix."""
    return click.argument("stream", metavar="STREAM", callback=_stream)(command)


def group_argument(command: Command) -> Command:
    """``STREAM/GROUP``: a checked pair."""
    return click.argument("group", metavar="STREAM/GROUP", callback=_group)(command)


def _stream(context: click.Context, parameter: click.Parameter, value: str) -> StreamPrefix:
    return check_prefix(value, "STREAM")


def _group(context: click.Context, parameter: click.Parameter, value: str) -> GroupKey:
    prefix, slash, group = value.partition("/")
    if not slash:
        raise InvalidRequest("STREAM/GROUP: must be a stream and a group with a slash between them: orders/billing")
    return GroupKey(check_prefix(prefix, "STREAM"), _name(group))


def _name(group: str) -> GroupName:
    return check_group(group, "GROUP")
