"""What a server is asked before it may keep metadata: who it is, and whether it would forget."""

import asyncio
from collections.abc import Iterator

import attrs
from redis.exceptions import NoPermissionError, RedisError

from streamshard.adapters.redis_link import AnswerLost, Line, NotSent, describe
from streamshard.adapters.stores.redis_scripts import NAMES, script
from streamshard.errors import ConfigurationError, StoreUnavailable

_SECTIONS = ("server", "replication", "memory", "persistence", "cluster")


@attrs.frozen
class Identity:
    """A server process, and the history of writes that it serves."""

    history: str
    """The replication id: another one after a failover."""
    run: str
    """Another one after a restart."""
    doubts: tuple[str, ...] = attrs.field(default=(), eq=False)
    """What its operator should know of how it is set up."""

    def __str__(self) -> str:
        return f"redis:{self.history}:{self.run}"


async def greet(line: Line, where: str, *, cluster: bool) -> Identity:
    """Teach the server the scripts and find out who it is.

    Raises `ConfigurationError` if it must not keep metadata as it is set up, `StoreUnavailable` if it
    can't just now.
    """
    asked = [line.ask("INFO", section) for section in _SECTIONS]
    taught = [line.ask("SCRIPT", "LOAD", script(name).text) for name in NAMES]
    try:
        replies = await asyncio.gather(*asked, *taught)
    except (NotSent, AnswerLost) as error:
        raise StoreUnavailable(f"the metadata store at {where} does not answer: {error}") from error
    for reply in replies:
        if isinstance(reply, RedisError):
            raise _refused(reply, where)
    info = _parsed(b"\r\n".join(reply for reply in replies[: len(asked)] if isinstance(reply, bytes)))
    _check(info, where, cluster=cluster)
    return Identity(info.get("master_replid", ""), info.get("run_id", ""), tuple(_doubts(info, where)))


def _refused(error: RedisError, where: str) -> ConfigurationError | StoreUnavailable:
    if isinstance(error, NoPermissionError):
        return ConfigurationError(
            f"the account for the metadata store at {where} lacks a permission ({error}): "
            "allow it INFO, SCRIPT LOAD and what else `streamshard acl-rules coordinator` prints"
        )
    return StoreUnavailable(f"the metadata store at {where} refuses: {describe(error)}")


def _parsed(text: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def _check(info: dict[str, str], where: str, *, cluster: bool) -> None:
    if (info.get("cluster_enabled") == "1") != cluster:
        nature = "no node of a cluster" if cluster else "a node of a cluster"
        raise ConfigurationError(f"the server at {where} is {nature}: write redis{'' if cluster else '+cluster'}://…")
    if info.get("role") != "master":
        raise StoreUnavailable(f"the server at {where} is a replica: the metadata store has to be a primary")
    if not (info.get("master_replid") and info.get("run_id")):
        raise ConfigurationError(f"the server at {where} does not say who it is: INFO lacks its run id")
    _check_memory(info, where)


def _check_memory(info: dict[str, str], where: str) -> None:
    limit, policy = info.get("maxmemory"), info.get("maxmemory_policy")
    if policy not in (None, "noeviction") and limit != "0":
        raise ConfigurationError(
            f"the metadata store at {where} may throw records away (maxmemory-policy {policy}): "
            "set maxmemory-policy noeviction, or keep the metadata elsewhere"
        )


def _doubts(info: dict[str, str], where: str) -> Iterator[str]:
    if info.get("maxmemory_policy") is None:
        yield f"the metadata store at {where} does not say whether it evicts: make sure that it never does"
    if info.get("aof_enabled") == "0":
        yield f"the metadata store at {where} has no append-only file: a crash loses commits (set appendonly yes)"
