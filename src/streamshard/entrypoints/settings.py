"""What ``streamshard serve`` is told: arguments before environment before a file before defaults, all checked."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import attrs

from streamshard.adapters import redis_url
from streamshard.core.ids import Millis
from streamshard.core.settings import MAX_SHARDS
from streamshard.core.timing import Timing
from streamshard.entrypoints.http.metrics_recorder import Detail
from streamshard.entrypoints.logs import FORMATS
from streamshard.entrypoints.options import Found, Option, Sources
from streamshard.entrypoints.security.settings import (
    ACCOUNTS_TOML,
    TOKEN_SECRET,
    SecuritySettings,
    limit_in,
    metrics_access,
    networks,
    path,
    secret_in,
)
from streamshard.errors import ConfigurationError

Value = TypeVar("Value")

MOST_MEMBERS_SHOWN = 100_000
MEMORY = "memory:"
SQLITE = "sqlite:///"


OPTIONS = (
    Option("host", "127.0.0.1", "IP address to listen on; a loopback one while there are no accounts."),
    Option("port", "8080", "Port to listen on; 0 takes a free one."),
    Option(
        "store",
        "sqlite:///streamshard.db",
        "Where metadata is kept: sqlite:///PATH, a Redis as for --redis, or memory: to try things.",
        in_file=True,
    ),
    Option(
        "redis",
        "redis://127.0.0.1:6379",
        "The Redis with the shards: redis://HOST:PORT, rediss:// for TLS, unix://PATH, redis+cluster://HOST:PORT,…, "
        "redis+sentinel://HOST:PORT,…/MASTER, or memory: to try things.",
        in_file=True,
    ),
    Option("lease", "15s", "How long a member may read without a heartbeat."),
    Option("heartbeat", "3s", "How often members renew."),
    Option("tick", "1s", "How often the coordinator looks after everything."),
    Option("rebalance_timeout", "60s", "How long a member may take to give a shard up."),
    Option("routing_lease", "60s", "How long producers may use a routing without a refresh."),
    Option("trim_every", "10s", "How often each shard is looked at for what can be trimmed, and for what went unread."),
    Option("default_shards", "12", "Shards of a stream that is created without a count."),
    Option("metrics_members", "200", "Members of a group up to which metrics show each one; 0 shows none."),
    Option("metrics_shards", "10000", "Shards of a group up to which metrics show each one; 0 shows none."),
    Option("log_format", "auto", "auto is text on a terminal and JSON elsewhere; or text, or json."),
    Option("accounts", "none", "TOML file with the accounts; it is read again when it changes."),
    Option("token_secret_file", "none", "File with the secret that tokens are signed with: at least 32 bytes."),
    Option("token_lifetime", "168h", "How long a token is one."),
    Option("revoked_tokens", "none", "File for the tokens that were taken back; made if it is not there."),
    Option("login_limit", "10/1m", "Failed logins of one name from one host; off lets everybody try for ever."),
    Option("admin_limit", "off", "Changes to one group by one account, such as 30/1m."),
    Option("trusted_proxies", "none", "Networks whose X-Forwarded-For is believed, with commas between them."),
    Option("metrics_access", "read", "Who gets /metrics where there are accounts: read or open."),
    Option("tls_cert", "none", "File with the server's certificate, and those between it and its authority."),
    Option("tls_key", "none", "File with the certificate's private key."),
)

SECRETS = (
    Option("accounts_toml", "none", "The accounts themselves, instead of a file with them.", secret=True),
    Option("token_secret", "none", "The secret itself, instead of a file with it.", secret=True),
)
"""Read from the environment alone."""


@attrs.frozen
class ServeSettings:
    """A checked set of choices."""

    host: str = "127.0.0.1"
    port: int = 8080
    store: str = "sqlite:///streamshard.db"
    redis: str = "redis://127.0.0.1:6379"
    timing: Timing = attrs.field(factory=Timing)
    default_shards: int = 12
    detail: Detail = attrs.field(factory=Detail)
    trim_every_ms: Millis = Millis(10_000)
    security: SecuritySettings = attrs.field(factory=SecuritySettings)
    log_format: str = "auto"


def serve_settings(arguments: Mapping[str, str | None], environment: Mapping[str, str]) -> ServeSettings:
    """Raise `ConfigurationError` naming every option to mend, with what it may be."""
    reader = _Reader(arguments, environment)
    security = _security(reader, environment)
    host = reader.read("host", _address if security.has_accounts else _loopback)
    port = reader.read("port", _whole(0, 65_535))
    store = reader.read("store", _store_url)
    redis = reader.read("redis", _redis_url)
    lease = reader.read("lease", duration)
    timing = Timing(
        lease_ms=lease,
        heartbeat_ms=reader.read("heartbeat", duration),
        tick_ms=reader.read("tick", duration),
        rebalance_timeout_ms=reader.read("rebalance_timeout", duration),
        routing_lease_ms=reader.read("routing_lease", duration),
    )
    trim_every = reader.read("trim_every", duration)
    shards = reader.read("default_shards", _whole(1, MAX_SHARDS))
    detail = Detail(
        most_members=reader.read("metrics_members", _whole(0, MOST_MEMBERS_SHOWN)),
        most_shards=reader.read("metrics_shards", _whole(0, MAX_SHARDS)),
    )
    log_format = reader.read("log_format", _log_format)
    problems = reader.problems or [_in_arguments(problem) for problem in timing.problems()]
    if problems:
        raise ConfigurationError("; ".join(problems))
    return ServeSettings(host, port, store, redis, timing, shards, detail, trim_every, security, log_format)


class _Reader:
    """Finds each option's text and gathers what is wrong, so that all of it is told at once."""

    def __init__(self, arguments: Mapping[str, str | None], environment: Mapping[str, str]) -> None:
        self._sources = Sources(OPTIONS, arguments, environment)
        self.problems = self._sources.problems

    def read(self, name: str, parse: Callable[[str], Value]) -> Value:
        option = next(option for option in OPTIONS if option.name == name)
        found = self._sources.find(option)
        try:
            return parse(found.text)
        except ValueError as error:
            self.problems.append(f"{found.source}: {error}")
            return parse(option.default)


def shown(found: Found) -> str:
    """An option's text as it may be printed: no secret, and no password within a URL."""
    if found.option.secret:
        return found.text if found.text == found.option.default else "***"
    if found.option.name not in _URLS:
        return found.text
    try:
        _URLS[found.option.name](found.text)
    except ValueError:
        return "(not shown: it is no such URL, and may hold a password)"
    return without_password(found.text)


_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h)?")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, None: 1_000}


def duration(text: str) -> Millis:
    """``15s``, ``500ms``, ``2m``, ``1h``; a bare number is seconds. Raises `ValueError` for anything else."""
    found = _DURATION.fullmatch(text.strip())
    length = 0 if found is None else round(float(found[1]) * _UNIT_MS[found[2]])
    if length < 1:
        raise ValueError(f"must be a duration such as 15s or 500ms, at least 1 ms, not {text!r}")
    return Millis(length)


def _log_format(text: str) -> str:
    if text not in FORMATS:
        raise ValueError(f"must be {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not {text!r}")
    return text


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text[:9]) <= most):
            raise ValueError(f"must be a whole number from {least} to {most}, not {text!r}")
        return int(text)

    return parse


def _security(reader: "_Reader", environment: Mapping[str, str]) -> SecuritySettings:
    def seconds(text: str) -> float:
        return duration(text) / 1000

    found = SecuritySettings(
        accounts=reader.read("accounts", path),
        accounts_toml=environment.get(ACCOUNTS_TOML) or None,
        secret=_secret(reader, environment),
        token_lifetime_s=max(1, int(reader.read("token_lifetime", seconds))),
        revoked=reader.read("revoked_tokens", path),
        logins=reader.read("login_limit", limit_in(seconds)),
        changes=reader.read("admin_limit", limit_in(seconds)),
        proxies=reader.read("trusted_proxies", networks),
        open_metrics=reader.read("metrics_access", metrics_access),
        certificate=reader.read("tls_cert", path),
        key=reader.read("tls_key", path),
    )
    reader.problems += () if reader.problems else _at_odds(found)
    return found


def _secret(reader: "_Reader", environment: Mapping[str, str]) -> bytes | None:
    file = reader.read("token_secret_file", path)
    try:
        return secret_in(file, environment)
    except ValueError as error:
        reader.problems.append(f"{TOKEN_SECRET if file is None else '--token-secret-file'}: {error}")
        return None


def _at_odds(found: SecuritySettings) -> list[str]:
    problems = []
    if found.accounts is not None and found.accounts_toml is not None:
        problems.append(f"--accounts: is set beside {ACCOUNTS_TOML}: unset one of them")
    if found.has_accounts and found.secret is None:
        problems.append(
            "--token-secret-file: is needed with accounts: name a file with at least 32 bytes that nobody can guess, "
            "such as `openssl rand -hex 32` makes"
        )
    if (found.certificate is None) != (found.key is None):
        problems.append("--tls-cert: goes with --tls-key: set both, or none")
    return problems


def _address(text: str) -> str:
    try:
        return "127.0.0.1" if text == "localhost" else str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f"must be an IP address such as 127.0.0.1, not {text!r}") from None


def _loopback(text: str) -> str:
    address = _address(text)
    if not ipaddress.ip_address(address).is_loopback:
        raise ValueError(
            f"{text} can be reached from other machines, and there are no accounts to let in only whom you "
            "trust: accounts come first (--accounts FILE), else use 127.0.0.1 or ::1"
        )
    return address


def _store_url(text: str) -> str:
    in_file = text.startswith(SQLITE) and len(text) > len(SQLITE)
    if text == MEMORY or in_file:
        return text
    if not _names_redis(text):
        raise ValueError(
            "must be sqlite:///PATH (a fourth slash starts an absolute path), memory:, or a Redis: "
            f"{', '.join(f'{scheme}://' for scheme in redis_url.SCHEMES)}"
        )
    redis_url.read(text)
    return text


def _redis_url(text: str) -> str:
    # The text itself stays out of the message: it may hold a password.
    if text == MEMORY:
        return text
    if not _names_redis(text):
        raise ValueError(f"must be memory:, or begin with {', '.join(f'{s}://' for s in redis_url.SCHEMES)}")
    redis_url.read(text)
    return text


_URLS: Mapping[str, Callable[[str], str]] = {"store": _store_url, "redis": _redis_url}


def _names_redis(text: str) -> bool:
    return text.partition("://")[0] in redis_url.SCHEMES and "://" in text


def without_password(url: str) -> str:
    """``url`` as it may be logged."""
    parts = urlsplit(url)
    if url.startswith(SQLITE) or (parts.password is None and "?" not in url):
        return url
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"***@{host}" if "@" in parts.netloc else host, query="").geturl()


def _in_arguments(problem: str) -> str:
    names = {"rebalance_timeout_ms", "routing_lease_ms", "heartbeat_ms", "lease_ms", "tick_ms"}
    return re.sub(r"[a-z_]+_ms", lambda m: _argument(m[0]) if m[0] in names else m[0], problem)


def _argument(field: str) -> str:
    return "--" + field.removesuffix("_ms").replace("_", "-")
