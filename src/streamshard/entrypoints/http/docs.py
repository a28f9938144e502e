"""The document and the page that draws it: files of this package, and nothing from anywhere else."""

import functools
from importlib.resources import files

from streamshard.entrypoints.http.exchange import Reply, Request
from streamshard.entrypoints.http.openapi import document

# Only what lies beside the page, and nobody may frame it: no other site has a part in it.
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
).encode()
_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class Docs:
    """Three files and the document."""

    async def openapi(self, request: Request) -> Reply:
        """GET ``/openapi.json``."""
        return Reply(200, document(), ((b"cache-control", b"no-cache"),))

    async def page(self, request: Request) -> Reply:
        """GET ``/docs``."""
        return _file("index.html", b"text/html; charset=utf-8")

    async def style(self, request: Request) -> Reply:
        """GET ``/docs/page.css``."""
        return _file("page.css", b"text/css; charset=utf-8")

    async def script(self, request: Request) -> Reply:
        """GET ``/docs/page.js``."""
        return _file("page.js", b"text/javascript; charset=utf-8")


def _file(name: str, media: bytes) -> Reply:
    return Reply(200, _content(name), ((b"content-type", media), *_HEADERS))


@functools.cache
def _content(name: str) -> bytes:
    return (files("streamshard.entrypoints.http") / "page" / name).read_bytes()
