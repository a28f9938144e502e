"""The handler that members call, again and again."""

import re

from starlette.types import Receive, Scope, Send

from streamshard.core.coordinator import Coordinator
from streamshard.entrypoints.http.exchange import SEEN, TAG, Reply, Request, json_start, read_body
from streamshard.entrypoints.http.gate import Gate
from streamshard.entrypoints.http.heartbeats import Refused, decode_heartbeat, encode_reply, rejected
from streamshard.entrypoints.http.metrics_recorder import Recorder, now
from streamshard.entrypoints.http.operations import HEARTBEAT, OPERATIONS
from streamshard.entrypoints.http.refrains import Refrains

_BEAT = next(operation for operation in OPERATIONS if operation.path == HEARTBEAT)
_PATH = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]*)", HEARTBEAT))


class Members:
    """Heartbeats; a member in trouble gets an answer that says what to do, not an error."""

    def __init__(self, coordinator: Coordinator, recorder: Recorder) -> None:
        self._coordinator = coordinator
        self._recorder = recorder.heartbeats
        self._seen = recorder.route(HEARTBEAT, "POST")
        self._refrains = Refrains()

    async def heartbeat(self, request: Request) -> Reply:
        """POST ``…/members/{m}/heartbeat``."""
        began = now()
        key, member = request.key, request.member
        body = decode_heartbeat(request.body)
        command = body.command(member)
        if isinstance(command, Refused):
            reply = rejected(body, member, command, self._coordinator.settings.timing)
        else:
            speaker = request.caller.name
            reply = await self._coordinator.heartbeat(key, command if speaker is None else command.spoken_by(speaker))
            if reply.likeness is not None:
                self._refrains.learn(HEARTBEAT.format(**request.params), request.body, key, command)
        encoded = encode_reply(reply)
        self._recorder.answered(reply.status, now() - began)
        return Reply(200, encoded)

    def listen(self, path: str) -> bool:
        """Whether what is posted to ``path`` is a heartbeat."""
        return self._refrains.of(path) is not None or _PATH.fullmatch(path) is not None

    async def answer_known(self, gate: Gate, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        """The same where there are accounts: first ask who posts."""
        scope[SEEN].append(self._seen)
        caller = await gate.admit(scope, _BEAT, _params(path))
        await self.answer(scope, receive, send, path, caller.name)

    async def answer(self, scope: Scope, receive: Receive, send: Send, path: str, speaker: str | None = None) -> None:
        """Read a heartbeat that was posted to ``path``, and send its answer; errors are raised through."""
        scope[SEEN].append(self._seen)
        began = now()
        body = await read_body(scope, receive)
        refrain = self._refrains.of(path)
        beat = None if refrain is None else refrain.read(body)
        if refrain is None or beat is None:
            content = (await self.heartbeat(Request(scope, _params(path), body, receive))).body
        else:
            read = now()
            if speaker is not None:
                beat = beat.spoken_by(speaker)
            reply = await self._coordinator.heartbeat(refrain.key, beat)
            content = encode_reply(reply)
            self._recorder.answered(reply.status, now() - read)
        await send(json_start(content, scope[TAG]))
        await send({"type": "http.response.body", "body": content})
        self._seen.answered(200, now() - began)


def _params(path: str) -> dict[str, str]:
    found = _PATH.fullmatch(path)
    assert found is not None, "no other path is listened to"
    return found.groupdict()
