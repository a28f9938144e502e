"""Trims as calls of their script, and what it answers: the same on one server and on a cluster."""

from typing import Any

from streamshard.adapters.streams.scripts import Call, load, shard_call
from streamshard.adapters.streams.understanding import understood, whole
from streamshard.core.effects import Missed, Trim, Trimmed, TrimVerdict
from streamshard.core.ids import GroupName, RecordId

TRIMS_A_PIPELINE = 8
"""A server answers nobody else until it is through a pipeline, and the first trim of a long stream takes a while."""


def trim_call(order: Trim) -> Call:
    """The call of an order's script."""
    guard = (order.generation, order.layout)
    return shard_call(load("trim"), order.prefix, order.shard, *guard, order.limit, *order.registered)


@understood
def trimmed(reply: Any) -> Trimmed:
    """What the script answered."""
    verdict, *more = reply
    if not more:
        return Trimmed(TrimVerdict(verdict.decode()))
    removed, floor, holder, missed = more
    return Trimmed(
        verdict=TrimVerdict(verdict.decode()),
        removed=whole(removed),
        floor=None if floor is None else RecordId(floor.decode()),
        holder=None if holder is None else _name(holder),
        missed=tuple(
            Missed(_name(group), whole(total), whole(found), bool(exact)) for group, total, found, exact in missed
        ),
    )


def _name(raw: bytes) -> GroupName:
    # Other people's groups may be named in any bytes.
    return GroupName(raw.decode("utf-8", "backslashreplace"))
