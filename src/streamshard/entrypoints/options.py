"""Where a setting's text may come from, and which of those wins: argument, environment, file, default."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any

import attrs

from streamshard.adapters import redis_url

VARIABLE = "STREAMSHARD_"
CONFIG = "config"
"""Names the file; it stands among the arguments and in the environment, not in a file."""

OTHERS = (
    "ACCOUNTS_TOML",
    "CONFIG",
    "CA_FILE",
    "PASSWORD",
    "PASSWORD_FILE",
    "TOKEN",
    "TOKEN_FILE",
    "TOKEN_SECRET",
    "URL",
    "USER",
)
"""What follows ``STREAMSHARD_`` in variables that are no option of `serve`, and that somebody reads."""

_NEAR = 0.7
_LINKS = re.compile(r"_SERVICE_HOST|_SERVICE_PORT(_.*)?|_PORT(_[0-9]+_.*)?")


@attrs.frozen
class Option:
    """One thing that can be chosen: its argument, its default, and what it is for."""

    name: str
    default: str
    help: str
    secret: bool = attrs.field(default=False, kw_only=True)
    """Never shown, whatever it is."""
    in_file: bool = attrs.field(default=False, kw_only=True)
    """It may be a secret, or hold one: a file may be named that has the value."""

    @property
    def argument(self) -> str:
        """As typed on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """As set in the environment."""
        return VARIABLE + self.name.upper()

    @property
    def file_variable(self) -> str | None:
        """Names a file that holds the value, where that may be a secret."""
        return f"{self.variable}_FILE" if self.in_file else None

    @property
    def file_key(self) -> str | None:
        """As `file_variable`, in the configuration file."""
        return f"{self.name}_file" if self.in_file else None


class Layer(Enum):
    """Who said it; the first of them wins."""

    ARGUMENT = "argument"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


@attrs.frozen
class Found:
    """What an option was set to, and where."""

    option: Option
    text: str = attrs.field(repr=False)
    layer: Layer
    source: str
    """The name under which it was set: ``--lease``, ``STREAMSHARD_LEASE``, ``lease in coordinator.toml``."""


class Sources:
    """Finds each option's text; what is wrong with the sources themselves is gathered in ``problems``."""

    def __init__(
        self, options: Sequence[Option], arguments: Mapping[str, str | None], environment: Mapping[str, str]
    ) -> None:
        self._arguments = arguments
        self._environment = environment
        self.problems: list[str] = [*_misspelt(options, environment)]
        self._path, self._file = self._read_file(options)

    def find(self, option: Option) -> Found:
        """The text that wins; the default where a file that is named can't be read, which is a problem."""
        argument = self._arguments.get(option.name)
        if argument is not None:
            return Found(option, argument, Layer.ARGUMENT, option.argument)
        found = self._in(Layer.ENVIRONMENT, option, self._environment, option.variable, option.file_variable)
        found = found or self._in(Layer.FILE, option, self._file, option.name, option.file_key)
        return found or Found(option, option.default, Layer.DEFAULT, option.argument)

    def _in(
        self, layer: Layer, option: Option, texts: Mapping[str, str], name: str, file_name: str | None
    ) -> Found | None:
        text, path = texts.get(name, ""), texts.get(file_name or "", "")
        if text and path:
            self.problems.append(f"{self._named(layer, file_name)}: is set beside {name}: unset one of them")
        if path:
            return self._content(Found(option, path, layer, self._named(layer, file_name)))
        # Kubernetes sets STREAMSHARD_PORT=tcp://… in every pod beside a service called "streamshard".
        if not text or (layer is Layer.ENVIRONMENT and option.name == "port" and text.startswith("tcp://")):
            return None
        return Found(option, text, layer, self._named(layer, name))

    def _content(self, named: Found) -> Found | None:
        try:
            return attrs.evolve(named, text=redis_url.read_password(named.text))
        except OSError as error:
            self.problems.append(f"{named.source}: the file can't be read: {error.strerror}")
            return None

    def _named(self, layer: Layer, name: str | None) -> str:
        return f"{name} in {self._path}" if layer is Layer.FILE else str(name)

    def _read_file(self, options: Sequence[Option]) -> tuple[str, dict[str, str]]:
        argument = self._arguments.get(CONFIG)
        source = "--config" if argument is not None else VARIABLE + CONFIG.upper()
        path = argument if argument is not None else self._environment.get(source, "")
        if argument is None and not path:
            return "", {}
        try:
            given = tomllib.loads(Path(path).read_text("utf-8"))
        except OSError as error:
            self.problems.append(f"{source}: the file {path!r} can't be read: {error.strerror}")
        except ValueError as error:  # no UTF-8, or no TOML; the message tells of a place, not of what is there
            why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
            self.problems.append(f"{source}: the file {path!r} is no TOML: {why}")
        else:
            return path, self._texts(path, given, options)
        return path, {}

    def _texts(self, path: str, given: Mapping[str, Any], options: Sequence[Option]) -> dict[str, str]:
        known = [name for option in options for name in (option.name, option.file_key) if name]
        texts: dict[str, str] = {}
        for name, value in given.items():
            if name not in known:
                self.problems.append(f"{name!r} in {path}: is no setting{_did_you_mean(name, known)}")
            elif isinstance(value, bool):
                texts[name] = "true" if value else "false"
            elif isinstance(value, str | int | float):
                texts[name] = str(value)
            else:
                self.problems.append(f"{name} in {path}: must be a string or a number")
        return texts


def _misspelt(options: Sequence[Option], environment: Mapping[str, str]) -> Iterator[str]:
    """Variables that are nearly a setting's. Others may be anybody's: Kubernetes makes some up, for instance."""
    own = [option.variable.removeprefix(VARIABLE) for option in options]
    known = [*OTHERS, *own, *(f"{option.name.upper()}_FILE" for option in options if option.in_file)]
    for variable in sorted(environment):
        name = variable.removeprefix(VARIABLE)
        if name == variable or name in known or _LINKS.search(f"_{name}"):
            continue
        if near := get_close_matches(name, own, 1, _NEAR) or get_close_matches(name, known, 1, _NEAR):
            yield f"{variable}: is no setting: did you mean {VARIABLE}{near[0]}?"


def _did_you_mean(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, 1, _NEAR)
    return f": did you mean {near[0]}?" if near else f": there are {', '.join(known)}"
