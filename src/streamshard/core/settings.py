"""What an operator chooses for a coordinator."""

import attrs

from streamshard.core.timing import Timing

MAX_SHARDS = 16_384


@attrs.frozen
class CoordinatorSettings:
    """A coordinator's own settings; nothing of it is stored, lease lengths are answered to clients."""

    coordinator_id: str
    timing: Timing = attrs.field(factory=Timing)
    default_shard_count: int = 12
    max_shard_count: int = MAX_SHARDS
    retired_watch_ms: int = 7 * 24 * 3_600_000
    """How long retired shard indexes are probed for a key that came back."""
