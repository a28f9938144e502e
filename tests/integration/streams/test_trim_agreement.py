"""Trims on real servers against the rule itself, for ids of every length and groups in every position."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from streamshard.adapters.streams.redis_backend import RedisStreamBackend
from streamshard.core.effects import Trim, TrimVerdict
from streamshard.core.ids import Generation, GroupName, LayoutVersion
from tests.integration.streams.rigs import AUDIT, BILLING, KEY, ORDERS, ZERO, provision

STRANGER = GroupName("stranger")
GROUPS = (BILLING, AUDIT, STRANGER)
TIMES = [9, 10, 2**53, 2**53 + 1]
SEQUENCES = [2, 9, 10, 2**53, 2**53 + 1, 2**64 - 2]
"""Such as differ in length, and such as are one to a floating-point number."""

Id = tuple[int, int]
T = TypeVar("T")


@attrs.frozen
class Reader:
    """A group: how many records it was given, which of them it has not acknowledged, and where it was set back to."""

    given: int
    pending: frozenset[int]
    back: int | None


ids = st.tuples(st.sampled_from(TIMES), st.sampled_from(SEQUENCES))
readers = st.builds(
    Reader,
    given=st.integers(2, 12) | st.just(12),
    pending=st.frozensets(st.integers(2, 11), max_size=2),
    back=st.none() | st.none() | st.integers(1, 11),
)


def text(one: Id) -> str:
    return f"{one[0]}-{one[1]}"


def needed(entries: list[Id], reader: Reader) -> Id:
    """By the rule: the smallest that is pending, or the last that was given, whichever comes first."""
    given = entries[: reader.given]
    last = given[-1] if reader.back is None else entries[reader.back]
    return min([last, *(one for number, one in enumerate(given) if number in reader.pending)])


def kept(redis: Redis) -> list[str]:
    found: Any = redis.xrange(KEY)
    return [entry[0].decode() for entry in found]


@pytest.fixture
def redis(server_url: str) -> Iterator[Redis]:
    """A server that keeps one record a node, and so can trim to the record."""
    with Redis.from_url(server_url) as client:
        client.config_set("stream-node-max-entries", 1)
        yield client
        client.config_set("stream-node-max-entries", 100)


def set_up(redis: Redis, url: str, entries: list[Id], groups: Mapping[GroupName, Reader]) -> None:
    redis.flushall()
    perform(url, lambda backend: backend.provision([provision((BILLING, "0"), (AUDIT, "0"))]))
    redis.xgroup_create(KEY, STRANGER, "0")
    for one in entries:
        redis.xadd(KEY, {"a": 1}, id=text(one))
    for name, reader in groups.items():
        redis.xreadgroup(name, "c", {KEY: ">"}, count=reader.given)
        for number in set(range(reader.given)) - reader.pending:
            redis.xack(KEY, name, text(entries[number]))
        if reader.back is not None:
            redis.xgroup_setid(KEY, name, text(entries[reader.back]))


def perform(url: str, call: Callable[[RedisStreamBackend], Awaitable[T]]) -> T:
    async def main() -> T:
        backend = RedisStreamBackend.from_url(url)
        try:
            return await call(backend)
        finally:
            await backend.close()

    return asyncio.run(main())


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    entries=st.lists(ids, min_size=12, max_size=12, unique=True).map(sorted),
    groups=st.tuples(readers, readers, readers),
)
def test_what_stays_is_what_some_group_needs(
    redis: Redis, server_url: str, entries: list[Id], groups: tuple[Reader, Reader, Reader]
) -> None:
    set_up(redis, server_url, entries, dict(zip(GROUPS, groups, strict=True)))
    floor = min(needed(entries, reader) for reader in groups)
    order = Trim(ORDERS, ZERO, Generation(1), LayoutVersion(1), (BILLING, AUDIT), limit=1_000)

    (done,) = perform(server_url, lambda backend: backend.trim([order]))

    assert (done.verdict, done.floor) == (TrimVerdict.DONE, text(floor))
    assert kept(redis) == [text(one) for one in entries if one >= floor]
