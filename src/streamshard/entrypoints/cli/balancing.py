"""What ``streamshard route`` and ``streamshard export`` know of protocols and nodes without asking anybody."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import click

from streamshard.adapters.hashing import placing
from streamshard.core.nodes import MINIMUM_RING_SIZE, MOST_POINTS, Node
from streamshard.core.routing import PROTOCOLS
from streamshard.entrypoints.cli.client import Json
from streamshard.entrypoints.cli.output import table
from streamshard.errors import InvalidRequest

Command = TypeVar("Command", bound=Callable[..., Any])
Nodes = tuple[Node, ...]


def nodes_option(command: Command) -> Command:
    """``--node``: a place on a ring."""
    return click.option(
        "--node",
        "nodes",
        multiple=True,
        metavar="NAME[=WEIGHT]",
        callback=_nodes,
        help="A node, to Envoy ADDRESS:PORT; repeatable.",
    )(command)


def ring_size_option(command: Command) -> Command:
    """``--minimum-ring-size``: Envoy's setting."""
    return click.option(
        "--minimum-ring-size",
        "ring_size",
        type=click.IntRange(1, MOST_POINTS),
        default=MINIMUM_RING_SIZE,
        show_default=True,
        help="How many points Envoy's ring has at least.",
    )(command)


def _nodes(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> Nodes:
    return tuple(map(_node, value))


def _node(text: str) -> Node:
    name, weighted, weight = text.partition("=")
    if weighted and not (weight.isascii() and weight.isdecimal() and len(weight) < len(str(MOST_POINTS))):
        raise InvalidRequest(f"--node: the weight of {name!r} must be a whole number from 1 to 999999")
    return Node(name, int(weight) if weighted else 1)


def compared(counts: tuple[int, int], keys: int, protocol: str | None) -> tuple[Json, str]:
    """What a change of the count does to so many keys, by each protocol: as JSON, and as a table."""
    before, after = counts
    names = sorted(PROTOCOLS) if protocol is None else [protocol]
    found = [_moved(name, before, after, keys) for name in names]
    fair = abs(after - before) / max(after, before)
    rows = [
        (one["protocol"], one["moved"], f"{one['share']:.1%}", f"{fair:.1%}", f"{one['fullest']:.2f}") for one in found
    ]
    told = {"from": before, "to": after, "keys": keys, "fairShare": round(fair, 4), "protocols": found}
    return told, table(("ROUTING", "MOVED", "SHARE", "FAIR", "FULLEST"), rows)


def _moved(protocol: str, before: int, after: int, keys: int) -> Json:
    old, new = placing(protocol, before), placing(protocol, after)
    held: Counter[int] = Counter()
    moved = 0
    for number in range(keys):
        key = b"key-%d" % number
        place = new(key)
        held[place] += 1
        moved += place != old(key)
    fullest = max(held.values()) * after / keys
    return {"protocol": protocol, "moved": moved, "share": round(moved / keys, 4), "fullest": round(fullest, 4)}
