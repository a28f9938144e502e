"""The handler that members call, again and again."""

from streamshard.core.coordinator import Coordinator
from streamshard.entrypoints.http.exchange import Reply, Request
from streamshard.entrypoints.http.heartbeats import Refused, decode_heartbeat, encode_reply, rejected
from streamshard.entrypoints.http.metrics_recorder import HeartbeatRecorder, now


class Members:
    """Heartbeats; a member in trouble gets an answer that says what to do, not an error."""

    def __init__(self, coordinator: Coordinator, recorder: HeartbeatRecorder) -> None:
        self._coordinator = coordinator
        self._recorder = recorder

    async def heartbeat(self, request: Request) -> Reply:
        """POST ``…/members/{m}/heartbeat``."""
        began = now()
        key, member = request.key, request.member
        body = decode_heartbeat(request.body)
        command = body.command(member)
        if isinstance(command, Refused):
            reply = rejected(body, member, command, self._coordinator.settings.timing)
        else:
            reply = await self._coordinator.heartbeat(key, command)
        encoded = encode_reply(reply)
        self._recorder.answered(reply.status, now() - began)
        return Reply(200, encoded)
