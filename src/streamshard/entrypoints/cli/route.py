"""``streamshard route``."""

import base64
import os

import click

from streamshard.core.names import check_group, check_prefix
from streamshard.entrypoints.cli.output import coordinator, emit, facts, output_option, url_option


@click.command()
@click.argument("key")
@click.option("--stream", required=True, help="The stream that the key is published to.")
@click.option("--group", help="Show this group's owner only.")
@url_option
@output_option
def route(key: str, stream: str, group: str | None) -> None:
    """Say which shard of a stream KEY belongs to, and who reads it."""
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
