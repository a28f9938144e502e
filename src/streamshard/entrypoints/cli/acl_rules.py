"""``streamshard acl-rules``: what an account at Redis has to be allowed, and no more."""

import json
import re
from pathlib import Path
from typing import Any

import click

from streamshard.adapters.redis_acl import (
    EVERY_STREAM,
    PASSWORD,
    Asked,
    Part,
    Release,
    Role,
    Topology,
    grants,
    hashed,
    keys,
    left_out,
    rules,
)
from streamshard.core.ids import StreamPrefix
from streamshard.core.names import check_prefix
from streamshard.entrypoints.cli.output import table
from streamshard.errors import InvalidRequest

FORMATS = ("setuser", "acl-file", "table", "json")


def _prefixes(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[StreamPrefix, ...]:
    return tuple(check_prefix(name, "--stream") for name in value) or (EVERY_STREAM,)


def _release(context: click.Context, parameter: click.Parameter, value: str | None) -> Release | None:
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})(\.[0-9]{1,5})?", value)
    if found is None:
        raise InvalidRequest("--redis-version: must be a release of Redis such as 8.2")
    return int(found[1]), int(found[2])


def _name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[^\s\"'\0]{1,100}", value):
        raise InvalidRequest("--user: must be a name of 1 to 100 characters without spaces and quotes")
    return value


def _secret(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    if value is None:
        return PASSWORD
    try:
        password = Path(value).read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest("--password-file: the file can't be read") from error
    if not password:
        raise InvalidRequest("--password-file: the file is empty: write the password into it")
    return hashed(password)


@click.command(name="acl-rules")
@click.argument("roles", metavar="ROLE...", nargs=-1, required=True, type=click.Choice([role.value for role in Role]))
@click.option("--stream", "prefixes", multiple=True, callback=_prefixes, help="Only for this stream; may be repeated.")
@click.option("--user", callback=_name, help="The account's name.  [default: streamshard-ROLE]")
@click.option(
    "--topology",
    type=click.Choice([topology.value for topology in Topology]),
    default=Topology.STANDALONE.value,
    show_default=True,
    help="What the servers are.",
)
@click.option("--redis-version", "redis", callback=_release, metavar="X.Y", help="Grant what this Redis has besides.")
@click.option("--db", "database", type=click.IntRange(0), default=0, help="The database in the URL.")
@click.option("--only", type=click.Choice([part.value for part in Part]), help="Where a coordinator has two servers.")
@click.option("--password-file", "secret", callback=_secret, metavar="FILE", help="Print its hash, not a placeholder.")
@click.option(
    "-o", "--output", type=click.Choice(FORMATS), default="setuser", show_default=True, help="For redis-cli, or else."
)
def acl_rules(roles: tuple[str, ...], user: str | None, secret: str, output: str, **given: Any) -> None:
    """Print what an account has to be allowed at Redis, and no more.

    ROLE is consumer, producer, coordinator, monitor or operator; an account may have several.
    """
    asked = _asked(roles, **given)
    click.echo(_told(asked, user or f"streamshard-{'-'.join(roles)}", secret, output))
    _note(asked, secret)


def _asked(roles: tuple[str, ...], topology: str, only: str | None, **rest: Any) -> Asked:
    chosen = tuple(map(Role, roles))
    asked = Asked(chosen, topology=Topology(topology), only=Part(only) if only else None, **rest)
    if not grants(asked):
        raise InvalidRequest(f"--only: a {' or '.join(roles)} has nothing to do with {only}")
    return asked


def _told(asked: Asked, user: str, secret: str, output: str) -> str:
    words = rules(asked, secret)
    match output:
        case "json":
            return json.dumps({"user": user, "rules": words, "grants": _rows(asked)}, ensure_ascii=False, indent=2)
        case "table":
            rows = [(row["why"], " ".join(row["commands"]), " ".join(row["keys"])) for row in _rows(asked)]
            return table(("WHY", "COMMANDS", "KEYS"), rows)
        case "acl-file":
            # A file begins with an account that may nothing, and knows no reset.
            return f"user {user} {' '.join(words[1:])}"
    return f"ACL SETUSER {user} {' '.join(words)}"


def _rows(asked: Asked) -> list[dict[str, Any]]:
    return [
        {"why": need.why, "commands": list(need.commands), "keys": list(keys(grant, asked.prefixes))}
        for grant in grants(asked)
        for need in grant.needs
    ]


def _note(asked: Asked, secret: str) -> None:
    """Beside the rules, so that these can be piped."""
    for need in left_out(asked):
        since = ".".join(map(str, need.since or ()))
        click.echo(f"note: left out {' '.join(need.commands)}, which Redis {since} has: --redis-version", err=True)
    if asked.prefixes == (EVERY_STREAM,):
        click.echo("note: for every stream: name some with --stream", err=True)
    if secret == PASSWORD:
        click.echo("note: put the password in place of PASSWORD, or use --password-file", err=True)
