"""What servers say of themselves and of one's account, for whoever wants to know before it matters."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from redis.exceptions import RedisError

from streamshard.adapters.redis_acl import DEAD_LETTERS, FENCE, METADATA, Asked, Grant, Need, Release, grants, keys
from streamshard.adapters.redis_link import AnswerLost, Line, NotSent, Word, describe
from streamshard.adapters.redis_sentinel import masters
from streamshard.adapters.redis_url import Address, Place, host_and_port
from streamshard.adapters.streams.cluster_map import ClusterMap
from streamshard.core.ids import Millis, StreamPrefix
from streamshard.errors import StreamUnavailable

TIMEOUT = Millis(3_000)
SECTIONS = ("server", "clients", "memory", "persistence", "replication", "cluster")
NEWER = ("XACKDEL", "XNACK", "XCFGSET")
"""Commands that not every server has; the last came with appends that are taken once."""
TUNED = ("save", "min-replicas-to-write", "appendfsync")

_MAY_I = """
local said, at = {}, 1
while at <= #ARGV do
  local words = {}
  for i = 1, tonumber(ARGV[at]) do words[i] = ARGV[at + i] end
  at = at + #words + 1
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  said[#said + 1] = (known and allowed) and 1 or 0
end
return said
"""
"""Only reads, and needs no permission but that for scripts."""

_WITHOUT_KEYS = {"client|id", "client|tracking", "ping", "info", "command|info", "time", "cluster|slots", "asking"}
_WITHOUT_KEYS |= {"script|load", "scan"}
_ON_FENCES = {"hmget", "hset", "hgetall", "hdel"}


@attrs.frozen
class Survey:
    """One server, as seen over one connection."""

    where: str
    info: Mapping[str, str]
    tuned: Mapping[str, str]
    """Of ``TUNED``; empty where the account may not ask."""
    newer: frozenset[str]
    """Which of ``NEWER`` it has."""
    clock_ahead_ms: float | None
    """Of this machine's; None where the account may not ask."""
    round_trip_ms: float
    scripts: str
    """Empty where they run, else why not."""
    lacking: tuple[Need, ...] | None = None
    """What the account may not do; None where that can't be told."""

    @property
    def name(self) -> str:
        """Which server it is, with its version."""
        if version := self.info.get("valkey_version"):
            return f"Valkey {version}"
        return f"Redis {self.info['redis_version']}" if "redis_version" in self.info else "a server that does not say"

    @property
    def release(self) -> Release | None:
        """Of Redis; None for Valkey, and where it is not told."""
        if "valkey_version" in self.info:
            return None
        parts = self.info.get("redis_version", "").split(".")
        known = len(parts) > 1 and all(part.isdigit() for part in parts[:2])
        return (int(parts[0]), int(parts[1])) if known else None


@attrs.frozen
class Fleet:
    """The servers behind a URL."""

    masters: tuple[Address, ...]
    slots: ClusterMap | None = None
    """Who serves which key, in a cluster."""


async def find(place: Place) -> Fleet:
    """Whom a URL leads to now; raises `StreamUnavailable` where nobody says."""
    if place.cluster:
        known = ClusterMap(place, TIMEOUT)
        await known.refresh()
        return Fleet(known.nodes, known)
    if not place.sentinel:
        return Fleet(place.seeds)
    try:
        return Fleet((await masters(place, TIMEOUT))[:1])
    except NotSent as error:
        raise StreamUnavailable(str(error)) from error


async def survey(place: Place, address: Address, asked: Asked) -> Survey:
    """Ask one server; ``asked`` says for whom the account is. Raises `StreamUnavailable`."""
    where = host_and_port(address)
    try:
        line = await Line.open(place.at(address), TIMEOUT)
    except NotSent as error:
        raise StreamUnavailable(f"{where} does not let us in: {error}") from error
    try:
        seen = await _look(line, where)
        needs = _needs(attrs.evolve(asked, redis=seen.release))
        return attrs.evolve(seen, lacking=await _lacking(line, needs))
    except (NotSent, AnswerLost) as error:
        raise StreamUnavailable(f"{where} does not answer: {error}") from error
    finally:
        await line.close()


async def _look(line: Line, where: str) -> Survey:
    sent, sent_at = time.perf_counter(), time.time()
    told = await line.ask("TIME")
    took = time.perf_counter() - sent
    infos = await asyncio.gather(*(line.ask("INFO", section) for section in SECTIONS))
    known = await line.ask("COMMAND", "INFO", *NEWER)
    tuned = await asyncio.gather(*(line.ask("CONFIG", "GET", name) for name in TUNED))
    script = await line.ask("EVAL", "return 1", 0)
    return Survey(
        where=where,
        info=_facts(infos),
        tuned=_tuned(tuned),
        newer=_known(known),
        clock_ahead_ms=_ahead(told, sent_at + took / 2),
        round_trip_ms=took * 1000,
        scripts=describe(script) if isinstance(script, RedisError) else "",
    )


def _facts(sections: Sequence[object]) -> dict[str, str]:
    text = b"\r\n".join(section for section in sections if isinstance(section, bytes)).decode("utf-8", "replace")
    pairs = (row.partition(":") for row in text.splitlines())
    return {name: value for name, colon, value in pairs if colon}


def _tuned(answers: Sequence[Any]) -> dict[str, str]:
    return {name: answer[1].decode() for name, answer in zip(TUNED, answers, strict=True) if _is_pair(answer)}


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2  # noqa: PLR2004


def _known(told: Any) -> frozenset[str]:
    if not isinstance(told, list) or len(told) != len(NEWER):
        return frozenset()
    return frozenset(name for name, what in zip(NEWER, told, strict=True) if what)


def _ahead(told: Any, now: float) -> float | None:
    return (int(told[0]) + int(told[1]) / 1e6 - now) * 1000 if _is_pair(told) else None


async def _lacking(line: Line, needs: Sequence[tuple[Need, tuple[tuple[str, ...], ...]]]) -> tuple[Need, ...] | None:
    words: list[Word] = []
    for _, tries in needs:
        for command in tries:
            words += [len(command), *command]
    told: Any = None
    for how in ("EVAL_RO", "EVAL"):
        told = await line.ask(how, _MAY_I, 0, *words)
        if isinstance(told, list):
            break
    if not isinstance(told, list):
        return None
    answers = iter(told)
    denied = ((need, [command for command in tries if not next(answers)]) for need, tries in needs)
    return tuple(attrs.evolve(need, commands=tuple(_named(c) for c in refused)) for need, refused in denied if refused)


def _named(command: Sequence[str]) -> str:
    return " ".join(command)


def _needs(asked: Asked) -> list[tuple[Need, tuple[tuple[str, ...], ...]]]:
    return [
        (need, tuple(_typed(grant, name, asked) for name in need.commands))
        for grant in grants(asked)
        for need in grant.needs
    ]


def _typed(grant: Grant, name: str, asked: Asked) -> tuple[str, ...]:
    """A command as it would be sent, as far as a server's rules look at it; it never is."""
    words = tuple(name.split("|"))
    if name in _WITHOUT_KEYS:
        return words
    if name == "subscribe":
        return (*words, "__redis__:invalidate")
    key = _key(grant, name, asked.prefixes[0])
    match name:
        case "eval" | "evalsha" | "eval_ro" | "evalsha_ro":
            return (*words, "script", "1", key)
        case "xreadgroup":
            return (*words, "GROUP", "group", "consumer", "STREAMS", key, ">")
        case "xread":
            return (*words, "STREAMS", key, "0")
    return (*words, key)


def _key(grant: Grant, name: str, prefix: StreamPrefix) -> str:
    patterns = [pattern for pattern in grant.keys if (FENCE in pattern) == (name in _ON_FENCES)] or list(grant.keys)
    if METADATA in patterns[0]:
        return f"streamshard:{{p:{prefix}}}:stream"
    if DEAD_LETTERS in patterns[0]:
        return next(iter(_sampled(attrs.evolve(grant, keys=(patterns[0],)), prefix)))
    return next(iter(_sampled(attrs.evolve(grant, keys=(patterns[0],)), prefix))).replace("[0-9]*", "0")


def _sampled(grant: Grant, prefix: StreamPrefix) -> Iterator[str]:
    for pattern in keys(grant, (prefix,)):
        yield pattern.partition("~")[2]
