"""Accounts: read from TOML, and looked up anew for every request, so that a change acts at once."""

import difflib
import logging
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from streamshard.core.names import name_problem
from streamshard.entrypoints.security.roles import ALIASES, Role
from streamshard.errors import ConfigurationError

logger = logging.getLogger(__name__)

MOST_ACCOUNTS = 10_000
_FIELDS = ("name", "hash", "roles", "prefixes")
_NEEDED = ("name", "hash", "roles")


@attrs.frozen
class Account:
    """A name with what proves it and what it may do."""

    name: str
    hash: str = attrs.field(repr=False)
    """Of its password, as ``streamshard auth hash`` prints it."""
    roles: frozenset[Role]
    prefixes: tuple[str, ...] = ()


def read_accounts(text: str, source: str) -> Mapping[str, Account]:
    """The accounts by name; raises `ConfigurationError` that names what is to be mended, and never a hash."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{source}: is no TOML: {error}") from None
    strange = sorted(set(found) - {"account"})
    listed = found.get("account", [])
    if strange or not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ConfigurationError(f"{source}: must have nothing but tables called [[account]]")
    if len(listed) > MOST_ACCOUNTS:
        raise ConfigurationError(f"{source}: lists more than {MOST_ACCOUNTS} accounts")
    accounts: dict[str, Account] = {}
    for number, each in enumerate(listed, 1):
        try:
            account = _account(each)
            if account.name in accounts:
                raise ValueError("name: stands there twice: give each account once")
        except ValueError as error:
            raise ConfigurationError(f"{source}: account {number}: {error}") from None
        accounts[account.name] = account
    return accounts


def _account(given: Mapping[str, Any]) -> Account:
    for field in sorted(set(given) - set(_FIELDS)):
        near = difflib.get_close_matches(field, _FIELDS, 1)
        raise ValueError(f"{field}: is not known" + (f": did you mean {near[0]}?" if near else ""))
    for field in _NEEDED:
        if field not in given:
            raise ValueError(f"{field}: is missing")
    return Account(_name(given["name"]), _hash(given["hash"]), _roles(given["roles"]), _prefixes(given))


def _name(given: object) -> str:
    problem = name_problem(given) if isinstance(given, str) else "must be text"
    if problem is None and ":" in str(given):
        problem = "has a colon, which ends the name in Basic authentication: take it out"
    if problem is not None:
        raise ValueError(f"name: {problem}")
    return str(given)


def _hash(given: object) -> str:
    if not isinstance(given, str) or not given.startswith("$argon2"):
        raise ValueError("hash: must be what `streamshard auth hash` prints")
    return given


def _roles(given: object) -> frozenset[Role]:
    known = ", ".join(sorted(ALIASES))
    if not isinstance(given, list) or not given:
        raise ValueError(f"roles: must be a list of {known}")
    for role in given:
        if role not in ALIASES:
            near = difflib.get_close_matches(str(role).upper(), ALIASES, 1)
            raise ValueError(f"roles: must be of {known}" + (f": did you mean {near[0]}?" if near else ""))
    return frozenset(ALIASES[role] for role in given)


def _prefixes(given: Mapping[str, Any]) -> tuple[str, ...]:
    listed = given.get("prefixes", [])
    if not isinstance(listed, list) or not all(isinstance(each, str) and each for each in listed):
        raise ValueError("prefixes: must be a list of streams; a * at the end of one stands for any rest")
    if "prefixes" in given and not listed:
        raise ValueError("prefixes: is empty: leave it out for every stream")
    return tuple(listed)


class Accounts:
    """A fixed set of accounts."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts

    def find(self, name: str) -> Account | None:
        """The account as it is now; None if there is none."""
        return self._now().get(name)

    def decoy(self) -> Account | None:
        """Whose hash takes the longest to compute: what a name that nobody has is compared with."""
        return max(self._now().values(), key=lambda account: _cost(account.hash), default=None)

    def reload(self) -> None:
        """Look again, whether something seems to have changed or not."""

    def _now(self) -> Mapping[str, Account]:
        return self._accounts


class AccountFile(Accounts):
    """Accounts in a file, which is read again when it has changed.

    A file that can't be read any more, or is wrong, is logged and changes nothing: the accounts stay what they were.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            stamp = stamp_of(path)
            super().__init__(read_accounts(path.read_text(), str(path)))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path}: can't be read: {_why(error)}") from None
        self._stamp: object = stamp

    def reload(self) -> None:
        """Read the file now."""
        try:
            self._stamp = stamp_of(self._path)
            self._accounts = read_accounts(self._path.read_text(), str(self._path))
            logger.info("%d accounts read from %s", len(self._accounts), self._path)
        except (OSError, UnicodeDecodeError) as error:
            logger.error("accounts stay as they were: %s can't be read: %s", self._path, _why(error))
        except ConfigurationError as error:
            logger.error("accounts stay as they were: %s", error.message)

    def _now(self) -> Mapping[str, Account]:
        if _changed(self._path, self._stamp):
            self.reload()
        return self._accounts


def stamp_of(path: Path) -> object:
    """Differs whenever the file was written or replaced."""
    seen = path.stat()
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


def _changed(path: Path, stamp: object) -> bool:
    try:
        return stamp_of(path) != stamp
    except OSError:  # on its way to being replaced, perhaps: what is known goes on to hold
        return False


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or "it is not UTF-8"


def _cost(encoded: str) -> int:
    found = dict(part.partition("=")[::2] for part in encoded.replace("$", ",").split(",") if "=" in part)
    return _whole(found.get("m")) * _whole(found.get("t"))


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 1


Wall = Callable[[], float]
"""Seconds since 1970."""
