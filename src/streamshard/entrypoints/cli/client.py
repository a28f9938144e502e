"""The coordinator's HTTP API as the command line needs it: plain JSON in and out, errors as exceptions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from streamshard.adapters.client.credentials import Credentials, parted, without_login
from streamshard.errors import (
    Conflict,
    CoordinatorUnreachable,
    Forbidden,
    InvalidRequest,
    NotAllowed,
    NotFound,
    RateLimited,
    StreamshardError,
    Unauthenticated,
    Unavailable,
)

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]

TIMEOUT_SECONDS = 30.0

_BY_STATUS: dict[int, type[StreamshardError]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: NotAllowed,
    429: RateLimited,
    503: Unavailable,
}

NEXT_STEPS: dict[str, str] = {
    "UNAUTHENTICATED": "streamshard token create --user NAME, and set STREAMSHARD_TOKEN to what it prints",
    "FORBIDDEN": "an account with that role",
    "RATE_LIMIT_EXCEEDED": "the same command again in a moment",
    "STREAM_NOT_FOUND": "streamshard streams list",
    "GROUP_NOT_FOUND": "streamshard groups list",
    "MIGRATION_NOT_FOUND": "streamshard reshard status STREAM",
    "ACTIVE_MIGRATION_EXISTS": "streamshard reshard status STREAM",
    "GROUP_HAS_ACTIVE_MEMBERS": "stop its members first, or add --force",
    "STREAM_PREFIX_ALREADY_EXISTS": "streamshard streams describe STREAM, or another name",
    "GROUP_ALREADY_EXISTS": "streamshard groups describe STREAM/GROUP, or another name",
    "METADATA_SYNC_IN_PROGRESS": "the same command again in a moment",
    "STATE_VERSION_CONFLICT": "the same command again",
}


class Api:
    """One coordinator; use it as a context manager. Name and password in ``url`` go before ``known``."""

    def __init__(self, url: str, known: Credentials | None = None, ca_file: str | None = None) -> None:
        import httpx  # a tenth of a second that `--help` need not take

        from streamshard.adapters.client.trust import trusting

        if not _is_base_url(url):
            raise InvalidRequest(f"--url: must be http://HOST:PORT or https://HOST:PORT, not {without_login(url)!r}")
        bare, login = parted(url)
        self._url = bare.rstrip("/")
        shown = login or (None if known is None else known.header)
        # No proxy from the environment: it would be asked for 127.0.0.1.
        self._http = httpx.Client(
            base_url=self._url,
            timeout=TIMEOUT_SECONDS,
            trust_env=False,
            headers={} if shown is None else {"Authorization": shown},
            verify=True if ca_file is None else trusting(ca_file),
        )

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._http.close()

    def get(self, *segments: str, params: Mapping[str, str] | None = None) -> Json:
        """Raise what the coordinator's refusal means."""
        return self._ask("GET", segments, params=params)

    def post(self, *segments: str, body: Json) -> Json:
        """Raise what the coordinator's refusal means."""
        return self._ask("POST", segments, body=body)

    def patch(self, *segments: str, body: Json) -> Json:
        """Raise what the coordinator's refusal means."""
        return self._ask("PATCH", segments, body=body)

    def delete(self, *segments: str, body: Json) -> Json:
        """Raise what the coordinator's refusal means."""
        return self._ask("DELETE", segments, body=body)

    def release(self) -> str:
        """The version of its software; raises as `get`."""
        return str(self._request("GET", "/openapi.json").get("info", {}).get("version", ""))

    def _ask(
        self,
        method: str,
        segments: tuple[str, ...],
        *,
        params: Mapping[str, str] | None = None,
        body: Json | None = None,
    ) -> Json:
        path = "/coord/v1/" + "/".join(quote(segment, safe="") for segment in segments)
        return self._request(method, path, params, body)

    def _request(
        self, method: str, path: str, params: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Json:
        import httpx

        try:
            response = self._http.request(method, path, params=params, json=body)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        decoded = self._decoded(response)
        if response.is_success:
            return decoded
        raise _refusal(response.status_code, decoded)

    def _unreachable(self, error: "httpx.TransportError") -> StreamshardError:
        why = str(error) or type(error).__name__
        found = CoordinatorUnreachable(f"no coordinator answers at {self._url}: {why}")
        return _with_next_step(found, "start one with `streamshard serve`, or set STREAMSHARD_URL to where it runs")

    def _decoded(self, response: "httpx.Response") -> Json:
        try:
            decoded = response.json()
        except ValueError:
            decoded = None
        if isinstance(decoded, dict) and (response.is_success or "errorCode" in decoded):
            return decoded
        found = StreamshardError(
            f"what answers at {self._url} is no streamshard coordinator (HTTP {response.status_code})"
        )
        raise _with_next_step(found, "set STREAMSHARD_URL to where the coordinator runs")


def _is_base_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that don't match, a port beyond 65535
        return False


def _refusal(status: int, body: Json) -> StreamshardError:
    kind = _BY_STATUS.get(status, StreamshardError)
    error = kind(str(body.get("message", f"HTTP {status}")))
    return _with_next_step(error, NEXT_STEPS.get(str(body["errorCode"])))


def _with_next_step(error: StreamshardError, step: str | None) -> StreamshardError:
    error.next_step = step  # type: ignore[attr-defined]
    return error
