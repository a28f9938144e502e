"""Where a Redis is: ``redis://``, ``rediss://`` with TLS, ``redis+cluster://``, ``rediss+cluster://``."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import attrs
from redis.asyncio.connection import parse_url

from streamshard.adapters.redis_link import Address
from streamshard.errors import ConfigurationError

DEFAULT_PORT = 6_379


@attrs.frozen
class Place:
    """What a URL says: where to begin, how to log in, and whether that is a cluster."""

    seeds: tuple[Address, ...]
    options: Mapping[str, Any] = attrs.field(repr=False)
    cluster: bool

    def at(self, address: Address) -> Mapping[str, Any]:
        """The driver's options for one server."""
        return {**self.options, "host": address[0], "port": address[1]}


def parse(url: str, what: str = "the metadata store's URL") -> Place:
    """Raise `ConfigurationError`, without the password, for what is no such URL.

    A cluster may be named by several of its nodes: ``redis+cluster://one:7000,two:7000``.
    """
    scheme, _, rest = url.partition("://")
    plain, _, kind = scheme.partition("+")
    if plain not in ("redis", "rediss") or kind not in ("", "cluster"):
        raise _wrong(what, "it begins with none of redis://, rediss://, redis+cluster://, rediss+cluster://")
    authority, slash, path = rest.partition("/")
    login, at, hosts = authority.rpartition("@")
    if kind == "" and "," in hosts:
        raise _wrong(what, "only a cluster can be named by several nodes")
    try:
        seeds = tuple(_address(host) for host in hosts.split(","))
        options = dict(parse_url(f"{plain}://{login}{at}{hosts.split(',')[0]}{slash}{path}"))
    except ValueError as error:
        raise _wrong(what, str(error)) from None
    if kind == "cluster" and options.get("db"):
        raise _wrong(what, "a cluster has no databases but 0")
    return Place(seeds, options, kind == "cluster")


def _address(text: str) -> Address:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a host is missing")
    return parts.hostname, parts.port or DEFAULT_PORT


def _wrong(what: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{what} can't be used: {why}")
