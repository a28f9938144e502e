"""`streamshard route` without a coordinator, and `streamshard export`."""

import json
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner, Result

from streamshard.core.nodes import Node, node_ring
from streamshard.entrypoints.cli.root import cli

PODS = ("10.0.0.11:8080", "10.0.0.12:8080", "[fd00::1]:8080")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def loaded(*arguments: str) -> Any:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return yaml.safe_load(result.stdout)


def test_a_change_of_the_count_is_compared_for_every_protocol() -> None:
    result = run("route", "--compare", "4", "5", "--keys", "20000")

    lines = [line.split() for line in result.stdout.splitlines()]
    shares = {name: float(share.rstrip("%")) for name, _, share, _, _ in lines[1:]}
    assert lines[0] == ["ROUTING", "MOVED", "SHARE", "FAIR", "FULLEST"]
    assert shares == pytest.approx({"jump-v1": 20, "murmur3-v1": 80, "ring-v1": 20}, abs=3)
    assert {fair for _, _, _, fair, _ in lines[1:]} == {"20.0%"}


def test_one_protocol_is_compared_as_json() -> None:
    told = json.loads(
        run("route", "--compare", "8", "4", "--keys", "1000", "--protocol", "jump-v1", "-o", "json").stdout
    )

    (one,) = told.pop("protocols")
    assert told == {"from": 8, "to": 4, "keys": 1_000, "fairShare": 0.5}
    assert (one["protocol"], one["share"]) == ("jump-v1", one["moved"] / 1_000)
    assert one["fullest"] == pytest.approx(1, abs=0.2)


def test_the_same_count_moves_nothing() -> None:
    told = json.loads(run("route", "--compare", "4", "4", "--keys", "500", "-o", "json").stdout)

    assert [one["moved"] for one in told["protocols"]] == [0, 0, 0]


def test_a_key_is_told_its_node() -> None:
    told = run("route", "job-1", *(word for pod in PODS for word in ("--node", pod)), "--protocol", "envoy-ring-v1")

    expected = node_ring("envoy-ring-v1", [Node(pod) for pod in PODS]).node(b"job-1")
    assert [line.split() for line in told.stdout.splitlines()] == [["NODE", expected], ["ROUTING", "envoy-ring-v1"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say KEY and --stream, or KEY and --node once for each node, or --compare FROM TO"),
        (("job-1",), "say KEY and --stream"),
        (("--stream", "orders"), "say KEY and --stream"),
        (("job-1", "--stream", "orders", "--node", "a"), "say KEY and --stream"),
        (("job-1", "--compare", "4", "5"), "say KEY and --stream"),
        (("--compare", "0", "5"), "shardCount: jump-v1 can't route over 0 shards"),
        (("--compare", "4", "2000", "--protocol", "ring-v1"), "shardCount: ring-v1 can't route over 2000 shards"),
        (("--compare", "4", "5", "--protocol", "md5"), "routingProtocol: 'md5' is unknown"),
        (("--compare", "4", "5", "--keys", "0"), "Invalid value for '--keys'"),
        (("job-1", "--node", "a=x"), "--node: the weight of 'a' must be a whole number"),
        (("job-1", "--node", "a=0"), "nodes: the weight of a must be 1 or more"),
        (("job-1", "--node", "a=\u0663"), "--node: the weight of 'a' must be a whole number"),
        (("job-1", "--node", "a", "--node", "a"), "nodes: one is named twice"),
        (("job-1", "--node", "a", "--protocol", "jump-v1"), "protocol: 'jump-v1' is unknown for nodes"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(arguments: tuple[str, ...], said: str) -> None:
    result = run("route", *arguments)

    assert result.exit_code == 2
    assert said in result.stderr


def test_a_destination_rule_hashes_by_ring() -> None:
    rule = loaded("export", "istio", "gateway.shop.svc.cluster.local", "--query", "key", "--minimum-ring-size", "2048")

    assert rule == {
        "apiVersion": "networking.istio.io/v1",
        "kind": "DestinationRule",
        "metadata": {"name": "gateway"},
        "spec": {
            "host": "gateway.shop.svc.cluster.local",
            "trafficPolicy": {
                "loadBalancer": {
                    "consistentHash": {"httpQueryParameterName": "key", "ringHash": {"minimumRingSize": 2048}}
                }
            },
        },
    }


def test_a_destination_rule_hashes_a_header() -> None:
    rule = loaded("export", "istio", "gateway", "--header", "X-Job-Id")

    balancer = rule["spec"]["trafficPolicy"]["loadBalancer"]["consistentHash"]
    assert balancer == {"httpHeaderName": "X-Job-Id", "ringHash": {"minimumRingSize": 1024}}


def test_an_envoy_cluster_has_the_ring_and_the_nodes() -> None:
    cluster = loaded("export", "envoy", "gateway", "--node", PODS[0], "--node", f"{PODS[2]}=2", "--query", "key")

    assert cluster == {
        "name": "gateway",
        "type": "STATIC",
        "lb_policy": "RING_HASH",
        "ring_hash_lb_config": {"hash_function": "XX_HASH", "minimum_ring_size": 1024},
        "load_assignment": {
            "cluster_name": "gateway",
            "endpoints": [
                {
                    "lb_endpoints": [
                        {
                            "endpoint": {"address": {"socket_address": {"address": "10.0.0.11", "port_value": 8080}}},
                            "load_balancing_weight": 1,
                        },
                        {
                            "endpoint": {"address": {"socket_address": {"address": "fd00::1", "port_value": 8080}}},
                            "load_balancing_weight": 2,
                        },
                    ]
                }
            ],
        },
    }


@pytest.mark.parametrize(
    ("chosen", "policy"),
    [
        (("--query", "key"), [{"query_parameter": {"name": "key"}}]),
        (("--header", "X-Job"), [{"header": {"header_name": "X-Job"}}]),
    ],
)
def test_an_envoy_cluster_comes_with_its_hash_policy(chosen: tuple[str, str], policy: list[object]) -> None:
    lines = run("export", "envoy", "gateway", "--node", PODS[0], *chosen).stdout.splitlines()

    assert yaml.safe_load("\n".join(line.removeprefix("# ") for line in lines[1:3])) == {"hash_policy": policy}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("istio", "gateway"), "say where a request's key is: --query NAME or --header NAME"),
        (("istio", "gateway", "--query", "a", "--header", "b"), "say where a request's key is"),
        (("istio", "gate way", "--query", "a"), "HOST: must be a service's name"),
        (("istio", "gateway", "--query", 'a"\n'), "--query: must be a name"),
        (("istio", "gateway", "--query", "a", "--minimum-ring-size", "0"), "Invalid value for '--minimum-ring-size'"),
        (("envoy", "gateway", "--query", "a"), "--node: none is given"),
        (("envoy", "gateway", "--query", "a", "--node", "pod-1:80"), "'pod-1:80' must be ADDRESS:PORT"),
        (("envoy", "gateway", "--query", "a", "--node", "10.0.0.1"), "'10.0.0.1' must be ADDRESS:PORT"),
        (("envoy", "gateway", "--query", "a", "--node", "10.0.0.1:99999"), "must be ADDRESS:PORT"),
        (("envoy", "gateway", "--query", "a", "--node", "[fd00:0::1]:80"), "in its shortest spelling"),
        (("envoy", "gateway", "--query", "a", "--node", "10.0.0.1:80=0"), "nodes: the weight of 10.0.0.1:80"),
    ],
)
def test_settings_that_would_not_work_are_not_printed(arguments: tuple[str, ...], said: str) -> None:
    result = run("export", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
