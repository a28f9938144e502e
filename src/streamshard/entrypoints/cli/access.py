"""``streamshard auth`` and ``streamshard token``."""

import datetime
import os
import sys
from typing import Any

import click

from streamshard.adapters.client.credentials import PASSWORD, PASSWORD_FILE, TOKEN, TOKEN_FILE, USER, credentials
from streamshard.entrypoints.cli.failures import ExitCode, Failure
from streamshard.entrypoints.cli.output import coordinator, emit, facts, output_option, stranger, url_option


@click.group()
def auth() -> None:
    """Make what an accounts file needs."""


@auth.command(name="hash")
def hash_() -> None:
    """Hash a password for an accounts file. It is asked for, or read from standard input."""
    from streamshard.entrypoints.security.passwords import hashed

    password = _typed("Password", again=True)
    if not password:
        raise Failure("an empty password is none, so nothing was hashed", ExitCode.USAGE)
    click.echo(hashed(password))


@click.group()
def token() -> None:
    """Get a token for a password, look at one, take one back."""


@token.command()
@click.option("--user", envvar=USER, required=True, help=f"The account; also {USER}.")
@url_option
@output_option
def create(user: str) -> None:
    """Log in, and print a token. The password is asked for, or read from STREAMSHARD_PASSWORD or a file."""
    with stranger() as api:
        found = api.post("auth", "login", body={"username": user, "password": _password()})
    emit(found, str(found["accessToken"]))


@token.command()
@click.option("--id", "token_id", help="Take this one back instead; needs the role ADMIN.")
@url_option
@output_option
def revoke(token_id: str | None) -> None:
    """Take back the token in STREAMSHARD_TOKEN, so that it is accepted no more."""
    with coordinator() as api:
        found = api.post("auth", "revoke", body={} if token_id is None else {"tokenId": token_id})
    if not found["lasting"]:
        click.echo("Only this coordinator knows, and until it ends: see --revoked-tokens of serve.", err=True)
    emit(found, facts([("TOKEN", found["tokenId"]), ("LASTING", "yes" if found["lasting"] else "no")]))


@token.command()
@output_option
def show() -> None:
    """Say what the token in STREAMSHARD_TOKEN says. Nobody is asked whether that is true."""
    from streamshard.entrypoints.security.tokens import claims_told

    kind, _, text = (credentials(None, None, os.environ).header or "").partition(" ")
    if kind != "Bearer":
        raise Failure(f"there is no token: set {TOKEN} or {TOKEN_FILE}", ExitCode.USAGE, "streamshard token create")
    try:
        told = claims_told(text)
    except ValueError as error:
        raise Failure(str(error), ExitCode.ERROR, "streamshard token create") from None
    rows = [("ID", told.get("jti")), ("ACCOUNT", told.get("sub"))]
    emit(told, facts([*rows, ("ISSUED", _moment(told.get("iat"))), ("EXPIRES", _moment(told.get("exp")))]))


def _moment(at: Any) -> str | None:
    if not isinstance(at, int):
        return None
    return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat().replace("+00:00", "Z")


def _password() -> str:
    if (password := os.environ.get(PASSWORD)) is not None:
        return password
    if file := os.environ.get(PASSWORD_FILE):
        with open(file) as opened:
            return opened.read().strip()
    return _typed("Password")


def _typed(what: str, *, again: bool = False) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    return str(click.prompt(what, hide_input=True, confirmation_prompt=again, err=True))
