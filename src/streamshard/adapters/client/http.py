"""The coordinator over HTTP: one total deadline per call, shared by all base URLs."""

import asyncio
import json
import ssl
import time
from collections.abc import Sequence
from typing import TypeAlias
from urllib.parse import quote, urlencode

import httpx

from streamshard.adapters.client.answer import Answer, received
from streamshard.adapters.client.credentials import Auth, Credentials, parted, without_login
from streamshard.adapters.client.trust import trusting
from streamshard.adapters.client.wire import (
    Body,
    batch_item,
    batch_of,
    error_of,
    heartbeat_body,
    news_of,
    reply_of,
    routing_of,
    watch_query,
)
from streamshard.adapters.lives import FORKED, Life
from streamshard.core.commands import Heartbeat
from streamshard.core.ids import GroupKey, Millis, WallMillis
from streamshard.core.notices import GroupWatch, LayoutWatch
from streamshard.core.replies import HeartbeatReply, News, Routing
from streamshard.core.timing import client_lease_ms
from streamshard.errors import ConfigurationError, CoordinatorUnreachable, StreamshardError, Unavailable

DEFAULT_DEADLINE = Millis(5_000)
LEAST_DEADLINE_MS = 100
OK = 200
FIRST_SERVER_ERROR = 500
TOO_MANY = 429
UNAUTHORIZED = 401
UNKNOWN_RESOURCE = (404, 405)
REFUSED_WHOLE = (400, 403, 413, 414, 415, 422)

MOST_TOGETHER = 100
MOST_BYTES = 500_000
"""Of a batch, which is half of what a coordinator reads."""

SINGLY_S = 60.0
"""How long a coordinator that does not know of batches is not asked again."""

WATCH_GRACE_S = 5.0


class HttpCoordinator:
    """`CoordinatorApi` over one or several base URLs; the one that answered last is asked first.

    ``deadline``: milliseconds for a whole call, whatever the number of URLs; once a heartbeat was answered
    never more than a third of the lease.
    ``token`` goes out as a bearer token, ``auth`` as name and password, and so does what a URL says before its host.
    ``ca_file``: authorities to believe instead of the usual ones. Redirects are not followed. Belongs to one event
    loop.
    """

    def __init__(  # noqa: PLR0913  # each has a default, and all but one go by name
        self,
        base_urls: str | Sequence[str],
        *,
        deadline: Millis = DEFAULT_DEADLINE,
        token: str | None = None,
        auth: Auth | None = None,
        known: Credentials | None = None,
        ca_file: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        urls = [base_urls] if isinstance(base_urls, str) else list(base_urls)
        parts = [parted(_base(url)) for url in urls]
        self._urls = [base for base, _ in parts]
        self._logins = {base: login for base, login in parts if login is not None}
        self._credentials = known or Credentials(token, auth)
        if not self._urls:
            raise ConfigurationError("url: needs at least one base URL, such as http://127.0.0.1:8080")
        if deadline < 1:
            raise ConfigurationError(f"deadline: must be at least 1 ms, not {deadline}")
        self._deadline_s = self._longest_s = deadline / 1000
        self._singly_until = 0.0
        self._life = Life()
        trust = _trust(self._urls, ca_file)
        # No heartbeat ever waits for a connection because watches hold them all.
        self._client, self._listening = (
            # httpx's own timeouts are per socket operation, so a slow drip would outlive any of them.
            httpx.AsyncClient(
                timeout=None,
                follow_redirects=False,
                trust_env=False,
                transport=transport,
                verify=trust,
                limits=limits,
            )
            for limits in (httpx.Limits(), httpx.Limits(max_connections=None))
        )

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        """Answer one attempt; raises `CoordinatorUnreachable`, or what a refused request says."""
        path = f"{_group_path(key)}/members/{quote(beat.member, safe='')}/heartbeat"
        response = await self._ask("POST", path, _encoded(heartbeat_body(key, beat, _wall())))
        reply = reply_of(_body(response))
        self._note_lease(reply)
        return reply

    async def heartbeats(
        self, beats: Sequence[tuple[GroupKey, Heartbeat]]
    ) -> tuple[HeartbeatReply | StreamshardError, ...]:
        """Answer each attempt in its place, with few requests, or with one for each where batches are not known."""
        if len(beats) == 1 or time.monotonic() < self._singly_until:
            return await self._singly(beats)
        now = _wall()
        items = [(beat, _encoded(batch_item(*beat, now))) for beat in beats]
        answers = await asyncio.gather(*(self._batch(part) for part in _parts(items)))
        return tuple(answer for part in answers for answer in part)

    async def watch(self, watch: GroupWatch | LayoutWatch, wait: Millis) -> News:
        """Answer as soon as there is news, or after ``wait``; each URL gets that long."""
        path = f"/coord/v1/streams/{quote(watch.prefix, safe='')}/watch?{urlencode(watch_query(watch, wait))}"
        patience = wait / 1000 + WATCH_GRACE_S
        response = await self._ask("GET", path, None, self._listening, patience * len(self._urls))
        return news_of(_body(response))

    async def routing(self, key: GroupKey) -> Routing:
        """Raise `StreamNotFound`, `GroupNotFound` or `CoordinatorUnreachable`."""
        answer = await self._ask("GET", f"{_group_path(key)}/producer-routing", None)
        return routing_of(key, _body(answer), answer.headers.get("ETag", ""))

    async def __aenter__(self) -> "HttpCoordinator":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections; idempotent."""
        await self._client.aclose()
        await self._listening.aclose()

    async def _batch(self, part: "_Part") -> tuple[HeartbeatReply | StreamshardError, ...]:
        beats = [beat for beat, _ in part]
        content = b'{"heartbeats":[' + b",".join(item for _, item in part) + b"]}"
        try:
            response = await self._ask("POST", "/coord/v1/heartbeats", content)
            if response.status_code in UNKNOWN_RESOURCE:
                self._singly_until = time.monotonic() + SINGLY_S
            if response.status_code in UNKNOWN_RESOURCE + REFUSED_WHOLE:
                return await self._singly(beats)
            answers = batch_of(_body(response), len(part))
        except StreamshardError as error:
            return (error,) * len(part)
        for answer in answers:
            if isinstance(answer, HeartbeatReply):
                self._note_lease(answer)
        return answers

    async def _singly(
        self, beats: Sequence[tuple[GroupKey, Heartbeat]]
    ) -> tuple[HeartbeatReply | StreamshardError, ...]:
        return tuple(await asyncio.gather(*(self._alone(*beat) for beat in beats)))

    async def _alone(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply | StreamshardError:
        try:
            return await self.heartbeat(key, beat)
        except StreamshardError as error:
            return error

    def _note_lease(self, reply: HeartbeatReply) -> None:
        # A third of the lease, so that a second URL, and a second attempt, still come in time.
        self._deadline_s = min(self._longest_s, max(LEAST_DEADLINE_MS, client_lease_ms(reply.lease_ms) // 3) / 1000)

    async def _ask(
        self,
        method: str,
        path: str,
        content: bytes | None,
        client: httpx.AsyncClient | None = None,
        deadline_s: float | None = None,
    ) -> Answer:
        if self._life.is_over():
            raise ConfigurationError(f"coordinator: {FORKED}")
        ends_at = time.monotonic() + (deadline_s or self._deadline_s)
        failures: list[str] = []
        for position, base in enumerate(tuple(self._urls)):
            share = (ends_at - time.monotonic()) / (len(self._urls) - position)
            try:
                async with asyncio.timeout(max(share, 0)):
                    response = await self._shown(client or self._client, method, base, path, content)
            except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                # A TimeoutError is an OSError: the share of this URL is used up.
                failures.append(f"{base}: {str(error) or 'no answer in time'}")
                continue
            problem = _server_trouble(response)
            if problem is None:
                self._prefer(base)
                return response
            failures.append(f"{base}: {problem}")
        raise CoordinatorUnreachable("no coordinator answered: " + "; ".join(failures))

    async def _shown(
        self, client: httpx.AsyncClient, method: str, base: str, path: str, content: bytes | None
    ) -> Answer:
        """One answer to who we are; once more if we are someone else by now."""
        login = self._logins.get(base)
        response = await _send(client, method, base + path, content, login or self._credentials.header)
        if response.status_code == UNAUTHORIZED and login is None and self._credentials.renewed():
            response = await _send(client, method, base + path, content, self._credentials.header)
        return response

    def _prefer(self, base: str) -> None:
        if self._urls[0] != base:
            self._urls.remove(base)
            self._urls.insert(0, base)


_Part: TypeAlias = list[tuple[tuple[GroupKey, Heartbeat], bytes]]


def _parts(items: _Part) -> list[_Part]:
    """Split so that each part fits into one request."""
    parts: list[_Part] = [[]]
    size = 0
    for item in items:
        if len(parts[-1]) == MOST_TOGETHER or (parts[-1] and size + len(item[1]) > MOST_BYTES):
            parts.append([])
            size = 0
        parts[-1].append(item)
        size += len(item[1])
    return parts


def _wall() -> WallMillis:
    return WallMillis(time.time_ns() // 1_000_000)


def _encoded(body: Body) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


async def _send(client: httpx.AsyncClient, method: str, url: str, content: bytes | None, login: str | None) -> Answer:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if login is not None:
        headers["Authorization"] = login
    if content is not None:
        headers["Content-Type"] = "application/json"
    async with client.stream(method, url, content=content, headers=headers) as response:
        return await received(response)


def _trust(urls: Sequence[str], ca_file: str | None) -> ssl.SSLContext:
    """Whose certificates are believed. Loading them takes a fifth of a second: without TLS nobody's are."""
    if ca_file is not None:
        return trusting(ca_file)
    if any(url.startswith("https://") for url in urls):
        return httpx.create_ssl_context(trust_env=False)
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _base(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"url: {without_login(url)!r} must begin with http:// or https://, such as http://127.0.0.1:8080"
        )
    if not _has_host(url):
        raise ConfigurationError(f"url: {without_login(url)!r} can't be read: write it like http://127.0.0.1:8080")
    return url.rstrip("/")


def _has_host(url: str) -> bool:
    try:
        return httpx.URL(url).host != ""
    except httpx.InvalidURL:  # brackets that don't match, a port that is no number
        return False


def _group_path(key: GroupKey) -> str:
    return f"/coord/v1/streams/{quote(key.prefix, safe='')}/groups/{quote(key.group, safe='')}"


def _server_trouble(answer: Answer) -> str | None:
    """Why another coordinator should be asked; None if this answer counts."""
    if answer.absurd:
        return answer.useless()
    if answer.status_code < FIRST_SERVER_ERROR and answer.status_code != TOO_MANY:
        return None
    error = error_of(answer.status_code, answer.body)
    return f"{answer.status_code} {error or answer.reason}"


def _body(answer: Answer) -> Body:
    body = answer.body
    error = None if answer.status_code == OK else error_of(answer.status_code, body)
    if error is not None and not isinstance(error, Unavailable):
        raise error
    if answer.status_code != OK or not isinstance(body, dict):
        raise CoordinatorUnreachable(f"{answer.url} {answer.useless()}")
    return body
