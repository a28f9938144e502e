"""What ``serve`` is told of accounts, limits and TLS, each value checked."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import attrs

from streamshard.entrypoints.security.limits import Limit

NONE = "none"
LEAST_SECRET_BYTES = 32
ACCOUNTS_TOML = "STREAMSHARD_ACCOUNTS_TOML"
TOKEN_SECRET = "STREAMSHARD_TOKEN_SECRET"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Value = TypeVar("Value")


@attrs.frozen
class SecuritySettings:
    """A checked set of choices; without accounts everybody who can connect may do everything."""

    accounts: Path | None = None
    accounts_toml: str | None = attrs.field(default=None, repr=False)
    """The same as text; one of the two."""
    secret: bytes | None = attrs.field(default=None, repr=False)
    token_lifetime_s: int = 7 * 86_400
    revoked: Path | None = None
    logins: Limit | None = Limit(10, 60)
    """Failed ones, of one name from one host."""
    changes: Limit | None = None
    proxies: tuple[Network, ...] = ()
    open_metrics: bool = False
    certificate: Path | None = None
    key: Path | None = None

    @property
    def has_accounts(self) -> bool:
        """Somebody has to be somebody."""
        return self.accounts is not None or self.accounts_toml is not None


def path(text: str) -> Path | None:
    """A file's name, or none."""
    return None if text == NONE else Path(text)


_LIMIT = re.compile(r"([1-9][0-9]{0,8})/(.+)")


def limit_in(seconds: Callable[[str], float]) -> Callable[[str], Limit | None]:
    """A parser of ``10/1m``, or ``off``."""

    def parse(text: str) -> Limit | None:
        if text == "off":
            return None
        found = _LIMIT.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"must be off, or a number and a duration such as 10/1m, not {text!r}")
        return Limit(int(found[1]), seconds(found[2]))

    return parse


def networks(text: str) -> tuple[Network, ...]:
    """Addresses and networks with commas between them, or none."""
    if text == NONE:
        return ()
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(","))
    except ValueError:
        raise ValueError(f"must be addresses or networks such as 10.0.0.0/8, with commas, not {text!r}") from None


def metrics_access(text: str) -> bool:
    """Whether they are open."""
    if text not in ("read", "open"):
        raise ValueError(f"must be read or open, not {text!r}")
    return text == "open"


def secret_in(file: Path | None, environment: Mapping[str, str]) -> bytes | None:
    """The secret that tokens are signed with; raises `ValueError` if it is too short to be one, without telling it."""
    text = environment.get(TOKEN_SECRET, "")
    if file is not None and text:
        raise ValueError(f"is set beside {TOKEN_SECRET}: unset one of them")
    if file is None and not text:
        return None
    try:
        secret = text.encode() if file is None else file.read_bytes().strip()
    except OSError as error:
        raise ValueError(f"the file can't be read: {error.strerror}") from None
    if len(secret) < LEAST_SECRET_BYTES:
        raise ValueError(
            f"the secret must be at least {LEAST_SECRET_BYTES} bytes long: make one with `openssl rand -hex 32`"
        )
    return secret
