"""What a client shows to coordinators; nothing of it is ever printed."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from streamshard.errors import ConfigurationError

TOKEN = "STREAMSHARD_TOKEN"
TOKEN_FILE = "STREAMSHARD_TOKEN_FILE"
USER = "STREAMSHARD_USER"
PASSWORD = "STREAMSHARD_PASSWORD"
PASSWORD_FILE = "STREAMSHARD_PASSWORD_FILE"
CA_FILE = "STREAMSHARD_CA_FILE"

Auth: TypeAlias = tuple[str, str]
"""A name and a password."""


class Credentials:
    """A token, a token in a file, or a name with a password; nothing at all is fine, too."""

    def __init__(self, token: str | None = None, auth: Auth | None = None, token_file: str | None = None) -> None:
        if sum(given is not None for given in (token, auth, token_file)) > 1:
            raise ConfigurationError("token: give one of token and auth, not both")
        self._file = token_file
        if token_file is not None:
            token = _content(token_file, "token")
        self.header = f"Bearer {_in_a_header(token)}" if token is not None else basic(auth)
        """The value of ``Authorization``; None: nothing is shown."""

    def __repr__(self) -> str:
        return f"Credentials({'none' if self.header is None else self.header.partition(' ')[0]})"

    def renewed(self) -> bool:
        """Read the file again; whether there is another token in it."""
        if self._file is None:
            return False
        before = self.header
        self.header = f"Bearer {_in_a_header(_content(self._file, 'token'))}"
        return self.header != before


def credentials(token: str | None, auth: Auth | None, environment: Mapping[str, str]) -> Credentials:
    """Those that are given, else those of the environment; raises `ConfigurationError`."""
    if token is not None or auth is not None:
        return Credentials(token, auth)
    return Credentials(environment.get(TOKEN) or None, _auth_of(environment), environment.get(TOKEN_FILE) or None)


def _auth_of(environment: Mapping[str, str]) -> Auth | None:
    user = environment.get(USER)
    if not user:
        return None
    password, file = environment.get(PASSWORD), environment.get(PASSWORD_FILE)
    if password is None and not file:
        raise ConfigurationError(f"{USER}: is set without {PASSWORD} or {PASSWORD_FILE}")
    return user, password if password is not None else _content(file or "", "password")


def basic(auth: Auth | None) -> str | None:
    """The header that says it."""
    if auth is None:
        return None
    if ":" in auth[0]:
        raise ConfigurationError("auth: the name has a colon, which would end it: use another account")
    return "Basic " + base64.b64encode(f"{auth[0]}:{auth[1]}".encode()).decode()


def parted(url: str) -> tuple[str, str | None]:
    """A base URL without name and password, and the header that says these."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, None
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return bare, basic((unquote(parts.username), unquote(parts.password or "")))


def without_login(url: str) -> str:
    """``url`` as it may be shown."""
    return f"***@{url.rpartition('@')[2]}" if "@" in url else url


def _content(path: str, what: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{what} file {path}: can't be read: {getattr(error, 'strerror', error)}") from None


def _in_a_header(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("token: is none: it is one word of printable ASCII characters")
    return token
