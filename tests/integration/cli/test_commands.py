"""The commands against a coordinator of their own: what they print, and how they end."""

import json
import os
from collections.abc import Iterator

import httpx
import pytest
from click.testing import CliRunner, Result

from streamshard import route
from streamshard.core.slots import hash_slot
from streamshard.entrypoints.cli.root import cli
from tests.integration.cli.processes import IN_MEMORY, Served, serving
from tests.integration.http.service import beat

FAST = ("--lease", "3s", "--heartbeat", "500ms", "--tick", "100ms", "--routing-lease", "200ms")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(*IN_MEMORY, *FAST) as started:
        yield started


@pytest.fixture
def run(served: Served) -> "Run":
    return Run(served)


class Run:
    """Runs commands against the coordinator."""

    def __init__(self, served: Served) -> None:
        self.url = served.url

    def __call__(self, *arguments: str, typed: str | None = None) -> Result:
        return CliRunner(env={"STREAMSHARD_URL": self.url}).invoke(cli, arguments, input=typed)

    def json(self, *arguments: str) -> dict[str, object]:
        result = self(*arguments, "-o", "json")
        assert result.exit_code == 0, result.stderr
        decoded: dict[str, object] = json.loads(result.stdout)
        return decoded


def test_a_stream_is_created_listed_and_described(run: Run) -> None:
    run("streams", "create", "alone", "--shards", "1")
    made = run("streams", "create", "shop", "--shards", "2", "--group", "billing", "--group", "audit")
    listed = run("streams", "list").stdout.splitlines()
    shown = run("streams", "describe", "shop").stdout.splitlines()

    assert (made.stdout, made.exit_code) == ("created shop with 2 shards for audit, billing\n", 0)
    assert listed[0].split() == ["STREAM", "SHARDS", "GROUPS", "RESHARDING"]
    assert [["alone", "1", "0", "-"], ["shop", "2", "2", "-"]] == [
        row for line in listed if (row := line.split())[0] in {"alone", "shop"}
    ]
    assert [line.split() for line in shown[-3:]] == [
        ["SHARD", "KEY", "PHASE", "GENERATION", "SLOT"],
        ["0", "shop:0", "OPEN", "1", str(hash_slot("shop:0"))],
        ["1", "shop:1", "OPEN", "1", str(hash_slot("shop:1"))],
    ]


def test_a_group_is_described_with_owner_state_and_token(run: Run) -> None:
    run("groups", "create", "owned/billing", "--shards", "1")
    path = f"{run.url}/coord/v1/streams/owned/groups/billing/members/web-m0/heartbeat"
    first = httpx.post(path, json=beat(), trust_env=False).json()
    grant = first["grants"][0]
    holds = [{"shardIndex": 0, "token": grant["token"]}]
    present = {"memberEpoch": first["memberEpoch"], "seq": 2, "view": first["view"]}
    body = {**beat(), **present, "holds": holds, "ownedShards": [{"shardIndex": 0}]}
    httpx.post(path, json=body, trust_env=False)

    told = run("groups", "describe", "owned/billing").stdout
    rows = [line.split() for line in told.splitlines()]

    assert ["GROUP", "owned/billing"] in rows
    assert ["STATE", "STABLE"] in rows
    assert ["LAG", "0"] in rows
    assert ["SHARD", "KEY", "OWNER", "STATE", "TOKEN", "LAG", "PENDING", "AGE", "NEXT-OWNER", "PHASE"] in rows
    assert ["0", "owned:0", "web-m0", "OWNED", str(grant["token"]), "0", "0", "0s", "-", "OPEN"] in rows
    assert ["web-m0", "ACTIVE", str(first["memberEpoch"]), "0", "-", "1", "-", "0" * 31 + "1"] in rows
    assert [row[1:] for row in rows if row[1:2] == ["granted"]] == [["granted", "web-m0", "shard", "0:", "its", "turn"]]
    assert "\x1b[" not in told


def test_a_shard_that_is_held_and_not_read_and_a_handler_that_runs_for_long_are_shown(run: Run) -> None:
    run("groups", "create", "remiss/billing", "--shards", "2")
    path = f"{run.url}/coord/v1/streams/remiss/groups/billing/members/web-m0/heartbeat"
    first = httpx.post(path, json=beat(), trust_env=False).json()
    progress = [
        {"shard": {"shardIndex": 0}, "lastReadAgeMs": 3_600_000},
        {"shard": {"shardIndex": 1}, "lastReadAgeMs": 75_000, "inFlight": 1, "handlingMs": 75_000},
    ]
    body = {
        **beat(),
        **{"memberEpoch": first["memberEpoch"], "seq": 2, "view": first["view"], "shardProgress": progress},
        "holds": [{"shardIndex": grant["shardIndex"], "token": grant["token"]} for grant in first["grants"]],
        "runtimeConsumerCapacity": {"runtimeMaxConcurrency": 2, "availableConcurrency": 1},
    }
    httpx.post(path, json=body, trust_env=False)

    lines = run("groups", "describe", "remiss/billing").stdout.splitlines()
    rows = [line.split() for line in lines]

    assert "UNREAD      shards 0: held, and not read" in lines
    assert [row[3] for row in rows if row[1:2] and row[1].startswith("remiss:")] == ["UNREAD", "OWNED"]
    assert [row[6] for row in rows if row[:2] == ["web-m0", "ACTIVE"]] == ["1m15s"]


def test_json_is_the_apis_own(run: Run) -> None:
    run("groups", "create", "plain/billing", "--shards", "1")

    assert (
        run.json("streams", "describe", "plain")
        == httpx.get(f"{run.url}/coord/v1/streams/plain", trust_env=False).json()
    )
    assert {"streamPrefix", "shards", "members"} <= set(run.json("groups", "describe", "plain/billing"))


def test_a_stream_is_deleted_with_its_data(run: Run) -> None:
    run("streams", "create", "heavy", "--shards", "1", "--group", "billing")

    gone = run("streams", "delete", "heavy", "--drop-data", "--reason", "done", "--yes")
    again = run("streams", "create", "heavy", "--shards", "1")

    assert (gone.exit_code, gone.stdout, again.exit_code) == (0, "deleted heavy\n", 0)


def test_a_scale_is_waited_for_and_remembered(run: Run) -> None:
    run("streams", "create", "grown", "--shards", "1", "--group", "billing")

    scaled = run("streams", "scale", "grown", "3", "--reason", "growth", "--wait", "--timeout", "20s")
    status = run("reshard", "status", "grown").stdout.splitlines()

    assert (scaled.exit_code, scaled.stderr.splitlines()[-1]) == (0, "DEPRECATED")
    assert scaled.stdout.split()[1:] == ["1", "->", "3", "DEPRECATED"]
    assert status[0].split() == ["ID", "FROM", "TO", "STATE", "PROVISIONED", "ROLLBACK", "UPDATED"]
    assert status[1].split()[1:4] == ["1", "3", "DEPRECATED"]


def test_waiting_ends_with_a_code_of_its_own_while_the_work_goes_on(run: Run) -> None:
    run("streams", "create", "slow", "--shards", "2", "--group", "billing")
    path = f"{run.url}/coord/v1/streams/slow/groups/billing/members/web-m0/heartbeat"
    httpx.post(path, json=beat(), trust_env=False)  # it holds the shard for a lease, whatever happens

    waited = run("streams", "scale", "slow", "1", "--reason", "less", "--wait", "--timeout", "1ms")

    assert waited.exit_code == 7
    assert waited.stderr.splitlines()[-1] == "Try: streamshard reshard status slow"


def test_a_resharding_that_has_ended_can_not_be_taken_back(run: Run) -> None:
    run("streams", "create", "settled", "--shards", "1", "--group", "billing")

    result = run("reshard", "rollback", "settled", "--reason", "oops")

    assert (result.exit_code, result.stderr) == (4, "Error: settled has no active resharding to take back\n")


def test_a_key_is_routed(run: Run) -> None:
    run("streams", "create", "routed", "--shards", "2", "--group", "billing")

    told = run("route", "order-1", "--stream", "routed", "--group", "billing").stdout

    assert [line.split() for line in told.splitlines()] == [
        ["SHARD", "1"],
        ["KEY", "routed:1"],
        ["SLOT", str(hash_slot("routed:1"))],
        ["ROUTING", "murmur3-v1"],
    ]


def test_a_delete_wants_to_be_meant(run: Run) -> None:
    run("streams", "create", "doomed", "--shards", "1", "--group", "billing")

    unasked = run("groups", "delete", "doomed/billing", "--reason", "done")
    meant = run("groups", "delete", "doomed/billing", "--reason", "done", "--yes")
    whole = run("streams", "delete", "doomed", "--reason", "done", "--yes")
    after = run("streams", "describe", "doomed")

    assert (unasked.exit_code, unasked.stderr.splitlines()[-1]) == (2, "Try: add --yes")
    assert (meant.exit_code, meant.stdout) == (0, "deleted doomed/billing\n")
    assert (whole.exit_code, whole.stdout) == (0, "deleted doomed\n")
    assert after.exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("groups", "describe", "no/such"), 3, "Try: streamshard streams list"),
        (("streams", "describe", "none"), 3, "Try: streamshard streams list"),
        (("groups", "describe", "noslash"), 2, "a slash between them"),
        (("streams", "create", "a{b}"), 2, "STREAM: has a '{'"),
        (("streams", "create", ".."), 2, "STREAM: is '..'"),
        (("streams", "create", "new", "--shards", "0"), 2, "initialShardCount: must be"),
        (("streams", "create", "new", "--shards", "1000000000"), 2, "initialShardCount: must be at most"),
        (("streams", "create", "new", "--shards", "many"), 2, "'many' is not a valid integer"),
        (("streams", "create", "new", "--start-from", "noon"), 2, "startFrom: must be earliest"),
        (("streams", "scale", "none", "3"), 2, "Missing option '--reason'"),
        (("streams", "scale", "none", "3", "--reason", "x"), 3, "Error: no stream"),
        (("streams", "scale", "none", "3", "--reason", "x", "--timeout", "soon"), 2, "--timeout: must be a duration"),
        (("nonsense",), 2, "No such command"),
    ],
)
def test_a_failure_says_what_to_do_and_ends_with_its_code(
    run: Run, arguments: tuple[str, ...], code: int, told: str
) -> None:
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (code, "")
    assert told in result.stderr


def test_what_exists_is_refused_with_a_way_out(run: Run) -> None:
    run("streams", "create", "twice", "--shards", "1")

    result = run("streams", "create", "twice", "--shards", "1")

    assert result.exit_code == 4
    assert result.stderr.splitlines()[-1] == "Try: streamshard streams describe STREAM, or another name"


def test_no_coordinator_is_told_from_a_refusal() -> None:
    result = CliRunner(env={"STREAMSHARD_URL": "http://127.0.0.1:1"}).invoke(cli, ["groups", "list"])

    assert result.exit_code == 6
    assert result.stderr.startswith("Error: no coordinator answers at http://127.0.0.1:1: ")
    assert result.stderr.splitlines()[-1].startswith("Try: start one with `streamshard serve`")


def test_another_service_at_that_address_is_recognised(run: Run) -> None:
    result = run("groups", "list", "--url", f"{run.url}/livez")

    assert result.exit_code in (1, 3)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://127.0.0.1", "", "http://[::1", "http://127.0.0.1:99999"])
def test_a_bad_url_is_wrong_usage(url: str) -> None:
    result = CliRunner().invoke(cli, ["groups", "list", "--url", url])

    assert result.exit_code == 2
    assert result.stderr == f"Error: --url: must be http://HOST:PORT or https://HOST:PORT, not {url!r}\n"


def test_a_key_that_is_no_text_has_a_shard_too(run: Run) -> None:
    run("streams", "create", "bytes-keys", "--shards", "2")

    result = run("route", os.fsdecode(b"\xff\xfe"), "--stream", "bytes-keys", "-o", "json")

    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["shardIndex"] == route("murmur3-v1", b"\xff\xfe", 2)


def test_the_version_is_printed() -> None:
    assert CliRunner().invoke(cli, ["version"]).stdout.startswith("streamshard ")


def test_help_lists_every_command() -> None:
    told = CliRunner().invoke(cli, ["--help"]).stdout

    assert [
        name for name in ("demo", "serve", "streams", "groups", "reshard", "route") if f"  {name} " not in told
    ] == []
