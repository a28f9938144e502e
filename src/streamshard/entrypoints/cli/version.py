"""``streamshard version``."""

from importlib.metadata import version as installed

import click


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(f"streamshard {installed('streamshard')}")
