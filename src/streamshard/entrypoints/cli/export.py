"""``streamshard export``: settings of proxies that send a key where ``envoy-ring-v1`` says."""

import ipaddress
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from streamshard.adapters.hashing import node_ring
from streamshard.core.nodes import Node
from streamshard.entrypoints.cli.balancing import Nodes, nodes_option, ring_size_option
from streamshard.entrypoints.cli.failures import ExitCode, Failure
from streamshard.errors import InvalidRequest

Command = TypeVar("Command", bound=Callable[..., Any])

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_TOKEN = re.compile(r"[A-Za-z0-9!#$&'*+.^_`|~-]{1,100}")
_MOST_PORT = 65_535


def _token(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _TOKEN.fullmatch(value):
        raise InvalidRequest(f"--{parameter.name}: must be a name of 1 to 100 letters, digits and punctuation")
    return value


def _host(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not _HOST.fullmatch(value):
        raise InvalidRequest("HOST: must be a service's name such as gateway.shop.svc.cluster.local")
    return value


def _hashed_options(command: Command) -> Command:
    """``--query``, ``--header``: where in a request its key is."""
    header = click.option("--header", callback=_token, help="The request's header that holds the key.")
    query = click.option("--query", callback=_token, help="The parameter in the request's URL that holds the key.")
    return query(header(command))


@click.group()
def export() -> None:
    """Print settings for proxies that send each key to the node that `streamshard route --node` names."""


@export.command()
@click.argument("host", callback=_host)
@_hashed_options
@ring_size_option
def istio(host: str, query: str | None, header: str | None, ring_size: int) -> None:
    """Print a DestinationRule for the service HOST."""
    field, name = _hashed(("httpQueryParameterName", query), ("httpHeaderName", header))
    lines = [
        "apiVersion: networking.istio.io/v1",
        "kind: DestinationRule",
        "metadata:",
        f"  name: {_text(host.partition('.')[0].lower())}",
        "spec:",
        f"  host: {_text(host)}",
        "  trafficPolicy:",
        "    loadBalancer:",
        "      consistentHash:",
        f"        {field}: {_text(name)}",
        "        ringHash:",
        f"          minimumRingSize: {ring_size}",
    ]
    click.echo("\n".join(lines))


@export.command()
@click.argument("host", callback=_host)
@nodes_option
@_hashed_options
@ring_size_option
def envoy(host: str, nodes: Nodes, query: str | None, header: str | None, ring_size: int) -> None:
    """Print a RING_HASH cluster named HOST with the nodes given, and the hash policy of its routes."""
    field, name = _hashed(("query_parameter: {name", query), ("header: {header_name", header))
    if not nodes:
        raise Failure("--node: none is given: name each as ADDRESS:PORT", ExitCode.USAGE)
    node_ring("envoy-ring-v1", nodes, ring_size)  # refuses what makes no ring
    lines = [
        "# In the action of each route to this cluster:",
        "#   hash_policy:",
        f"#   - {field}: {_text(name)}}}",
        f"name: {_text(host)}",
        "type: STATIC",
        "lb_policy: RING_HASH",
        "ring_hash_lb_config:",
        "  hash_function: XX_HASH",
        f"  minimum_ring_size: {ring_size}",
        "load_assignment:",
        f"  cluster_name: {_text(host)}",
        "  endpoints:",
        "  - lb_endpoints:",
        *(line for node in nodes for line in _endpoint(node)),
    ]
    click.echo("\n".join(lines))


def _hashed(*choices: tuple[str, str | None]) -> tuple[str, str]:
    chosen = [(field, name) for field, name in choices if name is not None]
    if len(chosen) != 1:
        raise Failure("say where a request's key is: --query NAME or --header NAME", ExitCode.USAGE)
    return chosen[0]


def _endpoint(node: Node) -> Iterable[str]:
    address, port = _address(node.name)
    socket = f"{{address: {_text(address)}, port_value: {port}}}"
    yield f"    - endpoint: {{address: {{socket_address: {socket}}}}}"
    yield f"      load_balancing_weight: {node.weight}"


def _address(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address, number = ipaddress.ip_address(bare), int(port)
    except ValueError:
        address, number = None, 0
    # The ring is made of the text that Envoy makes of an address: another spelling is another place on the ring.
    spelt = f"[{address}]" if isinstance(address, ipaddress.IPv6Address) else str(address)
    told = f"{spelt}:{number}"
    if told != name or not 1 <= number <= _MOST_PORT:
        raise InvalidRequest(f"--node: {name!r} must be ADDRESS:PORT with an IP address in its shortest spelling")
    return str(address), number


def _text(value: str) -> str:
    return json.dumps(value)
