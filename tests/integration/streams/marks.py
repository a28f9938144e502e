"""Orders to the first shard of ``orders``, and what is seen of it afterwards."""

from streamshard.core.effects import (
    DropGroup,
    MendLag,
    RaiseLayout,
    ShardProbe,
)
from streamshard.core.ids import Generation, GroupName, LayoutVersion
from streamshard.core.records import AckMode
from streamshard.core.stream import FenceMark
from tests.integration.streams.rigs import (
    BILLING,
    ORDERS,
    ZERO,
    Rig,
    access,
)


def raise_layout(layout: int, *, generation: int = 1) -> RaiseLayout:
    """An order to raise the layout of the shard."""
    return RaiseLayout(ORDERS, ZERO, Generation(generation), LayoutVersion(layout))


def drop(group: GroupName, *, generation: int = 1, layout: int = 1) -> DropGroup:
    """An order to drop a group."""
    return DropGroup(ORDERS, ZERO, Generation(generation), LayoutVersion(layout), group)


def mend(group: GroupName, *, generation: int = 1, layout: int = 1) -> MendLag:
    """An order to mend a group's counter."""
    return MendLag(ORDERS, ZERO, Generation(generation), LayoutVersion(layout), group)


async def fence(rig: Rig) -> FenceMark:
    """The marks at the shard."""
    (mark,) = await rig.backend.read_fences(ORDERS, [ZERO])
    return mark


async def look(rig: Rig) -> ShardProbe:
    """What a probe sees."""
    (probe,) = await rig.backend.probe(ORDERS, [ZERO])
    return probe


async def groups_at(rig: Rig) -> dict[GroupName, str]:
    """Where each group stands."""
    return {group.name: group.last_delivered for group in (await look(rig)).groups}


async def read_and_ack(rig: Rig, token: int = 5, group: GroupName = BILLING) -> None:
    """Handle whatever is new."""
    grant = access(token, group=group)
    (reply,) = await rig.log.read([(grant, 100)])
    await rig.log.acknowledge(grant, [record.id for record in reply.records], AckMode.ACK)
