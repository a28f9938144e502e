"""Everything that can go wrong, one class per thing the caller can do about it.

StreamshardError
├── InvalidRequest            mend the request: the message names the field and the remedy
├── NotFound                  create it first, or mend the name
│   ├── StreamNotFound
│   ├── GroupNotFound
│   └── MigrationNotFound
├── Conflict                  the state forbids it now: the message says what has to end first
│   ├── StreamExists
│   ├── GroupExists
│   ├── ShardCountMismatch
│   ├── GroupHasMembers
│   ├── ActiveMigration
│   ├── MetadataSyncInProgress
│   └── StateConflict         retry
├── NotAllowed                the state forbids it for good
│   ├── ShardCountUnchanged
│   ├── RollbackNotAllowed
│   └── IdempotencyKeyReused
├── Unavailable               retry later; nothing was changed
│   ├── StreamUnavailable
│   │   └── StreamPermissionMissing   give the account what `streamshard acl-rules` prints
│   ├── ProvisioningFailed
│   ├── StoreUnavailable
│   │   └── StorePermissionMissing    likewise
│   ├── MetadataCorrupt       repair the record; other groups go on
│   │   └── UnsupportedSchema upgrade this coordinator
│   ├── Terminating
│   └── CoordinatorUnreachable
├── StoreSignal               what a metadata store tells the coordinator, never a user
│   ├── RevisionConflict      load again, decide again
│   ├── StaleSequence         answer with the present view
│   ├── SourceChanged         the store is another one: treat everything as a first load
│   └── CommitUncertain       read again, look for the nonce
├── ConfigurationError        mend the option that the message names
├── LeaseLost                 stop: somebody else may own the shard
├── RoutingExpired            no routing that may still be used: wait for the coordinator
├── ListenerRejected          upgrade or mend the client: the coordinator will not serve it
│   ├── Unauthenticated       log in: with another password, or with a new token
│   └── Forbidden             ask for a role, or use an account that has it
├── RateLimited               slow down: the error says for how long
├── NotWritten                safe to publish again
└── MaybeWritten              publishing again may duplicate
"""

from collections.abc import Mapping
from typing import ClassVar


class StreamshardError(Exception):
    """Base of every error this library raises on purpose."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class InvalidRequest(StreamshardError):
    """The request can't be understood; the message names the field and the remedy."""

    code = "INVALID_REQUEST"


class NotFound(StreamshardError):
    """The named thing does not exist."""

    code = "NOT_FOUND"


class StreamNotFound(NotFound):
    """No such stream: create it first."""

    code = "STREAM_NOT_FOUND"


class GroupNotFound(NotFound):
    """No such group on that stream: create it first."""

    code = "GROUP_NOT_FOUND"


class MigrationNotFound(NotFound):
    """No resharding of that id is on record."""

    code = "MIGRATION_NOT_FOUND"


class Conflict(StreamshardError):
    """The present state forbids it; the message says what has to end first."""

    code = "STATE_VERSION_CONFLICT"


class StreamExists(Conflict):
    """The stream, or a Redis key where a shard would go, exists already."""

    code = "STREAM_PREFIX_ALREADY_EXISTS"


class GroupExists(Conflict):
    """The group exists already."""

    code = "GROUP_ALREADY_EXISTS"


class ShardCountMismatch(Conflict):
    """The stream exists with another shard count."""

    code = "SHARD_COUNT_MISMATCH"


class GroupHasMembers(Conflict):
    """Live members stand in the way: stop them, or force."""

    code = "GROUP_HAS_ACTIVE_MEMBERS"


class ActiveMigration(Conflict):
    """A resharding is under way: wait for it, or roll it back."""

    code = "ACTIVE_MIGRATION_EXISTS"


class MetadataSyncInProgress(Conflict):
    """The group is in quarantine after the store lost writes: wait one lease."""

    code = "METADATA_SYNC_IN_PROGRESS"
    retryable = True


class StateConflict(Conflict):
    """Others kept changing the record: retry."""

    retryable = True


class NotAllowed(StreamshardError):
    """The request is sound but can't be done to this thing."""

    code = "NOT_ALLOWED"


class ShardCountUnchanged(NotAllowed):
    """The stream has that many shards already."""

    code = "SHARD_COUNT_UNCHANGED"


class RollbackNotAllowed(NotAllowed):
    """The resharding has ended, or a shard of it is sealed."""

    code = "ROLLBACK_NOT_ALLOWED"


class IdempotencyKeyReused(NotAllowed):
    """The key came before with another request: use a new one."""

    code = "IDEMPOTENCY_KEY_REUSED"


class Unavailable(StreamshardError):
    """Something this needs does not answer; nothing was changed, retry later."""

    code = "UNAVAILABLE"
    retryable = True


class StreamUnavailable(Unavailable):
    """The Redis that keeps the shards does not answer."""

    code = "STREAM_BACKEND_UNAVAILABLE"


class StreamPermissionMissing(StreamUnavailable):
    """The account may not do that at the Redis that keeps the shards: `streamshard acl-rules` prints what it needs."""

    code = "STREAM_PERMISSION_MISSING"


class ProvisioningFailed(Unavailable):
    """Shard keys could not be made; what was made is being taken back."""

    code = "REDIS_STREAM_PROVISIONING_FAILED"


class StoreUnavailable(Unavailable):
    """The metadata store does not answer."""

    code = "METADATA_STORE_UNAVAILABLE"


class StorePermissionMissing(StoreUnavailable):
    """The account may not do that at the metadata store: `streamshard acl-rules coordinator` prints what it needs."""

    code = "METADATA_STORE_PERMISSION_MISSING"


class MetadataCorrupt(Unavailable):
    """A stored record can't be trusted: its group is frozen until it is repaired."""

    code = "METADATA_CORRUPT"
    retryable = False


class UnsupportedSchema(MetadataCorrupt):
    """The record was written by a newer version: upgrade this coordinator."""


class Terminating(Unavailable):
    """This coordinator is shutting down: ask another one."""

    code = "COORDINATOR_TERMINATING"


class CoordinatorUnreachable(Unavailable):
    """No coordinator answered within the deadline."""

    code = "COORDINATOR_UNREACHABLE"


class StoreSignal(StreamshardError):
    """What a metadata store tells the coordinator; it never reaches a user."""


class RevisionConflict(StoreSignal):
    """The record moved on (or came, or went): load again and decide again."""


class StaleSequence(StoreSignal):
    """The renewal's sequence number is not above the stored one; nothing was written."""


class SourceChanged(StoreSignal):
    """The store is not the one, or not the connection, that was read from."""


class CommitUncertain(StoreSignal):
    """The answer to a commit was lost: read again and look for the nonce in the ring."""


class ConfigurationError(StreamshardError, ValueError):
    """An option is out of range; the message names it and the allowed values."""

    code = "CONFIGURATION_ERROR"


class LeaseLost(StreamshardError):
    """The right to this shard is gone; somebody else may own it by now."""

    code = "LEASE_LOST"


class RoutingExpired(StreamshardError):
    """The routing's lease has ended and no coordinator renewed it; nothing was sent."""

    code = "ROUTING_EXPIRED"
    retryable = True


class ListenerRejected(StreamshardError):
    """The coordinator refuses this client for good; the message says what to upgrade or mend."""

    code = "LISTENER_REJECTED"


class Unauthenticated(ListenerRejected):
    """The coordinator wants to know who asks, and what was shown does not prove it: log in (again)."""

    code = "UNAUTHENTICATED"


class Forbidden(ListenerRejected):
    """The caller is known, and may not do this."""

    code = "FORBIDDEN"


class RateLimited(StreamshardError):
    """Too many of its kind: again after as many seconds as ``details`` say under ``retryAfterSeconds``."""

    code = "RATE_LIMIT_EXCEEDED"
    retryable = True


class NotWritten(StreamshardError):
    """The record is surely not in Redis: publishing again is safe."""

    code = "NOT_WRITTEN"
    retryable = True


class MaybeWritten(StreamshardError):
    """Sent, but no answer came: the record may be in Redis, and publishing again may duplicate."""

    code = "MAYBE_WRITTEN"
