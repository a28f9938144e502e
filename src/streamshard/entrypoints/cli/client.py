"""The coordinator's HTTP API as the command line needs it: plain JSON in and out, errors as exceptions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from streamshard.errors import (
    Conflict,
    CoordinatorUnreachable,
    InvalidRequest,
    NotAllowed,
    NotFound,
    StreamshardError,
    Unavailable,
)

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]

TIMEOUT_SECONDS = 30.0

_BY_STATUS: dict[int, type[StreamshardError]] = {
    400: InvalidRequest,
    404: NotFound,
    409: Conflict,
    422: NotAllowed,
    503: Unavailable,
}

NEXT_STEPS: dict[str, str] = {
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
    """One coordinator; use it as a context manager."""

    def __init__(self, url: str) -> None:
        import httpx  # a tenth of a second that `--help` need not take

        if not _is_base_url(url):
            raise InvalidRequest(f"--url: must be http://HOST:PORT or https://HOST:PORT, not {url!r}")
        self._url = url.rstrip("/")
        # No proxy from the environment: it would be asked for 127.0.0.1.
        self._http = httpx.Client(base_url=self._url, timeout=TIMEOUT_SECONDS, trust_env=False)

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

    def _ask(
        self,
        method: str,
        segments: tuple[str, ...],
        *,
        params: Mapping[str, str] | None = None,
        body: Json | None = None,
    ) -> Json:
        import httpx

        path = "/coord/v1/" + "/".join(quote(segment, safe="") for segment in segments)
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
