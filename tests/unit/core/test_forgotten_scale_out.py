"""A store that forgot a scale-out: what was written to the added shards is read, and they go again."""

from streamshard.core.stream import ShardPhase
from tests.unit.core.driving import Site, scale


def test_records_on_shards_that_the_store_forgot_are_read_before_the_shards_are_retired() -> None:
    site = Site(2)
    node = site.node()
    before = site.stream
    node.run(node.coordinator.scale(scale(4)))
    site.append(3)

    site.memory.lose_suffix(site.stream.version.revision - before.version.revision)
    reborn = site.node("n2")
    reborn.tick(3)

    phases = {s.index: s.phase for s in site.stream.shards.values()}
    assert phases == {0: ShardPhase.OPEN, 1: ShardPhase.OPEN, 2: ShardPhase.DRAINING, 3: ShardPhase.DRAINING}
    assert set(site.group.layout) == {0, 1, 2, 3}
