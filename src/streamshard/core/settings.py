"""What an operator chooses for a coordinator."""

import attrs

from streamshard.core.ids import Millis
from streamshard.core.timing import Timing

MAX_SHARDS = 16_384


@attrs.frozen
class CoordinatorSettings:
    """A coordinator's own settings; nothing of it is stored, lease lengths are answered to clients."""

    coordinator_id: str
    timing: Timing = attrs.field(factory=Timing)
    default_shard_count: int = 12
    max_shard_count: int = MAX_SHARDS
    trim_every_ms: Millis = Millis(10_000)
    """How often a shard is looked at for what can be trimmed, and for what went unread."""
    retired_watch_ms: int = 7 * 24 * 3_600_000
    """How long retired shard indexes are probed for a key that came back."""
