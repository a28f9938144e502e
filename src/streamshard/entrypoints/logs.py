"""What a coordinator's log looks like: text for people, JSON for programs; no line can be forged in either."""

import datetime
import json
import logging
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import IO, Any

import attrs

REQUEST: ContextVar[bytes | None] = ContextVar("streamshard_request", default=None)
"""The id of the request that this task answers."""

FORMATS = ("auto", "text", "json")

MOST_ALIKE = 5
"""Lines of one kind that are written within `WINDOW_S`; the others are counted."""

WINDOW_S = 30.0
MOST_KINDS = 1_000

_AUDIT = "streamshard.audit"
_MORE = "streamshard_more"
_FIELDS = "streamshard_fields"


def fields(**told: object) -> dict[str, object]:
    """For ``extra=``: what a line in JSON says besides, by name."""
    return {_FIELDS: told}


def set_up(form: str, stream: IO[str] | None = None) -> None:
    """Let the process log to ``stream``, standard error unless given; ``auto`` is text on a terminal, else JSON."""
    to = stream or sys.stderr
    text = form == "text" or (form == "auto" and to.isatty())
    handler = logging.StreamHandler(to)
    handler.setFormatter(Text() if text else Json())
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)


class Text(logging.Formatter):
    """``time LEVEL message``; what a line can't hold is escaped, and lines of a traceback are marked as such."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback if there is one."""
        told = f"{self.formatTime(record)} {record.levelname} {harmless(_message(record))}"
        request = REQUEST.get()
        if request is not None and request.decode() not in told:
            told += f" (request {request.decode()})"
        trace = _traceback(self, record)
        return told if trace is None else "\n  | ".join((told, *map(harmless, trace.splitlines())))


class Json(logging.Formatter):
    """One object a line, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, message, and what else is known."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        told: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
        }
        if record.name == _AUDIT:
            told["audit"] = json.loads(record.getMessage())
        else:
            told["message"] = _message(record)
        told |= getattr(record, _FIELDS, {})
        if (request := REQUEST.get()) is not None:
            told["requestId"] = request.decode()
        if (trace := _traceback(self, record)) is not None:
            told["traceback"] = trace
        return json.dumps(told, ensure_ascii=True, default=str).replace("\x7f", "\\u007f")


@attrs.define
class _Window:
    """Half a minute of one kind."""

    began: float
    told: int = 0
    unsaid: int = 0


class Repeats(logging.Filter):
    """Lets a kind of line through a few times in half a minute, and says of the next one how many were left out.

    Records of who changed what are all let through. A kind is the message without what is put into it.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._windows: dict[object, _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is written."""
        if record.name == _AUDIT:
            return True
        kind, now = _kind(record), self._now()
        window = self._windows.get(kind)
        if window is None or now - window.began >= WINDOW_S:
            if window is not None and window.unsaid:
                setattr(record, _MORE, window.unsaid)
            window = self._begin(kind, now)
        window.told += 1
        window.unsaid += window.told > MOST_ALIKE
        return window.told <= MOST_ALIKE

    def _begin(self, kind: object, now: float) -> _Window:
        self._windows.pop(kind, None)
        if len(self._windows) >= MOST_KINDS:
            del self._windows[next(iter(self._windows))]
        window = self._windows[kind] = _Window(now)
        return window


def harmless(text: str) -> str:
    """``text`` in one line, with nothing that a terminal or a reader of lines takes for a command."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def _kind(record: logging.LogRecord) -> object:
    what = record.getMessage() if record.msg == "%s" else record.msg
    failed = record.exc_info[0] if record.exc_info else None
    return record.name, record.levelno, what, failed


def _message(record: logging.LogRecord) -> str:
    more = getattr(record, _MORE, 0)
    return record.getMessage() + (f" (and {more} more like it before)" if more else "")


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    return formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else None
