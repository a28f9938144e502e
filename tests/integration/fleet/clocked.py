"""A coordinator whose wall clock is wrong by so many seconds; its boot clock is as good as anybody's."""

import asyncio
import logging
import socket
import sys

import attrs
import uvicorn

from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import Instant, Millis, WallMillis
from streamshard.entrypoints.http.app import create_app
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.entrypoints.settings import ServeSettings, serve_settings
from streamshard.entrypoints.ticker import Chronicling, Ticker, ticking
from streamshard.entrypoints.wiring import service


@attrs.frozen
class WrongClock:
    """The `Clock` port, hours away from everybody else's wall clock."""

    offset_ms: int
    right: SystemClock = attrs.field(factory=SystemClock)

    def boot(self) -> Instant:
        return self.right.boot()

    def wall(self) -> WallMillis:
        return WallMillis(self.right.wall() + self.offset_ms)

    async def sleep(self, duration: Millis) -> None:
        await self.right.sleep(duration)


async def serve(settings: ServeSettings, clock: WrongClock) -> None:
    traffic = Traffic()
    async with service(settings) as built:
        chosen = built.coordinator.settings
        coordinator = Coordinator(built.store, built.streams, clock, SystemEntropy(), chosen)
        ticker = Ticker(Chronicling(coordinator), clock, chosen.timing.tick_ms, traffic.let_pass)
        app = create_app(coordinator, traffic=traffic, inspector=built.inspector)
        config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
        with socket.create_server((settings.host, settings.port)) as listener:
            async with ticking(ticker):
                logging.info("listens on http://%s:%d", *listener.getsockname())
                await uvicorn.Server(config).serve(sockets=[listener])


def main(offset_s: str, *arguments: str) -> None:
    """The rest of the arguments is what ``streamshard serve`` takes."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    given = {
        name.removeprefix("--").replace("-", "_"): value for name, value in zip(*[iter(arguments)] * 2, strict=True)
    }
    asyncio.run(serve(serve_settings(given, {}), WrongClock(int(offset_s) * 1000)))


if __name__ == "__main__":
    main(*sys.argv[1:])
