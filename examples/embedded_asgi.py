"""A coordinator mounted inside an application that serves other things too.

Run it with ``python examples/embedded_asgi.py``, then ask it:

    curl http://127.0.0.1:8000/hello
    STREAMSHARD_URL=http://127.0.0.1:8000/coordinator streamshard streams create orders --shards 4 --group billing
"""

import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from streamshard.entrypoints.http.app import create_app
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.entrypoints.settings import ServeSettings
from streamshard.entrypoints.ticker import Chronicling, Ticker, ticking
from streamshard.entrypoints.wiring import service

SETTINGS = ServeSettings(store="memory:", redis="memory:")


async def hello(request: Request) -> PlainTextResponse:
    """What this application is really for."""
    return PlainTextResponse("hello")


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """The host's lifespan opens the store and keeps the ticks going: those of mounted applications are not run."""
    async with service(SETTINGS) as built:
        traffic = Traffic(built.recorder)
        app.mount("/coordinator", create_app(built.coordinator, traffic=traffic, inspector=built.inspector))
        chronicling = Chronicling(built.coordinator, built.recorder.ticks)
        async with ticking(Ticker(chronicling, built.clock, SETTINGS.timing.tick_ms, traffic.let_pass)):
            yield


app = Starlette(routes=[Route("/hello", hello)], lifespan=lifespan)


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=8000)
