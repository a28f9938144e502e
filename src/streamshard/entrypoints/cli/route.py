"""``streamshard route``."""

import base64
import os
from typing import Any

import click

from streamshard.adapters.hashing import node_ring
from streamshard.core.names import check_group, check_prefix
from streamshard.entrypoints.cli.balancing import Nodes, compared, nodes_option, ring_size_option
from streamshard.entrypoints.cli.failures import ExitCode, Failure
from streamshard.entrypoints.cli.output import coordinator, emit, facts, output_option, url_option

DEFAULT_KEYS = 100_000
MOST_KEYS = 10_000_000


@click.command()
@click.argument("key", required=False)
@click.option("--stream", help="The stream that the key is published to.")
@click.option("--group", help="With --stream: show this group's owner only.")
@nodes_option
@ring_size_option
@click.option("--compare", nargs=2, type=int, metavar="FROM TO", help="Count the keys that another count moves.")
@click.option(
    "--keys",
    type=click.IntRange(1, MOST_KEYS),
    default=DEFAULT_KEYS,
    show_default=True,
    help="With --compare: of many.",
)
@click.option("--protocol", help="With --node: ring-v1 or envoy-ring-v1; with --compare: only this one.")
@url_option
@output_option
def route(key: str | None, **asked: Any) -> None:
    """Say which shard of a stream KEY belongs to, and who reads it; or which node; or what a change moves."""
    chosen = [name for name in ("stream", "nodes", "compare") if asked[name]]
    if len(chosen) != 1 or (key is None) != (chosen == ["compare"]):
        text = "say KEY and --stream, or KEY and --node once for each node, or --compare FROM TO"
        raise Failure(text, ExitCode.USAGE)
    if key is None:
        emit(*compared(asked["compare"], asked["keys"], asked["protocol"]))
    elif chosen == ["nodes"]:
        _to_node(key, asked["nodes"], asked["protocol"], asked["ring_size"])
    else:
        _to_shard(key, asked["stream"], asked["group"])


def _to_node(key: str, nodes: Nodes, protocol: str | None, ring_size: int) -> None:
    rule = protocol or "ring-v1"
    node = node_ring(rule, nodes, ring_size).node(os.fsencode(key))
    emit({"node": node, "protocol": rule}, facts([("NODE", node), ("ROUTING", rule)]))


def _to_shard(key: str, stream: str, group: str | None) -> None:
    # The bytes that were typed: a key need not be text.
    params = {"keyBase64": base64.b64encode(os.fsencode(key)).decode()}
    if group is not None:
        params["group"] = check_group(group, "--group")
    with coordinator() as api:
        found = api.get("streams", check_prefix(stream, "--stream"), "route", params=params)
    owners = [(f"OWNER/{owner['consumerGroup']}", owner["memberId"]) for owner in found["owners"]]
    told = facts(
        [
            ("SHARD", found["shardIndex"]),
            ("KEY", found["streamKey"]),
            ("SLOT", found["redisSlot"]),
            ("ROUTING", found["routingProtocol"]),
            *owners,
        ]
    )
    emit(found, told)
