"""How a client gets at its coordinator: by URL, or in the same process."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import TypeAlias

from streamshard.adapters.client.bridge import BridgedCoordinator, WatchedBridge
from streamshard.adapters.client.credentials import CA_FILE, Auth, credentials
from streamshard.adapters.watchtower import Watchable, WatchedCoordinator
from streamshard.core.ports import CoordinatorApi, Watching
from streamshard.errors import ConfigurationError

URL_VARIABLE = "STREAMSHARD_URL"

Where: TypeAlias = str | Sequence[str] | CoordinatorApi | None
Connecting: TypeAlias = Callable[[asyncio.AbstractEventLoop], contextlib.AbstractAsyncContextManager[CoordinatorApi]]


def coordinator_at(
    url: Where, token: str | None, auth: Auth | None, closing: contextlib.AsyncExitStack
) -> tuple[Connecting, CoordinatorApi]:
    """How the membership's thread connects, and a connection for the caller's own loop, closed by ``closing``.

    Raises `ConfigurationError`.
    """
    urls = os.environ.get(URL_VARIABLE) if url is None else url
    if urls is None:
        raise ConfigurationError(f"url: name the coordinator's base URL, here or in {URL_VARIABLE}")
    if not isinstance(urls, str | Sequence):
        return _in_process(urls)
    # Imported here: with a coordinator in the same process nobody needs an HTTP client.
    from streamshard.adapters.client.http import HttpCoordinator

    known, ca_file = credentials(token, auth, os.environ), os.environ.get(CA_FILE) or None
    own = HttpCoordinator(urls, known=known, ca_file=ca_file)
    closing.push_async_callback(own.close)
    return lambda home: HttpCoordinator(urls, known=known, ca_file=ca_file), own


def _in_process(api: CoordinatorApi) -> tuple[Connecting, CoordinatorApi]:
    own = WatchedCoordinator(api) if isinstance(api, Watchable) else api

    def bridged(home: asyncio.AbstractEventLoop) -> BridgedCoordinator:
        return WatchedBridge(own, own, home) if isinstance(own, Watching) else BridgedCoordinator(own, home)

    return lambda home: contextlib.nullcontext(bridged(home)), own
