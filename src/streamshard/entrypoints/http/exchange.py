"""One request and its answer: paths, bodies and headers, each read with a limit."""

import functools
import hashlib
import itertools
import re
import secrets
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

import attrs
import msgspec
from starlette.types import Message, Receive, Scope, Send

from streamshard.core.admin import Idempotency
from streamshard.core.ids import GroupKey, MemberId, ReshardingId, StreamPrefix
from streamshard.core.names import check_group, check_member, check_prefix
from streamshard.entrypoints.http.faults import PayloadTooLarge
from streamshard.entrypoints.security.roles import ANYBODY, Caller
from streamshard.errors import InvalidRequest

BODY_LIMIT = 2**20
"""Bytes; a longer body is refused."""

TICKET = "streamshard.ticket"
"""Where a request's scope carries its number in the `Traffic`."""

TAG = "streamshard.tag"
"""Where it carries the header that names the request in its answer and in the log."""

SEEN = "streamshard.seen"
"""Where it carries the list that who answers it is put into, for the count of answers."""

CALLER = "streamshard.caller"
"""Where it carries who asks, once that is known; without accounts nobody looks."""

HEADERS = "streamshard.headers"
"""Where it carries its headers by name, once somebody has asked for one."""

DISCARD_LIMIT = 16 * BODY_LIMIT
"""Bytes of a refused body that are read and thrown away before its sender is cut off."""

_LIMIT_DIGITS = len(str(BODY_LIMIT))

Header = tuple[bytes, bytes]

_JSON: Header = (b"content-type", b"application/json")

_SAFE_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
_PROCESS = secrets.token_hex(4).encode()
_numbers = itertools.count()
_IDEMPOTENCY_KEY = re.compile(rb"[\x21-\x7e]{1,200}")


def raw_path(scope: Scope) -> bytes:
    """The path as it came, still percent-encoded, so that a name may not smuggle a slash in."""
    raw: bytes | None = scope.get("raw_path")
    return raw if raw is not None else scope["path"].encode()


def header(scope: Scope, name: bytes) -> bytes | None:
    """The first header of that (lower-case) name."""
    by_name = scope.get(HEADERS)
    if by_name is None:
        by_name = scope[HEADERS] = dict(reversed([*scope["headers"]]))
    value: bytes | None = by_name.get(name)
    return value


def request_id(scope: Scope) -> bytes:
    """The caller's ``X-Request-Id`` if it is safe to repeat, else a new one."""
    given = header(scope, b"x-request-id")
    if given is not None and _SAFE_REQUEST_ID.fullmatch(given):
        return given
    return b"%s%08x" % (_PROCESS, next(_numbers))


def new_resharding_id() -> ReshardingId:
    """A name for a resharding that is about to be asked for."""
    return ReshardingId(f"reshard-{secrets.token_hex(16)}")


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """The body; raises `PayloadTooLarge` if it is longer than `BODY_LIMIT`, of which no more is ever kept."""
    declared = header(scope, b"content-length") or b""
    if len(declared) >= _LIMIT_DIGITS and declared.isdigit() and int(declared[:12]) > BODY_LIMIT:
        if header(scope, b"expect") is None:
            await _discard(receive)
        raise _too_large()
    chunk, more = _chunk(await receive())
    return await _all(chunk, receive) if more or len(chunk) > BODY_LIMIT else chunk


async def _all(chunk: bytes, receive: Receive) -> bytes:
    chunks, size, more = [chunk], len(chunk), True
    while more and size <= BODY_LIMIT:
        chunk, more = _chunk(await receive())
        size += len(chunk)
        chunks.append(chunk)
    if size > BODY_LIMIT:
        if more:
            await _discard(receive)
        raise _too_large()
    return b"".join(chunks)


async def _discard(receive: Receive) -> None:
    """Let a caller finish sending, within reason: many look for an answer only then."""
    size, more = 0, True
    while more and size <= DISCARD_LIMIT:
        chunk, more = _chunk(await receive())
        size += len(chunk)


def _chunk(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


class ClientGone(Exception):
    """The caller hung up before it had sent everything: nobody is left to answer."""


def _too_large() -> PayloadTooLarge:
    return PayloadTooLarge(f"body: is longer than {BODY_LIMIT} bytes: send less")


def percent_decoded(segment: str, field: str) -> str:
    """A path segment's text; raises `InvalidRequest` unless it is UTF-8."""
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{field}: is not UTF-8: percent-encode its UTF-8 bytes") from None


# The same members come again and again, and a name is looked at character by character.
@functools.lru_cache(maxsize=4096)
def _group_key(prefix: str, group: str) -> GroupKey:
    return GroupKey(
        check_prefix(percent_decoded(prefix, "streamPrefix")), check_group(percent_decoded(group, "consumerGroup"))
    )


@functools.lru_cache(maxsize=16_384)
def _member_id(member: str) -> MemberId:
    return check_member(percent_decoded(member, "memberId"))


@attrs.frozen(slots=False)  # made for every heartbeat: faster without
class Request:
    """What a handler gets to see."""

    scope: Scope
    params: Mapping[str, str]
    body: bytes
    receive: Receive

    @property
    def ticket(self) -> int:
        """Its number in the `Traffic`."""
        number: int = self.scope[TICKET]
        return number

    @property
    def caller(self) -> Caller:
        """Who asks."""
        found: Caller = self.scope.get(CALLER, ANYBODY)
        return found

    async def hung_up(self) -> None:
        """Return once the caller is gone."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    @property
    def prefix(self) -> StreamPrefix:
        """Raise `InvalidRequest` for a bad name, like the two below."""
        return check_prefix(percent_decoded(self.params["prefix"], "streamPrefix"))

    @property
    def key(self) -> GroupKey:
        """The group that the path names."""
        return _group_key(self.params["prefix"], self.params["group"])

    @property
    def member(self) -> MemberId:
        """The member that the path names."""
        return _member_id(self.params["member"])

    @property
    def resharding(self) -> ReshardingId:
        """The resharding that the path names."""
        return ReshardingId(percent_decoded(self.params["resharding"], "reshardingId"))

    def idempotency(self) -> Idempotency | None:
        """The caller's key with a digest of method, path and body."""
        given = header(self.scope, b"idempotency-key")
        if given is None:
            return None
        if not _IDEMPOTENCY_KEY.fullmatch(given):
            raise InvalidRequest("Idempotency-Key: must be 1 to 200 visible ASCII characters without spaces")
        asked = b"\n".join((self.scope["method"].encode(), raw_path(self.scope), self.body))
        return Idempotency(given.decode(), hashlib.sha256(asked).hexdigest())


@attrs.frozen
class Reply:
    """What a handler answers."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = ()


def json_reply(status: int, value: object) -> Reply:
    """``value`` as JSON."""
    return Reply(status, msgspec.json.encode(value))


async def send_reply(send: Send, reply: Reply, *extra: Header) -> None:
    """Send one complete answer; it is JSON unless its headers say otherwise."""
    headers: list[Header] = [(b"content-length", b"%d" % len(reply.body)), *reply.headers, *extra]
    if not reply.headers or all(name != b"content-type" for name, _ in reply.headers):
        headers.append(_JSON)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def json_start(body: bytes, tag: Header) -> Message:
    """How an answer with status 200 begins, for who can't spare the time for more."""
    headers = [(b"content-length", b"%d" % len(body)), tag, _JSON]
    return {"type": "http.response.start", "status": 200, "headers": headers}
