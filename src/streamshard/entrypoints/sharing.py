"""Options that several listeners share, and handlers that are methods of one object."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, Unpack, cast

from streamshard.entrypoints.listening import Listener, ListenerOptions, group_key
from streamshard.errors import ConfigurationError

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

_MARK = "__streamshard_listens__"


class Registering(Protocol):
    """Where listeners are registered."""

    def listener(
        self, prefix: str, *, group: str, **options: Unpack[ListenerOptions]
    ) -> Callable[[_Decorated], _Decorated]:
        """As `StreamApp.listener`."""
        ...


def listens(prefix: str, *, group: str, **options: Unpack[ListenerOptions]) -> Callable[[_Decorated], _Decorated]:
    """Mark a method as handler of ``prefix`` for `register`; options as of `StreamApp.listener`. May be repeated."""

    def mark(method: _Decorated) -> _Decorated:
        marks = [*getattr(method, _MARK, ()), (prefix, group, options)]
        setattr(method, _MARK, marks)
        return method

    return mark


class Listeners:
    """Listeners of an app that share options; made by `StreamApp.listeners`.

    Raises `ConfigurationError` for a default that no listener could have.
    """

    def __init__(self, app: Registering, defaults: ListenerOptions) -> None:
        check_options(defaults)
        Listener(group_key("any", "any"), _any_handler, **defaults)
        self._app, self._defaults = app, defaults

    def listener(
        self, prefix: str, *, group: str, **options: Unpack[ListenerOptions]
    ) -> Callable[[_Decorated], _Decorated]:
        """As `StreamApp.listener`; what is left out is as in the defaults."""
        return self._app.listener(prefix, group=group, **cast(ListenerOptions, {**self._defaults, **options}))

    def register(self, handlers: object) -> None:
        """Let the methods of ``handlers`` listen that are marked with `listens`, in the order they are defined in."""
        names = {name: None for kind in reversed(type(handlers).__mro__) for name in vars(kind)}
        methods = [getattr(handlers, name, None) for name in names]
        marked = [method for method in methods if callable(method) and _marks(method)]
        if not marked:
            raise ConfigurationError(f"register: {type(handlers).__name__} has no method that is marked with listens()")
        for method in marked:
            for prefix, group, options in _marks(method):
                self.listener(prefix, group=group, **options)(method)


def check_options(options: ListenerOptions) -> None:
    """Raise `ConfigurationError` for a name that is no option of a listener."""
    known = ListenerOptions.__annotations__
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ConfigurationError(f"{unknown[0]}: is no option of a listener, which are {', '.join(sorted(known))}")


def _marks(method: object) -> list[tuple[str, str, ListenerOptions]]:
    return getattr(method, _MARK, []) if callable(method) else []


def _any_handler(message: object) -> None:
    """Stands for a handler that is not there yet."""
