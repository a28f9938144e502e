"""What came back over HTTP, whoever sent it: bounded, and told in words if it is of no use."""

import json

import attrs
import httpx

MOST_BYTES = 16_000_000
"""Several times what a coordinator says to a hundred members that share the most shards a stream may have."""

SHOWN = 200
FIRST_REDIRECT, FIRST_CLIENT_ERROR = 300, 400
OK = 200


@attrs.frozen
class Answer:
    """A whole answer of no more than `MOST_BYTES`. ``body``: its JSON; None if it is none."""

    url: str
    status_code: int
    reason: str
    headers: httpx.Headers
    body: object

    @property
    def absurd(self) -> bool:
        """No coordinator answers like this, so another one should be asked."""
        elsewhere = FIRST_REDIRECT <= self.status_code < FIRST_CLIENT_ERROR
        return elsewhere or (self.status_code == OK and not isinstance(self.body, dict))

    def useless(self) -> str:
        """Say why it can't be the answer of a coordinator, and what to mend."""
        if FIRST_REDIRECT <= self.status_code < FIRST_CLIENT_ERROR:
            place = shown(self.headers.get("Location", "nowhere"))
            return f"answered {self.status_code}, a redirect to {place}, which is not followed: mend the base URL"
        what = "JSON that no coordinator sends"
        if self.body is None:
            what = f"something that is no JSON ({shown(self.headers.get('Content-Type', 'of no type'))})"
        return f"answered {self.status_code} with {what}: is a coordinator behind this URL?"


async def received(response: httpx.Response) -> Answer:
    """Read it to its end; raises `httpx.HTTPError` for one that is too long."""
    parts, size = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise httpx.HTTPError(f"an answer of more than {MOST_BYTES} bytes: is a coordinator behind this URL?")
    url = f"{response.url.scheme}://{response.url.netloc.decode()}"
    return Answer(url, response.status_code, shown(response.reason_phrase), response.headers, _json(b"".join(parts)))


def shown(text: str) -> str:
    """Foreign text as it may stand in a log: short, and without control characters."""
    short = text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in short)


def _json(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
