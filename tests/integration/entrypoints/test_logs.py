"""What a coordinator's log looks like, and that nobody can write into it who should not."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from streamshard.entrypoints.logs import REQUEST, Json, Repeats, Text, fields, harmless, set_up

FORGED = "x\r\n2026-01-01 00:00:00,000 INFO forged\x1b[2J\x7f\u2028\u202e\u0085"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def record(message: str, *arguments: object, name: str = "streamshard.test", **more: Any) -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, "file.py", 1, message, arguments, more.pop("exc_info", None))


def failure(message: str) -> logging.LogRecord:
    try:
        raise ValueError(message)
    except ValueError:
        return record("request failed", exc_info=sys.exc_info())


def written(form: str, stream: io.StringIO) -> str:
    set_up(form, stream)
    logging.getLogger("streamshard.test").warning("something %s", "happened")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("form", "stream", "text"),
    [
        ("auto", Terminal(), True),
        ("auto", io.StringIO(), False),
        ("text", io.StringIO(), True),
        ("json", Terminal(), False),
    ],
)
def test_a_terminal_gets_text_and_everything_else_json_unless_told(
    form: str, stream: io.StringIO, *, text: bool
) -> None:
    line = written(form, stream)

    assert line.endswith(" WARNING something happened\n") == text
    assert line.startswith("{") != text


def test_a_line_in_json_has_time_level_logger_message_and_what_else_is_known() -> None:
    line = record("moved %d", 3)
    line.created = 1_799_960_412.345
    vars(line).update(fields(stream="orders", shards=[1, 2]))

    assert json.loads(Json().format(line)) == {
        "time": "2027-01-14T21:00:12.345Z",
        "level": "WARNING",
        "logger": "streamshard.test",
        "message": "moved 3",
        "stream": "orders",
        "shards": [1, 2],
    }


def test_a_record_of_a_change_is_an_object_within_the_line() -> None:
    line = record("%s", '{"action":"stream.create"}', name="streamshard.audit")

    told = json.loads(Json().format(line))

    assert (told["audit"], "message" in told) == ({"action": "stream.create"}, False)


@pytest.mark.parametrize("formatter", [Text(), Json()])
def test_no_text_of_a_caller_can_begin_a_line_or_command_a_terminal(formatter: logging.Formatter) -> None:
    line = formatter.format(record("member %s expired", FORGED))

    assert line.isprintable()
    assert "INFO forged" in line


def test_the_message_of_an_error_can_t_begin_a_line_either() -> None:
    told = Text().format(failure(FORGED)).split("\n")

    assert all(line.isprintable() for line in told)
    assert [line for line in told[1:] if not line.startswith("  | ")] == []
    assert "forged" in told[-1] or "forged" in told[-2]


def test_an_error_in_json_is_one_line_with_its_traceback() -> None:
    line = Json().format(failure(FORGED))

    assert line.isprintable()
    assert json.loads(line)["traceback"].startswith("Traceback (most recent call last):")


@pytest.mark.parametrize(("text", "shown"), [("plain ü …", "plain ü …"), ("a\nb", "a\\nb"), ("\x1b[1m", "\\x1b[1m")])
def test_what_a_line_can_t_hold_is_escaped(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_whatever_is_logged_while_a_request_is_answered_carries_its_id() -> None:
    token = REQUEST.set(b"abc-1")
    try:
        text, as_json = (formatter.format(record("slow")) for formatter in (Text(), Json()))
        once = Text().format(record("request abc-1 failed"))
    finally:
        REQUEST.reset(token)

    assert text.endswith(" WARNING slow (request abc-1)")
    assert json.loads(as_json)["requestId"] == "abc-1"
    assert once.endswith(" request abc-1 failed")


def test_of_many_lines_alike_five_are_written_and_the_others_counted_with_the_next() -> None:
    at = [0.0]
    repeats = Repeats(lambda: at[0])

    let_through = [repeats.filter(record("request %d failed", number)) for number in range(8)]
    other = repeats.filter(record("something else"))
    at[0] = 30.0
    later = record("request %d failed", 9)
    passed = repeats.filter(later)

    assert let_through == [True] * 5 + [False] * 3
    assert (other, passed) == (True, True)
    assert Text().format(later).endswith("request 9 failed (and 3 more like it before)")


def test_changes_are_different_lines_and_records_of_who_made_them_are_never_left_out() -> None:
    repeats = Repeats(lambda: 0.0)

    changes = [repeats.filter(record("%s", f"member-joined orders/billing: m{number}")) for number in range(20)]
    audit = [repeats.filter(record("%s", "{}", name="streamshard.audit")) for _ in range(20)]

    assert changes + audit == [True] * 40


def test_kinds_of_lines_are_remembered_within_bounds() -> None:
    repeats = Repeats(lambda: 0.0)

    for number in range(3_000):
        repeats.filter(record("%s", f"kind {number}"))

    assert len(repeats._windows) == 1_000
