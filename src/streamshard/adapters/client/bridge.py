"""A coordinator that lives on another event loop of this process."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from streamshard.core.commands import Heartbeat
from streamshard.core.ids import GroupKey, Millis
from streamshard.core.notices import GroupWatch, LayoutWatch
from streamshard.core.ports import CoordinatorApi, Watching
from streamshard.core.replies import HeartbeatReply, News, Routing
from streamshard.errors import CoordinatorUnreachable

_Answer = TypeVar("_Answer")


class BridgedCoordinator:
    """`CoordinatorApi` over one whose connections belong to the loop ``home``: calls are carried there and back."""

    def __init__(self, api: CoordinatorApi, home: asyncio.AbstractEventLoop) -> None:
        self._api = api
        self._home = home

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        """As the coordinator's own."""
        return await self._carry(self._api.heartbeat(key, beat))

    async def routing(self, key: GroupKey) -> Routing:
        """As the coordinator's own."""
        return await self._carry(self._api.routing(key))

    async def _carry(self, call: Coroutine[Any, Any, _Answer]) -> _Answer:
        if self._home is asyncio.get_running_loop():
            return await call
        if self._home.is_closed():
            call.close()
            raise CoordinatorUnreachable("the event loop of the embedded coordinator is closed")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._home))


class WatchedBridge(BridgedCoordinator):
    """The same with watches, which ``watching`` holds on the same loop."""

    def __init__(self, api: CoordinatorApi, watching: Watching, home: asyncio.AbstractEventLoop) -> None:
        super().__init__(api, home)
        self._watching = watching

    async def watch(self, watch: GroupWatch | LayoutWatch, wait: Millis) -> News:
        """As the coordinator's own."""
        return await self._carry(self._watching.watch(watch, wait))
