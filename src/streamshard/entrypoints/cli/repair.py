"""``streamshard repair``."""

import asyncio
from collections.abc import Sequence

import click

from streamshard.core.ids import Millis, StreamPrefix
from streamshard.entrypoints.cli.failures import ExitCode, Failure
from streamshard.entrypoints.cli.output import emit, output_option
from streamshard.entrypoints.settings import MEMORY, SQLITE, ServeSettings, serve_settings
from streamshard.errors import ConfigurationError

TIMEOUT = Millis(5_000)


@click.group()
def repair() -> None:
    """Mend what was damaged behind the coordinators' back."""


@repair.command()
@click.option(
    "--store",
    required=True,
    envvar="STREAMSHARD_STORE",
    help="The Redis with the metadata, as coordinators are told it; also STREAMSHARD_STORE.",
)
@output_option
def index(store: str) -> None:
    """List every stream again whose record is in Redis. Coordinators may go on meanwhile."""
    found = asyncio.run(_rebuilt(_checked(store).store))
    emit({"streams": found}, "\n".join([f"{len(found)} streams in the index", *found]))


def _checked(store: str) -> ServeSettings:
    try:
        settings = serve_settings({"store": store}, {})
    except ConfigurationError as error:
        raise Failure(error.message, ExitCode.USAGE) from None
    if store == MEMORY or store.startswith(SQLITE):
        raise Failure(
            "--store: only metadata in Redis has an index; every other store looks for itself", ExitCode.USAGE
        )
    return settings


async def _rebuilt(url: str) -> Sequence[StreamPrefix]:
    # Imported here: nobody else waits for the driver.
    from streamshard.adapters.stores.redis import RedisStore

    store = await RedisStore.open(url, TIMEOUT)
    try:
        return await store.rebuild_index()
    finally:
        await store.close()
