"""How a command ends when it can't do what was asked: one sentence, a next step, and an exit code."""

import enum
from typing import IO, Any

import click

from streamshard.errors import (
    ConfigurationError,
    Conflict,
    CoordinatorUnreachable,
    Forbidden,
    InvalidRequest,
    NotAllowed,
    NotFound,
    StreamshardError,
    StreamUnavailable,
    Unauthenticated,
)


class ExitCode(enum.IntEnum):
    """What scripts may rely on."""

    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    UNAUTHORISED = 5
    UNREACHABLE = 6
    TIMED_OUT = 7


_CODES: dict[type[StreamshardError], ExitCode] = {
    InvalidRequest: ExitCode.USAGE,
    NotFound: ExitCode.NOT_FOUND,
    Unauthenticated: ExitCode.UNAUTHORISED,
    Forbidden: ExitCode.UNAUTHORISED,
    Conflict: ExitCode.REFUSED,
    NotAllowed: ExitCode.REFUSED,
    CoordinatorUnreachable: ExitCode.UNREACHABLE,
    StreamUnavailable: ExitCode.UNREACHABLE,
    ConfigurationError: ExitCode.ERROR,
}


class Failure(click.ClickException):
    """Shown on standard error; ends the process with its code."""

    exit_code: int  # type: ignore[misc]

    def __init__(self, message: str, code: ExitCode, next_step: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = int(code)
        self.next_step = next_step

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence and what to try."""
        click.echo(f"Error: {self.message}", file=file, err=file is None)
        if self.next_step:
            click.echo(f"Try: {self.next_step}", file=file, err=file is None)


def failure(error: StreamshardError) -> Failure:
    """What an error of the library, or of the coordinator, means to a script."""
    code = next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), ExitCode.ERROR)
    return Failure(error.message, code, getattr(error, "next_step", None))
