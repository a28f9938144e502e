"""The console script's way in."""

import sys


def main() -> None:
    """Run the command line; says what to install where its extra is missing."""
    try:
        from streamshard.entrypoints.cli.root import cli
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("Error: the command line needs an extra that is not installed\nTry: pip install 'streamshard[cli]'")
    cli(prog_name="streamshard")


if __name__ == "__main__":
    main()
