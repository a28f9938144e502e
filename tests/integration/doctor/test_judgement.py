"""What is found is OK, a warning or a failure, by what it would cost."""

from pathlib import Path

import attrs
import pytest

from streamshard.adapters.redis_acl import Need, Role
from streamshard.adapters.redis_survey import Survey
from streamshard.adapters.redis_url import Address
from streamshard.adapters.stores.sqlite_survey import FileSurvey
from streamshard.entrypoints.doctor import coordinators, files, servers
from streamshard.entrypoints.doctor.findings import Level
from streamshard.entrypoints.doctor.spread import spread

INFO = {
    "redis_version": "7.2.4",
    "role": "master",
    "maxmemory": "0",
    "maxmemory_policy": "noeviction",
    "aof_enabled": "1",
    "connected_slaves": "0",
    "maxclients": "100",
    "connected_clients": "10",
}
GOOD = Survey("one:1", INFO, {"appendfsync": "everysec"}, frozenset(), 0.0, 1.0, "", ())
FILE = FileSurvey(
    Path("meta.db"), there=True, writable=True, free_bytes=1 << 40, total_bytes=1 << 41, journal="wal", schema=1
)
MIB = 1 << 20


def level(check: str, seen: Survey, *, role: Role = Role.COORDINATOR, expected: int = 0) -> Level:
    (found,) = (each for each in servers.judged(seen, role, expected=expected) if each.check == check)
    assert bool(found.remedy) == (found.level is not Level.OK), "whatever is wrong, it is said what to do"
    return found.level


def knowing(**info: str) -> Survey:
    return attrs.evolve(GOOD, info={**INFO, **info})


def without(*names: str) -> Survey:
    return attrs.evolve(GOOD, info={name: value for name, value in INFO.items() if name not in names})


def test_a_server_as_it_should_be_is_ok_in_everything() -> None:
    assert {found.level for found in servers.judged(GOOD, Role.COORDINATOR)} == {Level.OK}


@pytest.mark.parametrize(
    ("check", "seen", "expected"),
    [
        ("version", knowing(redis_version="6.2.14"), Level.FAIL),
        ("version", knowing(redis_version="6.2.14", valkey_version="9.0.0"), Level.OK),
        ("version", without("redis_version"), Level.WARN),
        ("role", knowing(role="slave"), Level.FAIL),
        ("role", without("role"), Level.WARN),
        ("eviction", knowing(maxmemory_policy="allkeys-lru", maxmemory="1000"), Level.FAIL),
        ("eviction", knowing(maxmemory_policy="allkeys-lru"), Level.WARN),
        ("eviction", knowing(maxmemory="1000"), Level.OK),
        ("eviction", without("maxmemory_policy"), Level.WARN),
        ("persistence", knowing(aof_enabled="0"), Level.WARN),
        ("persistence", knowing(aof_last_write_status="err"), Level.FAIL),
        ("persistence", knowing(rdb_last_bgsave_status="err"), Level.FAIL),
        ("persistence", without("aof_enabled"), Level.WARN),
        ("replicas", attrs.evolve(knowing(connected_slaves="1"), tuned={"min-replicas-to-write": "0"}), Level.WARN),
        ("replicas", attrs.evolve(knowing(connected_slaves="1"), tuned={"min-replicas-to-write": "1"}), Level.OK),
        ("scripts", attrs.evolve(GOOD, scripts="NOPERM"), Level.FAIL),
        ("account", attrs.evolve(GOOD, lacking=None), Level.WARN),
        ("account", attrs.evolve(GOOD, lacking=(Need("", ("XADD o:0",)),)), Level.FAIL),
        ("clock", attrs.evolve(GOOD, clock_ahead_ms=-1_400.0), Level.WARN),
        ("clock", attrs.evolve(GOOD, clock_ahead_ms=1_400.0, round_trip_ms=1_000.0), Level.OK),
        ("clock", attrs.evolve(GOOD, clock_ahead_ms=None), Level.OK),
        ("connections", knowing(connected_clients="71"), Level.WARN),
        ("connections", knowing(connected_clients="96"), Level.FAIL),
        ("connections", without("maxclients"), Level.WARN),
    ],
)
def test_each_check_of_a_server_is_judged_by_what_it_would_cost(check: str, seen: Survey, expected: Level) -> None:
    assert level(check, seen) is expected


def test_an_account_that_needs_no_scripts_may_lack_them() -> None:
    assert level("scripts", attrs.evolve(GOOD, scripts="NOPERM"), role=Role.PRODUCER) is Level.OK


def test_connections_that_are_still_to_come_count() -> None:
    assert level("connections", GOOD, expected=61) is Level.WARN


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (FILE, {"disk": Level.OK, "database": Level.OK, "journal": Level.OK}),
        (attrs.evolve(FILE, there=False), {"disk": Level.OK, "database": Level.OK}),
        (attrs.evolve(FILE, free_bytes=500 * MIB), {"disk": Level.WARN, "database": Level.OK, "journal": Level.OK}),
        (attrs.evolve(FILE, free_bytes=50 * MIB), {"disk": Level.FAIL, "database": Level.OK, "journal": Level.OK}),
        (attrs.evolve(FILE, damage="x"), {"disk": Level.OK, "database": Level.FAIL, "journal": Level.OK}),
        (attrs.evolve(FILE, ours=False), {"disk": Level.OK, "database": Level.FAIL, "journal": Level.OK}),
        (attrs.evolve(FILE, trouble="x"), {"disk": Level.OK, "database": Level.FAIL}),
        (attrs.evolve(FILE, journal="delete"), {"disk": Level.OK, "database": Level.OK, "journal": Level.WARN}),
        (
            attrs.evolve(FILE, schema=99),
            {"disk": Level.OK, "database": Level.OK, "schema": Level.FAIL, "journal": Level.OK},
        ),
        (
            attrs.evolve(FILE, there=False, writable=False),
            {"disk": Level.OK, "access": Level.FAIL, "database": Level.OK},
        ),
    ],
)
def test_a_metadata_file_is_judged_by_what_it_would_cost(seen: FileSurvey, expected: dict[str, Level]) -> None:
    assert {found.check: found.level for found in files.judged(seen)} == expected


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ([0, 1, 2] * 4, Level.OK),
        ([0] * 3, Level.WARN),
        ([0] * 9 + [1, 2, 2], Level.WARN),
        ([0, 0], Level.OK),
        ([0, None], Level.FAIL),
    ],
)
def test_a_stream_whose_shards_crowd_on_one_master_is_named(owners: list[int | None], expected: Level) -> None:
    masters = [("a", 1), ("b", 2), ("c", 3)]

    def owner(key: str) -> Address | None:
        at = owners[int(key.removeprefix("orders:"))]
        return None if at is None else masters[at]

    (found,) = spread([("orders", len(owners))], masters, owner)

    assert (found.where, found.check, found.level) == ("orders", "slots", expected)


@pytest.mark.parametrize(("wanted", "expected"), [(True, Level.FAIL), (False, Level.WARN)])
def test_a_coordinator_that_is_away_is_a_failure_only_if_it_was_named(*, wanted: bool, expected: Level) -> None:
    (found,) = coordinators.judged(coordinators.Told("http://one", trouble="away"), wanted=wanted)

    assert (found.check, found.level) == ("coordinator", expected)


def test_what_a_coordinator_says_of_itself_is_passed_on() -> None:
    health = {"status": "DOWN", "invariantViolations": ["two owners"], "unreadShards": ["orders/billing 3"]}

    found = coordinators.judged(coordinators.Told("http://one", health, "0.0.0"), wanted=True)

    assert [(each.check, each.level) for each in found] == [
        ("coordinator", Level.OK),
        ("version", Level.WARN),
        ("health", Level.FAIL),
        ("invariants", Level.FAIL),
        ("reading", Level.WARN),
    ]
