"""Errors out: one shape for everything that goes wrong, one table from class to HTTP status."""

from collections.abc import Mapping

import msgspec

from streamshard.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotAllowed,
    NotFound,
    RateLimited,
    StreamshardError,
    Unauthenticated,
    Unavailable,
)


class PathNotFound(NotFound):
    """No resource has that path."""


class MethodNotAllowed(StreamshardError):
    """The resource exists, but not for this method."""

    code = "METHOD_NOT_ALLOWED"

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(f"this method is not allowed here: use {' or '.join(allowed)}")
        self.allowed = allowed


class PayloadTooLarge(StreamshardError):
    """The body is longer than the coordinator will read."""

    code = "PAYLOAD_TOO_LARGE"


HTTP_STATUS: Mapping[type[StreamshardError], int] = {
    InvalidRequest: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    MethodNotAllowed: 405,
    Conflict: 409,
    PayloadTooLarge: 413,
    NotAllowed: 422,
    RateLimited: 429,
    Unavailable: 503,
}
"""A class stands for its subclasses too; what is not here is a fault of ours."""

STATUS_NAMES: Mapping[int, str] = {
    400: "BAD_REQUEST",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    409: "CONFLICT",
    413: "PAYLOAD_TOO_LARGE",
    422: "UNPROCESSABLE_ENTITY",
    429: "TOO_MANY_REQUESTS",
    500: "INTERNAL_SERVER_ERROR",
    503: "SERVICE_UNAVAILABLE",
}
"""Spelt here because the standard library's names changed between Python versions."""

INTERNAL = 500
RETRY_AFTER_SECONDS = "1"
WAYS_TO_LOG_IN = (b'Basic realm="streamshard", charset="UTF-8"', b'Bearer realm="streamshard"')


def http_status(error: Exception) -> int:
    """The status of an error's nearest listed ancestor; 500 for anything unexpected."""
    for kind in type(error).__mro__:
        if kind in HTTP_STATUS:
            return HTTP_STATUS[kind]
    return INTERNAL


def encode_error(error: Exception) -> bytes:
    """The error body; an unexpected fault says nothing about our insides."""
    status = http_status(error)
    told = error if isinstance(error, StreamshardError) and status != INTERNAL else _UNTOLD
    return msgspec.json.encode(
        {
            "status": STATUS_NAMES[status],
            "errorCode": told.code,
            "message": told.message,
            "retryable": told.retryable,
            "details": None if told.details is None else dict(told.details),
        },
        enc_hook=str,
    )


_UNTOLD = StreamshardError("the coordinator failed: its log says why, under this answer's X-Request-Id")


def error_headers(error: Exception) -> list[tuple[bytes, bytes]]:
    """What the status obliges us to say besides the body."""
    if isinstance(error, MethodNotAllowed):
        return [(b"allow", ", ".join(error.allowed).encode())]
    if isinstance(error, Unauthenticated):
        return [(b"www-authenticate", way) for way in WAYS_TO_LOG_IN]
    if isinstance(error, RateLimited):
        return [(b"retry-after", str((error.details or {}).get("retryAfterSeconds", 1)).encode())]
    if isinstance(error, Unavailable) and error.retryable:
        return [(b"retry-after", RETRY_AFTER_SECONDS.encode())]
    return []
