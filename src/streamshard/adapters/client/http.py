"""The coordinator over HTTP: one total deadline per call, shared by all base URLs."""

import asyncio
import json
import time
from collections.abc import Sequence
from urllib.parse import quote

import httpx

from streamshard.adapters.client.wire import Body, error_of, heartbeat_body, reply_of, routing_of
from streamshard.core.commands import Heartbeat
from streamshard.core.ids import GroupKey, Millis, WallMillis
from streamshard.core.replies import HeartbeatReply, Routing
from streamshard.core.timing import client_lease_ms
from streamshard.errors import ConfigurationError, CoordinatorUnreachable, Unavailable

DEFAULT_DEADLINE = Millis(5_000)
LEAST_DEADLINE_MS = 100
OK = 200
FIRST_SERVER_ERROR = 500
TOO_MANY = 429


class HttpCoordinator:
    """`CoordinatorApi` over one or several base URLs; the one that answered last is asked first.

    ``deadline``: milliseconds for a whole call, whatever the number of URLs; once a heartbeat was answered
    never more than a third of the lease.
    ``token`` goes out as a bearer token. Redirects are not followed. Belongs to one event loop.
    """

    def __init__(
        self,
        base_urls: str | Sequence[str],
        *,
        deadline: Millis = DEFAULT_DEADLINE,
        token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        urls = [base_urls] if isinstance(base_urls, str) else list(base_urls)
        self._urls = [_base(url) for url in urls]
        if not self._urls:
            raise ConfigurationError("url: needs at least one base URL, such as http://127.0.0.1:8080")
        if deadline < 1:
            raise ConfigurationError(f"deadline: must be at least 1 ms, not {deadline}")
        self._deadline_s = self._longest_s = deadline / 1000
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # httpx's own timeouts are per socket operation, so a slow drip would outlive any of them.
        self._client = httpx.AsyncClient(
            headers=headers, timeout=None, follow_redirects=False, trust_env=False, transport=transport
        )

    async def heartbeat(self, key: GroupKey, beat: Heartbeat) -> HeartbeatReply:
        """Answer one attempt; raises `CoordinatorUnreachable`, or what a refused request says."""
        path = f"{_group_path(key)}/members/{quote(beat.member, safe='')}/heartbeat"
        now = WallMillis(time.time_ns() // 1_000_000)
        response = await self._ask("POST", path, heartbeat_body(key, beat, now))
        reply = reply_of(_body(response))
        # A third of the lease, so that a second URL, and a second attempt, still come in time.
        self._deadline_s = min(self._longest_s, max(LEAST_DEADLINE_MS, client_lease_ms(reply.lease_ms) // 3) / 1000)
        return reply

    async def routing(self, key: GroupKey) -> Routing:
        """Raise `StreamNotFound`, `GroupNotFound` or `CoordinatorUnreachable`."""
        response = await self._ask("GET", f"{_group_path(key)}/producer-routing", None)
        return routing_of(key, _body(response), response.headers.get("ETag", ""))

    async def __aenter__(self) -> "HttpCoordinator":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections; idempotent."""
        await self._client.aclose()

    async def _ask(self, method: str, path: str, body: Body | None) -> httpx.Response:
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        ends_at = time.monotonic() + self._deadline_s
        failures: list[str] = []
        for position, base in enumerate(tuple(self._urls)):
            share = (ends_at - time.monotonic()) / (len(self._urls) - position)
            try:
                async with asyncio.timeout(max(share, 0)):
                    response = await self._send(method, base + path, content)
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

    async def _send(self, method: str, url: str, content: bytes | None) -> httpx.Response:
        headers = {"Accept": "application/json"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        return await self._client.request(method, url, content=content, headers=headers)

    def _prefer(self, base: str) -> None:
        if self._urls[0] != base:
            self._urls.remove(base)
            self._urls.insert(0, base)


def _base(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"url: {url!r} must begin with http:// or https://, such as http://127.0.0.1:8080")
    return url.rstrip("/")


def _group_path(key: GroupKey) -> str:
    return f"/coord/v1/streams/{quote(key.prefix, safe='')}/groups/{quote(key.group, safe='')}"


def _server_trouble(response: httpx.Response) -> str | None:
    """Why another coordinator should be asked; None if this answer counts."""
    if response.status_code < FIRST_SERVER_ERROR and response.status_code != TOO_MANY:
        return None
    error = error_of(response.status_code, _json(response))
    return f"{response.status_code} {error or response.reason_phrase}"


def _json(response: httpx.Response) -> object:
    try:
        return json.loads(response.content)
    except ValueError:
        return None


def _body(response: httpx.Response) -> Body:
    body = _json(response)
    error = None if response.status_code == OK else error_of(response.status_code, body)
    if error is not None and not isinstance(error, Unavailable):
        raise error
    if response.status_code != OK or not isinstance(body, dict):
        raise CoordinatorUnreachable(f"{response.url.host} answered {response.status_code} with no usable body")
    return body
