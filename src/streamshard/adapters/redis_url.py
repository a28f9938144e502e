"""Where a Redis is and how to get in: the one reader of every Redis URL.

``redis://`` and ``rediss://`` (TLS) name a server, ``unix://`` its socket, ``redis+cluster://`` some nodes of a
cluster, ``redis+sentinel://`` the sentinels that know a master. No message repeats what the URL says besides
names of parameters: the rest may be a password, also a badly written one.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any, TypeAlias
from urllib.parse import unquote

import attrs

from streamshard.adapters.redis_tls import PARAMETERS as TLS_PARAMETERS
from streamshard.adapters.redis_tls import Tls
from streamshard.errors import ConfigurationError

Address: TypeAlias = tuple[str, int]

DEFAULT_PORT = 6_379
SENTINEL_PORT = 26_379
HIGHEST_PORT = 65_535


class Kind(Enum):
    """What the servers named by a URL are."""

    ONE = ""
    CLUSTER = "cluster"
    SENTINEL = "sentinel"


SCHEMES: Mapping[str, tuple[Kind, bool]] = {
    f"{plain}{'+' if kind.value else ''}{kind.value}": (kind, plain == "rediss")
    for kind in Kind
    for plain in ("redis", "rediss")
} | {"unix": (Kind.ONE, False)}
"""What they name, and whether TLS is spoken."""

_LOGIN = ("username", "password", "password_file")
_SENTINEL = tuple(f"sentinel_{name}" for name in _LOGIN)
PARAMETERS = ("db", *_LOGIN, *_SENTINEL, *TLS_PARAMETERS)
_OURS = {"protocol", "decode_responses", "encoding", "encoding_errors", "socket_timeout", "socket_connect_timeout"}
_OURS |= {"retry_on_timeout", "retry_on_error", "max_connections", "health_check_interval", "socket_keepalive"}
"""What the driver reads from a URL, and this library decides by itself."""


@attrs.frozen
class Place:
    """What a URL says: where to begin, how to log in, and what is there."""

    seeds: tuple[Address, ...]
    """The server, nodes of the cluster, or the sentinels; a socket's path and port 0."""
    options: Mapping[str, Any] = attrs.field(repr=False)
    """For `redis_link.connection_to`: ``db``, ``username``, ``password``, ``password_file``, ``tls``, ``path``."""
    kind: Kind = Kind.ONE
    service: str = ""
    """The master's name at the sentinels."""
    sentinel_options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    """As ``options``, for the sentinels themselves."""

    @property
    def cluster(self) -> bool:
        """Shards are spread over several servers."""
        return self.kind is Kind.CLUSTER

    @property
    def sentinel(self) -> bool:
        """Who is the master has to be asked at every connect."""
        return self.kind is Kind.SENTINEL

    @property
    def name(self) -> str:
        """Where that is, in words that may be logged."""
        if self.sentinel:
            return f"{self.service} of the sentinels {','.join(map(host_and_port, self.seeds))}"
        return ",".join(map(host_and_port, self.seeds))

    def at(self, address: Address) -> Mapping[str, Any]:
        """The options for one server, the socket's too."""
        if "path" in self.options:
            return self.options
        return {**self.options, "host": address[0], "port": address[1]}

    def sentinel_at(self, address: Address) -> Mapping[str, Any]:
        """The options for one sentinel."""
        return {**self.sentinel_options, "host": address[0], "port": address[1]}

    def only(self, address: Address) -> "Place":
        """One server of it, entered in the same way."""
        return Place((address,), self.options)


def host_and_port(address: Address) -> str:
    """As it is written in a URL; a socket's path as it is."""
    host, port = address
    if port == 0:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse(url: str, what: str = "the metadata store's URL") -> Place:
    """Raise `ConfigurationError`, without the password, for what is no such URL, and for files that can't be read.

    A cluster or its sentinels may be named by several: ``redis+cluster://one:7000,two:7000``.
    """
    try:
        return read(url)
    except ValueError as error:
        raise ConfigurationError(f"{what} can't be used: {error}") from None


def read(url: str) -> Place:
    """As `parse`, but raises `ValueError` with nothing but the reason, for whoever names the option."""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme not in SCHEMES:
        raise ValueError(f"it begins with none of {', '.join(f'{name}://' for name in sorted(SCHEMES))}")
    kind, encrypted = SCHEMES[scheme]
    authority, path, query = _split(rest)
    login, _, hosts = authority.rpartition("@")
    given = _parameters(query)
    options = _login(login, given)
    service = ""
    if scheme == "unix":
        if hosts:
            raise ValueError("the path of the socket has to be absolute: unix:///run/redis.sock")
        options["path"], path = f"/{_decoded(path)}", ""
    elif kind is Kind.SENTINEL:
        service, _, path = path.partition("/")
        service = _service(service)
    options["db"] = _database(path, given.pop("db", ""), kind)
    sentinel_options = _own(given, "sentinel_") if kind is Kind.SENTINEL else {}
    if encrypted:
        options["tls"] = tls = Tls.read(given)
        if kind is Kind.SENTINEL:
            sentinel_options["tls"] = tls
    _refuse_the_rest(given)
    seeds = ((options["path"], 0),) if scheme == "unix" else _addresses(hosts, kind)
    return Place(seeds, {k: v for k, v in options.items() if v}, kind, service, sentinel_options)


def _split(rest: str) -> tuple[str, str, str]:
    """Authority, path, query."""
    found = re.fullmatch(r"([^/?#]*)(?:/([^?#]*))?(?:\?([^#]*))?(#.*)?", rest, re.DOTALL)
    assert found is not None, "the pattern matches anything"
    authority, path, query, fragment = (part or "" for part in found.groups())
    if "@" in path + query + fragment or authority.count("@") > 1:
        raise ValueError("a user, password or parameter holds one of @ / ? #: write %40, %2F, %3F, %23 for them")
    if fragment:
        raise ValueError("it holds a #, which ends a URL: write %23")
    return authority, path, query


def _parameters(query: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for number, pair in enumerate(filter(None, query.split("&")), 1):
        name, _, value = pair.partition("=")
        if name not in PARAMETERS:
            raise ValueError(_unknown(name, number))
        if name in given:
            raise ValueError(f"{name}: is given twice")
        given[name] = _decoded(value, name)
    return given


def _unknown(name: str, number: int) -> str:
    if name in _OURS:
        return f"{name}: is decided by streamshard: leave it out"
    if near := get_close_matches(name, PARAMETERS, 1):
        return f"{re.sub(r'[^A-Za-z0-9_.-]', '?', name)}: is no parameter of a Redis URL: did you mean {near[0]}?"
    # The name stays out: it may be what follows an & in a password.
    return f"parameter {number} is none of {', '.join(PARAMETERS)} (an & within a value is written %26)"


def _refuse_the_rest(given: Mapping[str, str]) -> None:
    for name in given:
        remedy = "rediss://" if name in TLS_PARAMETERS else "redis+sentinel://"
        raise ValueError(f"{name}: means something with {remedy}… only")


def _login(login: str, given: dict[str, str]) -> dict[str, Any]:
    username, colon, password = login.partition(":")
    for name, there in (("username", bool(username)), ("password", bool(colon))):
        if there and name in given:
            raise ValueError(f"{name}: is given twice, before the host and as a parameter")
    given |= {"username": _decoded(username, "username")} if username else {}
    given |= {"password": _decoded(password, "password")} if colon else {}
    return _own(given, "")


def _own(given: dict[str, str], before: str) -> dict[str, Any]:
    """Take a login's parameters out of those given."""
    found = {name: given.pop(before + name, "") for name in _LOGIN}
    if found["password"] and found["password_file"]:
        raise ValueError(f"{before}password_file: is given beside a password: leave one of them out")
    if found["password_file"]:
        try:
            read_password(found["password_file"])
        except OSError as error:
            raise ValueError(f"{before}password_file: can't be read: {error.strerror}") from None
    return {name: value for name, value in found.items() if value}


def read_password(path: str) -> str:
    """A file's text without the line's end; raises `OSError`."""
    with open(path, encoding="utf-8") as file:
        try:
            return file.read().rstrip("\r\n")
        except UnicodeDecodeError:
            raise OSError(0, "it is not UTF-8") from None


def _service(text: str) -> str:
    if not (name := _decoded(text)):
        raise ValueError("the master's name is missing: redis+sentinel://HOST:26379/NAME")
    return name


def _database(path: str, given: str, kind: Kind) -> int:
    text = path.strip("/") or given or "0"
    if not (text.isascii() and text.isdigit() and len(text) <= 5):  # noqa: PLR2004
        raise ValueError("db: must be a whole number")
    if kind is Kind.CLUSTER and int(text):
        raise ValueError("a cluster has no databases but 0")
    return int(text)


def _addresses(hosts: str, kind: Kind) -> tuple[Address, ...]:
    if kind is Kind.ONE and "," in hosts:
        raise ValueError("only a cluster or its sentinels can be named by several hosts")
    port = SENTINEL_PORT if kind is Kind.SENTINEL else DEFAULT_PORT
    return tuple(_address(host, port) for host in hosts.split(","))


def _address(text: str, default: int) -> Address:
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:\s]*))(?::([0-9]{1,5}))?", text)
    if found is None:
        raise ValueError("port: must be a whole number behind the host's colon; an IPv6 address stands in brackets")
    host, port = _decoded(found[1] or found[2]), int(found[3] or default)
    if not host:
        raise ValueError("a host is missing")
    if not 1 <= port <= HIGHEST_PORT:
        raise ValueError(f"port: must be from 1 to {HIGHEST_PORT}")
    return host, port


def _decoded(text: str, name: str = "URL") -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise ValueError(f"{name}: a % has to be followed by two hexadecimal digits: write %25 for the sign itself")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: is not UTF-8 once its % signs are decoded") from None
