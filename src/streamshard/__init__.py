"""Kafka-grade consumer groups for Redis Streams."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from streamshard.adapters.client.http import HttpCoordinator
    from streamshard.adapters.client.message import Batch, Message
    from streamshard.adapters.client.producer import Producer, Published
    from streamshard.adapters.client.scripted import ScriptedCoordinator
    from streamshard.adapters.hashing import route
    from streamshard.core.ids import GroupKey
    from streamshard.entrypoints.app import StreamApp
    from streamshard.entrypoints.assigning import Membership
    from streamshard.entrypoints.polling import Poller
    from streamshard.entrypoints.sharing import listens
    from streamshard.entrypoints.sync_producer import SyncProducer
    from streamshard.errors import (
        ConfigurationError,
        Conflict,
        CoordinatorUnreachable,
        GroupNotFound,
        InvalidRequest,
        LeaseLost,
        ListenerRejected,
        MaybeWritten,
        NotFound,
        NotWritten,
        RoutingExpired,
        StreamNotFound,
        StreamshardError,
        StreamUnavailable,
        Unavailable,
    )

__all__ = [
    "Batch",
    "ConfigurationError",
    "Conflict",
    "CoordinatorUnreachable",
    "GroupKey",
    "GroupNotFound",
    "HttpCoordinator",
    "InvalidRequest",
    "LeaseLost",
    "ListenerRejected",
    "MaybeWritten",
    "Membership",
    "Message",
    "NotFound",
    "NotWritten",
    "Poller",
    "Producer",
    "Published",
    "RoutingExpired",
    "ScriptedCoordinator",
    "StreamApp",
    "StreamNotFound",
    "StreamUnavailable",
    "StreamshardError",
    "SyncProducer",
    "Unavailable",
    "listens",
    "route",
]

_HOMES = {
    "Batch": "streamshard.adapters.client.message",
    "GroupKey": "streamshard.core.ids",
    "HttpCoordinator": "streamshard.adapters.client.http",
    "Membership": "streamshard.entrypoints.assigning",
    "Message": "streamshard.adapters.client.message",
    "Poller": "streamshard.entrypoints.polling",
    "Producer": "streamshard.adapters.client.producer",
    "Published": "streamshard.adapters.client.producer",
    "ScriptedCoordinator": "streamshard.adapters.client.scripted",
    "StreamApp": "streamshard.entrypoints.app",
    "SyncProducer": "streamshard.entrypoints.sync_producer",
    "listens": "streamshard.entrypoints.sharing",
    "route": "streamshard.adapters.hashing",
}
"""Where the names come from; all others are errors. Loaded on first use, so that the import costs nothing."""


if not typing.TYPE_CHECKING:  # a type checker would take every misspelt name for an object

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES.get(name, "streamshard.errors")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
