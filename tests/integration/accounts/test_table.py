"""The table of permissions names what the scripts call: a call that is added to one has to be added to it, too."""

import re
from collections.abc import Iterable
from importlib.resources import files

import pytest

from streamshard.adapters.redis_acl import TABLE, Part, Role
from streamshard.adapters.stores import redis_scripts

CALL = re.compile(r"redis\.p?call\(\s*'([A-Z]+)'(?:,\s*'([A-Z]+)')?|\{'(X[A-Z]+)'(?:, '([A-Z]+)')?,")
CONTAINERS = {"XINFO", "XGROUP", "MEMORY"}
LUA = files("streamshard.adapters.streams") / "lua"
FILES = {file.name.removesuffix(".lua"): file.read_text("utf-8") for file in LUA.iterdir()}
LOOKS = {"common", "inspect"}
MEMBERS = {
    *("acknowledge", "acknowledge_at_once", "claim", "common", "deliver"),
    *("drop_consumer", "give_back", "member", "read", "read_at_once"),
}
COORDINATORS = {
    *("common", "drop_group", "drop_shard", "inspect", "mend_lag", "probe", "provision"),
    *("raise_fence", "raise_layout", "read_fence", "seal", "trim"),
}


def called(texts: Iterable[str]) -> set[str]:
    """Every command that these scripts may call."""
    found: set[str] = set()
    for name, second, listed, its_second in (match for text in texts for match in CALL.findall(text)):
        command, more = (name or listed), (second or its_second)
        found.add(f"{command}|{more}".lower() if command in CONTAINERS else command.lower())
    return found


def granted(role: Role, part: Part = Part.SHARDS) -> set[str]:
    return {c for grant in TABLE[role] if grant.part is part for need in grant.needs for c in need.commands}


@pytest.mark.parametrize(
    ("role", "scripts"), [(Role.CONSUMER, MEMBERS), (Role.COORDINATOR, COORDINATORS), (Role.MONITOR, LOOKS)]
)
def test_every_call_of_a_shard_s_scripts_is_granted(role: Role, scripts: set[str]) -> None:
    calls = called(text for name, text in FILES.items() if name in scripts)

    assert calls - granted(role) == set()


def test_every_script_of_a_shard_is_somebody_s() -> None:
    assert FILES.keys() - MEMBERS - COORDINATORS == set()


def test_every_call_of_the_store_s_scripts_is_granted() -> None:
    calls = called(redis_scripts.script(name).text for name in redis_scripts.NAMES)

    assert calls - granted(Role.COORDINATOR, Part.METADATA) == set()
