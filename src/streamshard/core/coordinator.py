"""load -> decide -> commit -> perform -> answer: the only place where the rules meet the ports."""

from streamshard.core.admin import Amend, CreateGroup, CreateStream, DeleteGroup, DeleteStream, Rollback, Scale
from streamshard.core.commands import Heartbeat
from streamshard.core.ids import GroupKey, ReshardingId, StreamPrefix
from streamshard.core.ports import Clock, Entropy, MetadataStore, StreamBackend
from streamshard.core.queries import GroupView, Health, MigrationView
from streamshard.core.replies import HeartbeatReply, Routing
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.stream import StreamRecord


class Coordinator:
    """A coordinator; several may share one store, without a lock or a leader."""

    def __init__(
        self,
        store: MetadataStore,
        streams: StreamBackend,
        clock: Clock,
        entropy: Entropy,
        settings: CoordinatorSettings,
    ) -> None:
        self.settings = settings

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        """Answer one attempt of one instance; never raises for what a member may send."""
        raise AssertionError

    async def routing(self, key: GroupKey) -> Routing:
        """Raise `StreamNotFound` or `GroupNotFound`; nothing is provisioned or changed."""
        raise AssertionError

    async def create_stream(self, command: CreateStream) -> StreamRecord:
        """Create a stream and provision its shards; raises what the refusal says."""
        raise AssertionError

    async def create_group(self, command: CreateGroup) -> GroupView:
        """Create a group, and its stream if there is none."""
        raise AssertionError

    async def scale(self, command: Scale) -> MigrationView:
        """Start a resharding; it goes on by itself from then on."""
        raise AssertionError

    async def rollback(self, command: Rollback) -> MigrationView:
        """Take a resharding back; raises `RollbackNotAllowed` after the first seal."""
        raise AssertionError

    async def amend(self, command: Amend) -> MigrationView:
        """Change which foreign groups a running resharding ignores."""
        raise AssertionError

    async def delete_group(self, command: DeleteGroup) -> GroupView:
        """Delete a group; returns it as it was."""
        raise AssertionError

    async def delete_stream(self, command: DeleteStream) -> StreamRecord:
        """Delete a stream with its groups; returns it as it was."""
        raise AssertionError

    async def stream(self, prefix: StreamPrefix) -> StreamRecord:
        """Raise `StreamNotFound`."""
        raise AssertionError

    async def group(self, key: GroupKey) -> GroupView:
        """Raise `StreamNotFound` or `GroupNotFound`."""
        raise AssertionError

    async def groups(self) -> tuple[GroupView, ...]:
        """Every readable group, sorted by key."""
        raise AssertionError

    async def migration(self, prefix: StreamPrefix, resharding: ReshardingId) -> MigrationView:
        """Raise `StreamNotFound` or `MigrationNotFound`."""
        raise AssertionError

    async def migrations(self, prefix: StreamPrefix) -> tuple[MigrationView, ...]:
        """The active resharding and the remembered ones, oldest first."""
        raise AssertionError

    async def health(self) -> Health:
        """Measure; never raises."""
        raise AssertionError

    async def tick(self) -> None:
        """Look at everything once and do what is wanted; the entrypoint calls this every ``tick_ms``."""
        raise AssertionError
