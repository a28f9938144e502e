"""``streamshard acl-rules``: lines that a server takes as they are."""

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamshard.adapters.redis_acl import Role
from streamshard.entrypoints.cli.root import cli
from tests.integration.cluster import ask
from tests.integration.stores.redis_rig import server
from tests.servers import FLAVOURS, Servers


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["acl-rules", *arguments])


def test_it_prints_one_line_for_redis_cli_and_what_is_left_to_do_beside_it() -> None:
    result = run("producer", "--stream", "orders")

    assert result.stdout == (
        "ACL SETUSER streamshard-producer reset on >PASSWORD resetchannels -@all %W~orders:[0-9]* +xadd +command|info\n"
    )
    assert result.stderr == "note: put the password in place of PASSWORD, or use --password-file\n"


def test_what_not_every_server_has_is_named_and_granted_if_asked_for() -> None:
    without, with_it = run("consumer"), run("consumer", "--redis-version", "8.2.1")

    assert "xackdel" not in without.stdout
    assert "left out xackdel, which Redis 8.2 has: --redis-version" in without.stderr
    assert "+xackdel" in with_it.stdout
    assert "+xnack" not in with_it.stdout


def test_without_a_stream_every_stream_is_meant_and_that_is_said() -> None:
    result = run("producer")

    assert "%W~*:[0-9]* +xadd" in result.stdout
    assert "for every stream: name some with --stream" in result.stderr


def test_a_password_from_a_file_is_printed_as_a_hash(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")

    result = run("monitor", "--stream", "a", "--user", "eye", "--password-file", str(file))

    assert f" #{hashlib.sha256(b'secret').hexdigest()} " in result.stdout
    assert result.stdout.startswith("ACL SETUSER eye ")
    assert result.stderr == ""


def test_programs_get_the_rules_with_the_reason_of_each() -> None:
    told = json.loads(run("producer", "--stream", "a", "--stream", "b", "-o", "json").stdout)

    assert told["user"] == "streamshard-producer"
    assert told["rules"][-4:] == ["%W~a:[0-9]*", "%W~b:[0-9]*", "+xadd", "+command|info"]
    assert told["grants"][0] == {
        "why": "publish, and trim if asked to",
        "commands": ["xadd"],
        "keys": ["%W~a:[0-9]*", "%W~b:[0-9]*"],
    }


def test_a_table_says_why() -> None:
    assert "acknowledge  " in run("consumer", "-o", "table").stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "ROLE..."),
        (("owner",), "consumer"),
        (("consumer", "--stream", "a{b"), "--stream: has a '{'"),
        (("consumer", "--user", "a b"), "--user: must be a name"),
        (("consumer", "--redis-version", "new"), "--redis-version: must be a release"),
        (("consumer", "--only", "metadata"), "--only: a consumer has nothing to do with metadata"),
        (("consumer", "--password-file", "/no/such"), "--password-file: the file can't be read"),
        (("consumer", "--password-file", "/dev/null"), "--password-file: the file is empty"),
        (("consumer", "--topology", "ring"), "'sentinel'"),
    ],
)
def test_what_it_can_t_do_is_said(arguments: tuple[str, ...], why: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_server_takes_the_lines_as_its_acl_file(servers: Servers, tmp_path: Path, flavour: str) -> None:
    password, acl = tmp_path / "password", tmp_path / "users.acl"
    password.write_text("secret")
    rules = [
        run(role.value, "--topology", topology, "--user", f"{role.value}-{topology}", "-o", "acl-file",
            "--password-file", str(password), "--db", "1").stdout
        for role in Role for topology in ("standalone", "sentinel", "cluster")
    ]  # fmt: skip
    acl.write_text("user default on nopass ~* &* +@all\n" + "".join(rules))

    with server(servers.binary(flavour), "--aclfile", str(acl)) as started:
        users = started.ask("ACL", "USERS")
        link = ask(started.port, "ACL", "DRYRUN", "producer-standalone", "XADD", "orders:0", "*", "a", "1")

    assert len(users) == 1 + 3 * len(Role)
    assert link == b"OK"
