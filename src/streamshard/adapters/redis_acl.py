"""What an account at Redis has to be allowed, per role: one table, for the command line, the docs and the tests."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

import attrs

from streamshard.core.dead_letters import dead_letter_key
from streamshard.core.ids import StreamPrefix

Release = tuple[int, int]

SHARD = "{prefix}:[0-9]*"
FENCE = "{{{prefix}:[0-9]*}}:fence"
DEAD_LETTERS = "{dead_letters}"
METADATA = "streamshard:*"
EVERY_STREAM = StreamPrefix("*")
PASSWORD = ">PASSWORD"
"""Stands where the password has to be put."""


class Role(Enum):
    """Who logs in."""

    CONSUMER = "consumer"
    PRODUCER = "producer"
    COORDINATOR = "coordinator"
    MONITOR = "monitor"
    OPERATOR = "operator"


class Part(Enum):
    """What a coordinator keeps, which may be two servers."""

    SHARDS = "shards"
    METADATA = "metadata"


class Topology(Enum):
    """What the servers are."""

    STANDALONE = "standalone"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@attrs.frozen
class Need:
    """Commands for one purpose."""

    why: str
    commands: tuple[str, ...]
    topology: Topology | None = None
    """None: everywhere."""
    since: Release | None = None
    """The first Redis that has them; None: every server that is supported. Valkey has none of those."""


@attrs.frozen
class Grant:
    """Keys, and what may be done with them; rendered as the user's own rules, or as a selector of its own."""

    keys: tuple[str, ...]
    needs: tuple[Need, ...]
    part: Part = Part.SHARDS
    channels: tuple[tuple[Topology, str], ...] = ()


@attrs.frozen
class Asked:
    """For whom rules are wanted, and for which servers."""

    roles: tuple[Role, ...]
    prefixes: tuple[StreamPrefix, ...] = (EVERY_STREAM,)
    topology: Topology = Topology.STANDALONE
    redis: Release | None = None
    """The release of Redis; None: rules that every supported server takes."""
    database: int = 0
    only: Part | None = None


_SCRIPTS = Need("run the scripts that check the fence beside a shard", ("evalsha", "eval"))
_LOOKS = Need("run the scripts that only read", ("evalsha_ro", "eval_ro"))
_FENCE = Need("read and raise the fence", ("hmget", "hset"))
_GROUPS = Need("find the groups on a shard, and how far they are", ("type", "xinfo|groups", "xpending", "xrange"))
_ANYWHERE = (
    Need("find the node of a shard, also while its slot moves", ("cluster|slots", "asking"), Topology.CLUSTER),
)

TABLE: Mapping[Role, tuple[Grant, ...]] = {
    Role.CONSUMER: (
        Grant(
            keys=(f"%RW~{SHARD}", f"%RW~{FENCE}"),
            channels=((Topology.CLUSTER, "__redis__:invalidate"),),
            needs=(
                _SCRIPTS,
                _FENCE,
                _GROUPS,
                Need("read and take over records", ("xreadgroup", "xautoclaim", "xclaim")),
                Need("acknowledge", ("xack",)),
                Need("acknowledge and delete (`ack_del`)", ("xackdel",), since=(8, 2)),
                Need("give records back (`nack`)", ("xnack",), since=(8, 8)),
                Need("wait for new records", ("xread",)),
                Need("hear of new records", ("client|id", "client|tracking", "subscribe", "ping"), Topology.CLUSTER),
                Need("delete its own name when it leaves", ("xinfo|consumers", "xgroup|delconsumer")),
                Need("ask what the server can do", ("info", "command|info")),
                *_ANYWHERE,
            ),
        ),
        Grant(keys=(f"%W~{DEAD_LETTERS}",), needs=(Need("give records up (`max_deliveries`)", ("xadd",)),)),
    ),
    Role.PRODUCER: (
        Grant(
            keys=(f"%W~{SHARD}",),
            needs=(
                Need("publish, and trim if asked to", ("xadd",)),
                Need("ask whether the server takes a record once", ("command|info",)),
                *_ANYWHERE,
            ),
        ),
    ),
    Role.COORDINATOR: (
        Grant(
            keys=(f"%RW~{SHARD}", f"%RW~{FENCE}"),
            needs=(
                _SCRIPTS,
                _LOOKS,
                Need("read and raise the fence, and forget groups", ("hmget", "hset", "hgetall", "hdel")),
                _GROUPS,
                Need("see how long a shard is, and what is on it", ("exists", "xlen", "xinfo|stream", "xrevrange")),
                Need("see its size and the server's clock", ("memory|usage", "time")),
                Need("make shards and groups, and delete groups", ("xgroup|create", "xgroup|destroy")),
                Need("set counters right after records were deleted", ("xgroup|setid",)),
                Need("trim what every group has acknowledged", ("xtrim",)),
                Need("delete shards that are drained, or were asked to be dropped", ("del", "unlink")),
                *_ANYWHERE,
            ),
        ),
        Grant(
            part=Part.METADATA,
            keys=(f"%RW~{METADATA}",),
            needs=(
                Need("load and commit records, each in one script", ("script|load", "evalsha", "eval")),
                Need("read a record, within the script", ("hmget", "hget", "hgetall", "hstrlen", "pttl")),
                Need("write a record, within the script", ("hset", "hdel", "exists", "del")),
                Need("know the server again after a failover, and that it does not evict", ("info",)),
                Need("list the streams", ("smembers", "sadd")),
                Need("find the list again (`repair index`)", ("scan", "type", "persist")),
                Need("find the node of a record", ("cluster|slots",), Topology.CLUSTER),
            ),
        ),
    ),
    Role.MONITOR: (
        Grant(
            keys=(f"%R~{SHARD}", f"%R~{FENCE}", f"%R~{DEAD_LETTERS}"),
            needs=(
                _LOOKS,
                Need("read how many records a group missed", ("hmget",)),
                _GROUPS,
                Need("see how long a shard is, and what is on it", ("xlen", "xinfo|stream", "xrevrange")),
                Need("see its size and the server's clock", ("memory|usage", "time")),
                *_ANYWHERE,
            ),
        ),
    ),
    Role.OPERATOR: (
        Grant(
            keys=(f"%RW~{DEAD_LETTERS}",),
            needs=(
                Need("list, show and drop dead letters (`streamshard dlq`)", ("xrange", "xlen", "xdel")),
                *_ANYWHERE,
            ),
        ),
        Grant(keys=(f"%W~{SHARD}",), needs=(Need("redrive dead letters", ("xadd",)),)),
    ),
}


def grants(asked: Asked) -> tuple[Grant, ...]:
    """What of the table concerns these servers."""
    chosen = [grant for grant in _all(asked) if asked.only is None or grant.part is asked.only]
    return tuple(attrs.evolve(grant, needs=_needs(grant, asked)) for grant in chosen)


def _all(asked: Asked) -> Iterator[Grant]:
    for role in dict.fromkeys(asked.roles):
        yield from TABLE[role]


def left_out(asked: Asked) -> tuple[Need, ...]:
    """What is not granted because not every server has it."""
    return tuple(n for grant in _all(asked) for n in grant.needs if n.since and not _has(asked.redis, n.since))


def rules(asked: Asked, secret: str = PASSWORD) -> tuple[str, ...]:
    """The words of ``ACL SETUSER`` behind the name, which replace whatever the account was allowed before."""
    own, *selectors = (_rule(grant, asked) for grant in grants(asked))
    if asked.database:
        own += ("+select",)
    return ("reset", "on", secret, "resetchannels", "-@all", *own, *(f"({' '.join(words)})" for words in selectors))


def hashed(password: str) -> str:
    """A password as it may be written down: Redis keeps the same."""
    return f"#{hashlib.sha256(password.encode()).hexdigest()}"


def _needs(grant: Grant, asked: Asked) -> tuple[Need, ...]:
    return tuple(
        need
        for need in grant.needs
        if need.topology in (None, asked.topology) and (need.since is None or _has(asked.redis, need.since))
    )


def _has(redis: Release | None, since: Release) -> bool:
    return redis is not None and redis >= since


def _rule(grant: Grant, asked: Asked) -> tuple[str, ...]:
    channels = (f"&{name}" for topology, name in grant.channels if topology is asked.topology)
    commands = dict.fromkeys(command for need in grant.needs for command in need.commands)
    return (*keys(grant, asked.prefixes), *channels, *(f"+{command}" for command in commands))


def keys(grant: Grant, prefixes: Sequence[StreamPrefix]) -> tuple[str, ...]:
    """A grant's key patterns for these streams."""
    found = [pattern.format(**_names(prefix)) for prefix in prefixes for pattern in grant.keys]
    return tuple(dict.fromkeys(found))


def _names(prefix: StreamPrefix) -> Mapping[str, str]:
    if prefix == EVERY_STREAM:
        return {"prefix": "*", "dead_letters": dead_letter_key(prefix)}
    # Signs that patterns and rules read as something else; spaces and quotes can't be written at all.
    safe = StreamPrefix(re.sub(r"([*?\[\]\\])", r"\\\1", re.sub(r"[\s\"'()]", "\0", prefix)).replace("\0", "?"))
    return {"prefix": safe, "dead_letters": dead_letter_key(safe)}
