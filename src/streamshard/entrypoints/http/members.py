"""The handler that members call, again and again."""

from streamshard.core.coordinator import Coordinator
from streamshard.entrypoints.http.exchange import Reply, Request
from streamshard.entrypoints.http.heartbeats import Refused, decode_heartbeat, encode_reply, rejected


class Members:
    """Heartbeats; a member in trouble gets an answer that says what to do, not an error."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def heartbeat(self, request: Request) -> Reply:
        """POST ``…/members/{m}/heartbeat``."""
        key, member = request.key, request.member
        body = decode_heartbeat(request.body)
        command = body.command(member)
        if isinstance(command, Refused):
            reply = rejected(body, member, command, self._coordinator.settings.timing)
        else:
            reply = await self._coordinator.heartbeat(key, command)
        return Reply(200, encode_reply(reply))
